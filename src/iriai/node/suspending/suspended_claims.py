"""The suspended claims of a node: orders to the launcher, answers to homes and brokers.

docs/spec/012 has the rules. The launcher freezes and thaws; the node keeps the reasons with the
claim, and frees and takes back the cpus of what its user has suspended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from msgspec.structs import replace

from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.records import ClaimStored
from iriai.model.state import EndCause
from iriai.model.suspension import Reasons, SuspendReason, with_reason
from iriai.model.units import format_duration
from iriai.node.claims import Claims
from iriai.node.metering import HeldClaim
from iriai.node.offer_builder import OfferBuilder
from iriai.node.queues import NodeQueues
from iriai.node.settings import NodeSettings
from iriai.node.suspension import Suspension
from iriai.protocol.messages.effects import (
    AttemptFrozen,
    Effect,
    FreezeAttempt,
    Part,
    Persist,
    Send,
    TerminateAttempt,
)
from iriai.protocol.messages.scheduling import Stop
from iriai.protocol.messages.suspension import ReturnCpus, Suspend, Suspended, Vacate

_USER = SuspendReason.USER
CLOCK_SLACK_S = 1.0
"""By how much the broker's count of an end may differ from the node's."""


class NodeSuspensions:
    """The claims of a node that were ever suspended."""

    def __init__(
        self,
        settings: NodeSettings,
        claims: Claims,
        report: OfferBuilder,
        effects: list[Effect],
    ) -> None:
        """What is to be done is appended to `effects`."""
        self._settings = settings
        self._claims = claims
        self._report = report
        self._effects = effects
        self.handlers: dict[type, Callable[[Any, Instant], None]] = {
            Suspend: self._asked,
            AttemptFrozen: self._frozen,
            ReturnCpus: self._return_cpus,
            Vacate: self._vacate,
        }

    # --- who gives and takes reasons -------------------------------------------------------------

    def give(
        self,
        attempts: Iterable[AttemptId],
        reason: SuspendReason,
        now: Instant,
        *,
        is_given: bool,
        seen: str = "",
    ) -> None:
        """Give a reason of the machine's to claims, or take it; it is theirs already: nothing.

        `seen` is what was seen of the owner, if the reason is that.
        """
        for attempt in attempts:
            held = self._live(attempt)
            if held is not None and (held.suspension is not None or is_given):
                suspension = _of(held)
                reasons = with_reason(suspension.reasons, reason, is_given=is_given)
                if reason is SuspendReason.OWNER and reasons != suspension.reasons:
                    suspension.seen = seen if is_given else ""
                self._set(held, suspension, reasons, now)

    def _asked(self, suspend: Suspend, now: Instant) -> None:
        """Handle what the user of a seat wants."""
        held = self._live(suspend.attempt)
        if held is None:
            return
        suspension = _of(held)
        if suspend.change <= suspension.change:
            self.tell(held, suspension)
            return
        suspension.change = suspend.change
        if suspend.is_wanted and suspension.is_resuming:  # it gives those up that it has again
            suspension.freed_cpus = held.claim.resources.cpus
        suspension.is_resuming = not suspend.is_wanted and suspension.freed_cpus > 0
        is_given = suspend.is_wanted or suspension.is_resuming
        reasons = with_reason(suspension.reasons, _USER, is_given=is_given)
        if reasons == suspension.reasons:
            self._changed(held, suspension, now)
        else:
            self._set(held, suspension, reasons, now)

    def _return_cpus(self, returned: ReturnCpus, now: Instant) -> None:
        """Let a seat that waits for its cpus take those that are free, and go on with all."""
        held = self._live(returned.attempt)
        suspension = None if held is None else held.suspension
        if held is None or suspension is None or not suspension.is_resuming:
            return
        free_cpus = max(0, self._claims.free_for(held))
        suspension.freed_cpus -= min(returned.cpus, suspension.freed_cpus, free_cpus)
        if suspension.freed_cpus:
            self._changed(held, suspension, now)
        else:
            suspension.is_resuming = False
            reasons = with_reason(suspension.reasons, _USER, is_given=False)
            self._set(held, suspension, reasons, now)

    def _vacate(self, vacate: Vacate, now: Instant) -> None:
        """End a seat that is past its latest end, and suspended by its user alone."""
        held = self._live(vacate.attempt)
        if held is None or held.suspension is None or not held.suspension.is_by_user:
            return
        left_s = held.stay_left_s(now)
        if left_s is not None and left_s <= held.ending_s + CLOCK_SLACK_S:
            self._evict(held, "what it kept while it was suspended was promised to another task")

    def evict_overdue(self, now_s: float) -> None:
        """End the seats whose users have kept them suspended for longer than is allowed."""
        for held, until_s in self._bounded():
            if until_s <= now_s:
                most = format_duration(self._settings.user_suspend_max_s)
                self._evict(held, f"its user kept it suspended for {most}, the longest allowed")

    @property
    def next_s(self) -> float | None:
        """Return when the next of those is due; None: there is none."""
        return min((until_s for _, until_s in self._bounded()), default=None)

    def _bounded(self) -> list[tuple[HeldClaim, float]]:
        """Return the seats that their users have suspended, and until when they may be."""
        most_s = self._settings.user_suspend_max_s
        found = []
        for held in self._claims.suspended.values():
            suspension = held.suspension
            if suspension is not None and suspension.is_by_user and held.stop is None:
                found.append((held, suspension.changed_s + most_s - suspension.by_user_s))
        return found

    def vacate(self, held: HeldClaim, words: str, *, grace_max_s: float) -> None:
        """End a claim for the owner, with its grace or what there is time for; again: sooner.

        Its task waits again, and what this destroys is returned: also by a node that was restarted.
        """
        grace_s, stop = min(held.claim.grace_s, grace_max_s), held.stop
        is_ending = stop is not None and (
            stop.cause is not EndCause.EVICTED or stop.grace_s <= grace_s
        )
        if held.end is None and held.is_ordered and not is_ending:
            self._evict(held, words, grace_s)
            held.claim = replace(held.claim, is_for_owner=True)
            self._effects.append(Persist(ClaimStored(held.as_charged())))

    def evict(self, held: HeldClaim, words: str) -> None:
        """End a claim that has started, with its grace; its task waits again."""
        self._evict(held, words)

    def _evict(self, held: HeldClaim, words: str, grace_s: float | None = None) -> None:
        attempt = held.claim.attempt
        grace_s = held.claim.grace_s if grace_s is None else grace_s
        held.stop = Stop(attempt, EndCause.EVICTED, grace_s)
        self._effects.append(TerminateAttempt(attempt, EndCause.EVICTED, grace_s, words))

    # --- the launcher ----------------------------------------------------------------------------

    def order(self, held: HeldClaim) -> None:
        """Order the launcher again to freeze or thaw a claim, if it was ever suspended."""
        suspension = held.suspension
        if suspension is not None and suspension.number:
            attempt, number = held.claim.attempt, suspension.number
            self._effects.append(FreezeAttempt(attempt, number, suspension.reasons))

    def _frozen(self, event: AttemptFrozen, now: Instant) -> None:
        """Handle the launcher's word on what it has frozen or thawed."""
        held = self._live(event.attempt)
        if held is None:
            return
        suspension = _of(held)
        was_told = suspension.told
        suspension.heard(event)
        if not self.free_cpus(held, now) and suspension.told != was_told:
            self._changed(held, suspension, now)

    def free_cpus(self, held: HeldClaim, now: Instant) -> bool:
        """Free the cpus of a claim that its user has suspended, once it stands; else nothing.

        Return whether they are free from now on.
        """
        suspension = held.suspension
        if suspension is None or not (suspension.is_complete and held.frees_cpus):
            return False
        suspension.freed_cpus = held.claim.resources.cpus
        self._changed(held, suspension, now)
        return True

    # --- within ----------------------------------------------------------------------------------

    def _live(self, attempt: AttemptId) -> HeldClaim | None:
        """Return the claim of a seat unless it is over, or being ended."""
        held = self._claims.by_attempt.get(attempt)
        return None if held is None or held.end is not None or held.stop is not None else held

    def _set(self, held: HeldClaim, suspension: Suspension, reasons: Reasons, now: Instant) -> None:
        """Let a claim have these reasons, and order that."""
        if reasons == suspension.reasons:
            return
        if not suspension.reasons:
            suspension.ordered_s = now.steady_s
        suspension.reasons = reasons
        suspension.number += 1
        if held.is_ordered:
            self.order(held)
        self._changed(held, suspension, now)

    def _changed(self, held: HeldClaim, suspension: Suspension, now: Instant) -> None:
        """Store and tell a change of a claim."""
        self._claims.suspension_changed(held, now)
        self._effects.append(Persist(ClaimStored(held.as_charged())))
        self._report.changed(held.claim.attempt)
        self.tell(held, suspension)

    def tell(self, held: HeldClaim, suspension: Suspension) -> None:
        """Tell the home of a claim for which reasons it does not run."""
        attempt = held.claim.attempt
        told = Suspended(
            attempt,
            self._settings.machine,
            suspension.change,
            suspension.reasons,
            suspension.is_resuming,
            held.moved_to,
            suspension.seen,
        )
        self._effects.append(Send(attempt.home, Part.HOME, told))

    def tell_again(self, held: HeldClaim) -> None:
        """Tell the home of a claim why it does not run, and in which queue it goes on."""
        self.tell(held, held.suspension or Suspension())


def _of(held: HeldClaim) -> Suspension:
    """Return the suspension of a claim, which it has from now on."""
    if held.suspension is None:
        held.suspension = Suspension()
    return held.suspension


class QueueParts(NamedTuple):
    """What changes claims by the rules of their queues."""

    queues: NodeQueues
    claims: Claims
    suspensions: NodeSuspensions
    report: OfferBuilder
    effects: list[Effect]

    def changed(self, held: HeldClaim) -> None:
        """Store a claim as it is now, and tell the broker of it."""
        self.effects.append(Persist(ClaimStored(held.as_charged())))
        self.report.changed(held.claim.attempt)
