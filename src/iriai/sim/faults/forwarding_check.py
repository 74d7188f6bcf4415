"""How often tasks are really passed on, whatever the messages say of it."""

from __future__ import annotations

from collections.abc import Callable

from iriai.model.ids import JobId
from iriai.protocol.messages.effects import Send
from iriai.protocol.messages.scheduling import Forward, Returned

HOPS_MAX = 2
"""What docs/spec/008 permits."""


class ForwardingCheck:
    """Is told of each message that leaves a machine."""

    def __init__(self, cluster_of: Callable[[str], str]) -> None:
        """`cluster_of` says in which cluster a machine is."""
        self._cluster_of = cluster_of
        self._open: dict[str, dict[tuple[str, int], tuple[JobId, int]]] = {}
        """What each machine was asked and has not answered, by who asked and number: the job, and
        how often it was passed on. A job may come from two brokers; one of them is answered."""
        self.longest = 0

    def sent(self, sender: str, send: Send) -> None:
        """Raise where a task was passed on too often, or to where it came from."""
        message = send.message
        if isinstance(message, Returned):
            self._open.get(sender, {}).pop((send.machine, message.number), None)
        elif isinstance(message, Forward):
            self._passed_on(sender, send.machine, message)

    def _passed_on(self, sender: str, receiver: str, forward: Forward) -> None:
        job = forward.want.job
        home, there = self._cluster_of(job.home), self._cluster_of(receiver)
        assert there != self._cluster_of(sender), f"{sender} passes {job} on within its cluster"
        assert there != home, f"{sender} passes {job} on to the cluster of its home"
        is_own = self._cluster_of(sender) == home
        came = [hops for known, hops in self._open.get(sender, {}).values() if known == job]
        hops = 1 if is_own else min(came, default=0) + 1
        assert hops <= HOPS_MAX, f"{job} is passed on {hops} times, the last time by {sender}"
        self._open.setdefault(receiver, {})[sender, forward.number] = job, hops
        self.longest = max(self.longest, hops)
