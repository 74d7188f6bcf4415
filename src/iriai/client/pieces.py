"""Many names in several requests, since one request may name so many and no more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise


def pieces(names: tuple[str, ...], most: int) -> Iterator[tuple[str, ...]]:
    """`names` in pieces of about the same size, of at most `most`; one piece where there are none.

    No piece has one name where there are more in all: a problem with a request's only name is the
    request's, and would hide what became of the others.
    """
    count = max(1, -(-len(names) // most))
    bounds = [len(names) * place // count for place in range(count + 1)]
    for first, last in pairwise(bounds):
        yield names[first:last]
