"""What a broker asks of its exchange with other clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from random import Random

from iriai.broker.queue.entries import QueuedJob
from iriai.broker.state.state import BrokerState
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.reason import Reason
from iriai.protocol.messages.candidates import ClusterPeer
from iriai.protocol.messages.effects import Effect
from iriai.protocol.messages.scheduling import BetweenClusters, Want


class OtherClusters:
    """The exchange of a broker whose cluster is alone: nothing goes out, nothing comes in.

    `broker.federation` exchanges tasks; only compositions know it. Times are of the steady clock.
    """

    def __init__(self, machine: str, state: BrokerState, rng: Random) -> None:
        self.must_pass = False
        """Whether the waiting tasks changed since the last pass."""
        self.next_s = inf
        """When something is due next, as of the last `end_turn`."""

    def peers_changed(self, own: str, peers: Iterable[ClusterPeer]) -> None:
        """Take the clusters of the site; `own` is the name of this broker's."""

    def corrected(self, sender: str, broker: str) -> bool:
        """Take the name of another cluster's broker from a machine that was addressed as such.

        Returns whether the machine was addressed.
        """
        return False

    def receive(self, message: BetweenClusters, now: Instant) -> None:
        """Handle a message of another cluster's broker."""

    def waits_here(self, want: Want, queued: int) -> int:
        """Return how many tasks of a request wait here, of which `queued` did before."""
        return want.count

    def forget(self, job: JobId) -> None:
        """Forget a job that was withdrawn."""

    def forget_home(self, home: str) -> None:
        """Forget the forwarded tasks of a home that is offline."""

    def is_over(self, entry: QueuedJob) -> bool:
        """Return whether a failed match was of a forwarded job that is no longer open."""
        return False

    def end_turn(self, now: Instant, *, is_calm: bool, has_passed: bool) -> list[Effect]:
        """Return the messages to other brokers; `is_calm`: no waiting task could start here now.

        `has_passed`: there was a pass, which may have changed the queue.
        """
        return []

    def may_run_elsewhere(self, want: Want) -> bool:
        """Return whether another cluster is known to have a machine that is large enough."""
        return False

    def explain(self, job: JobId, now_s: float) -> list[Reason]:
        """Return why a job that waits here has not been started by other clusters."""
        return []


Federate = Callable[[str, BrokerState, Random], OtherClusters]
"""Makes the exchange of the broker on a machine; it may draw from the generator."""
