"""How many ranks machines hold, found by trying all ways to lay them."""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations

from hypothesis import strategies as st

from iriai.model.ranks import RankShape

FITS = st.lists(st.integers(1, 6), min_size=1, max_size=5)
SHAPES = st.tuples(
    st.integers(1, 14),
    st.integers(0, 6),
    st.none() | st.integers(1, 5),
    st.none() | st.integers(1, 4),
).map(lambda drawn: RankShape(drawn[0], drawn[0] + drawn[1], drawn[2], drawn[3]))


def lies(parts: tuple[int, ...], ranks: int, shape: RankShape) -> bool:
    """Whether so many ranks on each of some machines are what the shape asks for."""
    return (
        sum(parts) == ranks
        and shape.least <= ranks <= shape.most
        and (shape.per_node is None or set(parts) == {shape.per_node})
        and (shape.nodes is None or (len(parts) == shape.nodes and max(parts) - min(parts) <= 1))
    )


def most_by_trying(fits: list[int], shape: RankShape) -> int:
    """The most ranks of all ways to lay ranks on machines."""
    best = 0
    for size in range(1, len(fits) + 1):
        for parts in combinations_with_replacement(range(1, max(fits) + 1), size):
            if lies(parts, sum(parts), shape) and sum(parts) > best:
                for machines in permutations(fits, size):
                    if all(part <= fit for part, fit in zip(parts, machines, strict=True)):
                        best = sum(parts)
                        break
    return best
