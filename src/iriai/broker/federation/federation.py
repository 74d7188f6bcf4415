"""The broker's exchange with brokers of other clusters (docs/spec/008, section 6).

It reports free capacity, forwards tasks that none of its own machines can start now, and starts
tasks that others forward. Without other clusters it does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from random import Random

from iriai.broker.federation.forwarded_jobs import ForwardedJobs, guest_want
from iriai.broker.federation.forwarding import Forwarder, portions_of
from iriai.broker.federation.peer_clusters import PeerCluster, PeerClusters, Portions
from iriai.broker.queue.entries import QueuedJob, is_guest
from iriai.broker.scheduling.explain import queue_stopped
from iriai.broker.state.contention import DecisionRng
from iriai.broker.state.other_clusters import OtherClusters
from iriai.broker.state.state import BrokerState
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.protocol.messages.candidates import ClusterPeer
from iriai.protocol.messages.effects import Effect, Send
from iriai.protocol.messages.scheduling import BetweenClusters, Forward, Returned, Summary, Want

CLUSTERS_TOLD_MAX = 8
"""Clusters whose reasons are listed for a job that does not run there."""


class Federation(OtherClusters):
    """The broker's exchange with brokers of other clusters. Times are those of the steady clock."""

    def __init__(self, machine: str, state: BrokerState, rng: Random) -> None:
        """`rng` gives a seed once there are other clusters, not before."""
        super().__init__(machine, state, rng)
        self.peers = PeerClusters(machine)
        self._state = state
        self._rng = rng
        self._decision_rng: DecisionRng | None = None
        self._forwarder = Forwarder(machine, self.peers)
        self._forwarded = ForwardedJobs(machine)
        self._may_choose = False
        """Whether anything changed since tasks to forward were last chosen."""

    def peers_changed(self, own: str, peers: Iterable[ClusterPeer]) -> None:
        """Take the clusters of the site; `own` is the name of this broker's."""
        self.peers.peers_changed(own, peers)
        if self.peers.known and self._decision_rng is None:
            self._decision_rng = DecisionRng(self._rng)

    def corrected(self, sender: str, broker: str) -> bool:
        """Take the name of a cluster's broker from a machine that was addressed as such."""
        return self.peers.corrected(sender, broker)

    # --- messages of other brokers ---------------------------------------------------------------

    def receive(self, message: BetweenClusters, now: Instant) -> None:
        """Handle a message of another cluster's broker."""
        self._may_choose = True
        match message:
            case Summary():
                self.peers.took(message, now.steady_s)
            case Forward():
                self._receive_forward(message, now.steady_s)
            case Returned():
                self.must_pass |= self._forwarder.returned(message, self._state, now.steady_s)

    def _receive_forward(self, forward: Forward, now_s: float) -> None:
        self.peers.received_forward(forward.broker)
        want = forward.want
        is_known = want.job in self._state.queues.entries or self._forwarder.has(want.job)
        if want.count > 0 and self._forwarded.receive(forward, is_known=is_known):
            account = self._state.counts_for(want.account)
            self._state.put(guest_want(want, account), now_s)
            self.must_pass = True

    # --- what becomes of jobs --------------------------------------------------------------------

    def waits_here(self, want: Want, queued: int) -> int:
        """Return how many tasks of a request wait here, of which `queued` did before."""
        job = want.job
        if job in self._forwarded.open:  # its home is of this cluster now
            self._forwarded.answer(job)
        return (
            self._forwarder.wanted(job, want.count, queued)
            if self._forwarder.has(job)
            else want.count
        )

    def forget(self, job: JobId) -> None:
        """Forget a job that was withdrawn."""
        self._forwarder.forget(job)
        self._forwarded.forget(job)

    def forget_home(self, home: str) -> None:
        """Forget the forwarded tasks of a home that is offline."""
        for job in self._forwarder.jobs_of(home) + self._forwarded.jobs_of(home):
            self.forget(job)

    def is_over(self, entry: QueuedJob) -> bool:
        """Return whether a failed match was of a forwarded job that is no longer open."""
        return is_guest(entry.want) and entry.want.job not in self._forwarded.open

    # --- after a pass ----------------------------------------------------------------------------

    def end_turn(self, now: Instant, *, is_calm: bool, has_passed: bool) -> list[Effect]:
        """Return the messages to other brokers; `is_calm`: no waiting task could start here now.

        `has_passed`: there was a pass, which may have changed the queue.
        """
        self._may_choose |= has_passed  # other tasks may be the ones to forward
        effects: list[Effect] = []
        sends: list[Send]
        if self._forwarder.next_s <= now.steady_s:
            sends, has_come_back = self._forwarder.review(self._state, now.steady_s)
            effects += sends
            self.must_pass |= has_come_back
        self._may_choose |= self._forwarder.retry_s <= now.steady_s
        if is_calm and self._decision_rng is not None and self._may_choose and not self.must_pass:
            self._decision_rng.begin()
            sends, self._may_choose = self._forwarder.choose(
                self._state, self._forwarded, self._decision_rng, now
            )
            self._decision_rng.decided(len(sends))
            effects += sends
        if is_calm and not self.must_pass:
            self._send_back()
        if self._forwarded.unsent:
            effects += self._forwarded.drain()
        if self.peers.known and is_calm:
            effects += self.peers.summaries_due(self._state, now.steady_s)
        self.next_s = min(self._forwarder.next_s, self._forwarder.retry_s)
        if self.peers.known:
            self.next_s = min(self.next_s, self.peers.next_s(self._state))
        return effects

    def _send_back(self) -> None:
        """Return guests that were not started and could not be forwarded."""
        queues = self._state.queues
        for job, guest in list(self._forwarded.open.items()):
            entry = queues.entries.get(job)
            if entry is not None:
                guest.returned += entry.count
                guest.reason = None if entry.kind.is_possible else _unfit(self._state, entry)
                self._state.queues.remove(job)
                self.must_pass = True  # a place may be kept for a task behind it now
            if not self._forwarder.has(job):
                self._forwarded.answer(job)

    # --- for people ------------------------------------------------------------------------------

    def may_run_elsewhere(self, want: Want) -> bool:
        """Return whether another cluster is known to have a machine that is large enough."""
        task = Portions.of(want.resources, want.shape)
        return any(
            other.last_contact_s == -inf or other.may_hold(task)
            for other in self.peers.known.values()
        )

    def explain(self, job: JobId, now_s: float) -> list[Reason]:
        """Return why a job that waits here has not been started by other clusters."""
        there = self._forwarder.clusters_of(job)
        told = [
            Reason(Rule.PASSED_ON, "a machine there that takes it", f"it was forwarded to {name}")
            for name in there
        ]
        entry = self._state.queues.entries.get(job)
        if entry is not None and not is_guest(entry.want):
            told += [
                Reason(Rule.OTHER_CLUSTERS, f"free resources in {other.cluster}", words)
                for other in list(self.peers.known.values())[:CLUSTERS_TOLD_MAX]
                if other.cluster not in there
                for words in [self._why_not(entry, other, now_s)]
            ]
        return told

    def _why_not(self, entry: QueuedJob, other: PeerCluster, now_s: float) -> str:
        task = portions_of(entry)
        reason = self._forwarder.why_not(entry.want.job, other.cluster)
        if other.last_contact_s == -inf:
            return "its broker has not reported yet what is free there"
        if reason is not None:
            return f"its answer: {reason}"
        if not other.may_hold(task):
            return "no machine there is large enough"
        return f"it had none by its last report, {max(0.0, now_s - other.last_contact_s):.0f} s ago"


def _unfit(state: BrokerState, entry: QueuedJob) -> Reason:
    """Return why no machine here will ever run its tasks."""
    if entry.kind.key.is_stopped:
        return queue_stopped(state, entry)
    requirements = entry.want.requirements
    if requirements:
        return Reason(Rule.REQUIREMENTS, requirements, "no machine there will ever match")
    if entry.kind.is_wide:
        shape = entry.kind.key.shape
        return Reason(Rule.NO_POOL, shape.words(), "no pool there could ever hold them")
    return Reason(
        Rule.NO_MACHINE_LARGE_ENOUGH, "a machine for it", "none there will ever accept it"
    )
