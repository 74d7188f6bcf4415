"""How many ranks a task has, and how they lie on machines (docs/spec/011, section 2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

from iriai.model.bounds import Name
from iriai.model.problem import UsageProblem

RANKS_MAX = 65_536
"""Of one attempt."""
SEATS_MAX = 4_096
"""Machines of one attempt."""
STAGES_MAX = 16
"""Commands of one parallel pipe."""

RankCount = Annotated[int, msgspec.Meta(ge=1, le=RANKS_MAX)]
SeatCount = Annotated[int, msgspec.Meta(ge=1, le=SEATS_MAX)]


class SeatPlace(NamedTuple):
    """One seat of an attempt."""

    machine: Name
    ranks: RankCount


SeatPlaces = Annotated[tuple[SeatPlace, ...], msgspec.Meta(max_length=SEATS_MAX)]
"""Of one attempt, in order of their ranks."""

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


class RankShape(NamedTuple):
    """Ranks, machines, and ranks on each machine."""

    least: RankCount = 1
    most: RankCount = 1
    """As many as fit when the task starts, of `least` to `most`."""
    nodes: SeatCount | None = None
    """Exactly so many machines, with ranks spread evenly; None: as few as hold them."""
    per_node: RankCount | None = None
    """Exactly so many ranks on each machine; None: as many as fit."""

    def words(self) -> str:
        """Return it for messages."""
        ranks = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
        words = f"{ranks} rank{'' if self.most == 1 else 's'}"
        if self.nodes is not None:
            words += f" on {self.nodes} machine{'' if self.nodes == 1 else 's'}"
        if self.per_node is not None:
            words += f", {self.per_node} on each"
        return words

    def ranks_below(self, ranks: int) -> int:
        """Return the largest number of ranks that the shape has, `ranks` at most; 0: none."""
        ranks = min(ranks, self.most)
        if self.per_node is not None:
            ranks -= ranks % self.per_node
        return ranks if ranks >= max(self.least, self.nodes or 1) else 0

    @property
    def is_possible(self) -> bool:
        """Whether seats of this shape can be thought of: its numbers do not contradict."""
        ranks = self.most
        if self.per_node is not None and self.nodes is not None:
            ranks = self.per_node * self.nodes
            if not self.least <= ranks <= self.most:
                return False
        machines = 1 if self.per_node is None else -(-self.least // self.per_node)
        return self.least <= self.most and self.ranks_below(ranks) > 0 and machines <= SEATS_MAX

    @property
    def ranks_text(self) -> str:
        """The ranks as `-n` takes them."""
        return str(self.least) if self.least == self.most else f"{self.least}-{self.most}"

    @property
    def options(self) -> str:
        """The options that ask for it."""
        nodes = "" if self.nodes is None else f" --nodes {self.nodes}"
        per_node = "" if self.per_node is None else f" --per-node {self.per_node}"
        return f"-n {self.ranks_text}{nodes}{per_node}"

    def __str__(self) -> str:
        parts = [f"{self.ranks_text} rank{'' if self.most == 1 else 's'}"]
        if self.nodes is not None:
            parts.append(f"on {self.nodes} machine{'' if self.nodes == 1 else 's'}")
        if self.per_node is not None:
            parts.append(f"{self.per_node} on each")
        return ", ".join(parts)


ONE = RankShape()
"""The shape of a task that is not parallel."""


def has_shape(places: Sequence[tuple[str, int]], shape: RankShape) -> bool:
    """Return whether a task of `shape` may have these machines and ranks, each machine once."""
    ranks = [count for _, count in places]
    if not ranks or min(ranks) < 1 or len(places) > SEATS_MAX:
        return False
    if len({machine for machine, _ in places}) < len(places):
        return False
    if shape.nodes is not None and (len(places) != shape.nodes or max(ranks) - min(ranks) > 1):
        return False
    if shape.per_node is not None and {*ranks} != {shape.per_node}:
        return False
    return shape.least <= sum(ranks) <= shape.most


def shape_of(ranks: str, nodes: int | None = None, per_node: int | None = None) -> RankShape:
    """Return the shape of `-n RANKS`, `--nodes` and `--per-node`; empty `ranks`: as the others say.

    Raises:
        UsageProblem: they contradict one another, or are more than there can be.
    """
    for option, count, most in (("--nodes", nodes, SEATS_MAX), ("--per-node", per_node, RANKS_MAX)):
        if count is not None and not 1 <= count <= most:
            raise _bad(f"{option} {count} is not from 1 to {most}", f"use 1 to {most}")
    least, most = _range_of(ranks) if ranks else (_implied(nodes, per_node),) * 2
    if not 1 <= least <= most <= RANKS_MAX:
        raise _bad(
            f"-n {ranks or most} is not from 1 to {RANKS_MAX} ranks, the smaller number first",
            f"use 1 to {RANKS_MAX}",
        )
    if nodes is not None and per_node is not None:
        if not least <= nodes * per_node <= most:
            raise _bad(
                f"--nodes {nodes} with --per-node {per_node} are {nodes * per_node} ranks, "
                f"and -n says {ranks}",
                f"leave out one of the three, or say -n {nodes * per_node}",
            )
        least = most = nodes * per_node
    shape = RankShape(least, most, nodes, per_node)
    if not shape.ranks_below(most):
        raise _bad(*_why_none(shape))
    machines = -(-least // per_node) if per_node is not None else 1
    if machines > SEATS_MAX:
        raise _bad(
            f"-n {shape.ranks_text} with --per-node {per_node} are {machines} machines, of which "
            f"a task may have {SEATS_MAX}",
            f"say --per-node {-(-least // SEATS_MAX)}, or fewer ranks",
        )
    return shape


def _implied(nodes: int | None, per_node: int | None) -> int:
    return (nodes or 1) * (per_node or 1)


def _range_of(text: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(text)
    if not found:
        raise _bad(f"'-n {text}' is no number of ranks", "write -n 8, or -n 4-16 for a range")
    least = int(found[1])
    return least, int(found[2] or least)


def _why_none(shape: RankShape) -> tuple[str, str]:
    """Return why there is no number of ranks of this shape, and which there could be."""
    if shape.per_node is not None:
        near = -(-shape.least // shape.per_node) * shape.per_node
        return (
            f"-n {shape.ranks_text} is no multiple of --per-node {shape.per_node}",
            f"say -n {near}, or leave out --per-node",
        )
    return (
        f"-n {shape.ranks_text} are too few ranks for --nodes {shape.nodes}, of at least one each",
        f"say --nodes {shape.most}, or -n {shape.nodes}",
    )


def _bad(message: str, hint: str) -> UsageProblem:
    return UsageProblem("bad-shape", message, hint)
