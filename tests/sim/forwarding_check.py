"""How often tasks are passed on between clusters, by the messages of their brokers."""

from __future__ import annotations

from collections.abc import Callable

from iriai.machine.outbox import Turn
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.protocol.messages.effects import Send
from iriai.protocol.messages.scheduling import Forward, Returned
from iriai.sim.world.machine_model import SimulatedMachine

HOPS_MAX = 2
"""The limit of docs/spec/008."""


class ForwardingCheck:
    """Counts how often tasks are forwarded, by each message that leaves a machine."""

    def __init__(self, cluster_of: Callable[[str], str]) -> None:
        """`cluster_of` returns the cluster of a machine."""
        self._cluster_of = cluster_of
        self._open: dict[str, dict[tuple[str, int], tuple[JobId, int]]] = {}
        """What each machine was asked and has not answered, by who asked and number: the job, and
        how often it was passed on. A job may come from two brokers; one of them is answered."""
        self.longest = 0

    def __call__(self, machine: SimulatedMachine, turn: Turn, _now: Instant) -> None:
        """Check what a machine says after a turn; see `World.watchers`."""
        for effect in turn.outward:
            if isinstance(effect, Send):
                self.sent(machine.plan.name, effect)

    def sent(self, sender: str, send: Send) -> None:
        """Raise if a task is forwarded too often, within a cluster, or to its home's cluster."""
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
