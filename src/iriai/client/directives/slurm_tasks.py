"""The tasks of an sbatch script as ranks: how many, on which machines, with what each."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from iriai.client.directives.option import Collected, Given, contradiction
from iriai.client.directives.translator import whole
from iriai.model.ranks import RankShape


class TaskCounts(NamedTuple):
    """What of a script says how many tasks there are; None: nothing does."""

    tasks: tuple[int, int] | None
    """The least and the most."""
    nodes: tuple[int, int] | None
    """The least and the most."""
    per_node: int | None
    """At most."""

    def shape(self, found: Collected) -> RankShape:
        """Return the ranks that keep to it; raise `UsageProblem` if none can."""
        if self.tasks is None:
            return self._shape_of_nodes()
        least, most = self.tasks
        per_node, nodes = self.per_node, self.nodes
        needed = 1 if per_node is None else -(-most // per_node)
        if nodes is None:
            if needed == 1:
                return RankShape(least, most)
            if least == most and most % needed == 0 and most // needed == per_node:
                return RankShape(least, most, per_node=per_node)
            return RankShape(least, most, nodes=needed)
        if needed > nodes[1] and len(at := found.find("--ntasks", "--ntasks-per-node")) > 1:
            raise contradiction(*at)
        return RankShape(least, most, nodes=min(max(nodes[0], needed), least))

    def _shape_of_nodes(self) -> RankShape:
        """Return the shape of `--nodes` with, or else one, task on each."""
        each = self.per_node or 1
        least, most = self.nodes or (1, 1)
        if least != most:
            return RankShape(least * each, most * each, per_node=each)
        return RankShape(least * each, least * each, nodes=least)


def tasks_on_each(shape: RankShape) -> int:
    """Return the most ranks on one machine, of a shape that says so."""
    if shape.per_node is not None:
        return shape.per_node
    return -(-shape.most // (shape.nodes or 1))


class Share(NamedTuple):
    """A number of GPUs that the script asks for, as a part for each task."""

    given: Given
    each: Fraction


def single_share(shares: list[Share]) -> Share | None:
    """Return the share that all of `shares` are; raise `UsageProblem` if they differ."""
    for each in shares[1:]:
        if each.each != shares[0].each:
            raise contradiction(shares[0].given, each.given)
    return shares[0] if shares else None


def node_range(given: Given) -> tuple[int, int]:
    """Return the machines of `--nodes=N` or `N-M`; raise `UsageProblem`."""
    least, _, most = given.value.partition("-")
    first, last = whole(given, least), whole(given, most or least)
    return first, max(first, last)
