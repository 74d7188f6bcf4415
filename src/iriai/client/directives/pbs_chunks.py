"""The chunks of `select` and `nodes` in a qsub script, as ranks and what each of them has."""

from __future__ import annotations

from typing import NamedTuple

from iriai.model.ranks import ONE, RankShape


class Chunks(NamedTuple):
    """Equal parts of a job, each on one machine."""

    number: int = 1
    cpus: int = 1
    """Of each."""
    ranks: int = 1
    """Processes of each: `mpiprocs`, or `ppn`."""
    gpus: int = 0
    memory_bytes: int = 0
    nodes: int | None = None
    """Machines, if the script says how many."""

    @property
    def shape(self) -> RankShape:
        """The ranks of all chunks."""
        ranks = self.number * self.ranks
        return ONE if ranks == 1 else RankShape(ranks, ranks, nodes=self.nodes)

    @property
    def divides(self) -> bool:
        """Whether the ranks of a chunk can have equally many of its CPUs and GPUs."""
        return self.cpus % self.ranks == 0 and self.gpus % self.ranks == 0

    @property
    def joined(self) -> Chunks:
        """One chunk of one rank, with all of one chunk."""
        return self._replace(number=1, ranks=1, nodes=None)

    @property
    def memory_of_rank_bytes(self) -> int:
        """The memory of a rank; 0: none is asked for."""
        return -(-self.memory_bytes // self.ranks)
