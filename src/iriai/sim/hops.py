"""How often tasks are really passed on, whatever the messages say of it."""

from __future__ import annotations

from collections.abc import Callable

from iriai.model.ids import JobId
from iriai.protocol.effects import Send
from iriai.protocol.messages import Forward

HOPS_MAX = 2
"""What docs/spec/008 permits."""


class Hops:
    """Is told of each message that leaves a machine."""

    def __init__(self, cluster_of: Callable[[str], str]) -> None:
        """`cluster_of` says in which cluster a machine is."""
        self._cluster_of = cluster_of
        self._hops: dict[tuple[JobId, str], int] = {}
        """How often what was last passed on to a machine had been passed on, by job."""
        self.longest = 0

    def sent(self, sender: str, send: Send) -> None:
        """Raise where a task was passed on too often, or to where it came from."""
        forward = send.message
        if not isinstance(forward, Forward):
            return
        job = forward.want.job
        home, there = self._cluster_of(job.home), self._cluster_of(send.machine)
        assert there != self._cluster_of(sender), f"{sender} passes {job} on within its cluster"
        assert there != home, f"{sender} passes {job} on to the cluster of its home"
        is_own = self._cluster_of(sender) == home
        hops = 1 if is_own else self._hops.get((job, sender), 0) + 1
        assert hops <= HOPS_MAX, f"{job} is passed on {hops} times, the last time by {sender}"
        self._hops[job, send.machine] = hops
        self.longest = max(self.longest, hops)
