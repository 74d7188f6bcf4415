"""The ends of attempts: told to their homes, charged, and kept until these acknowledge them."""

from __future__ import annotations

from iriai.model.claim import Claim
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.reason import Reason
from iriai.model.records import ClaimsDropped, ClaimStored
from iriai.model.state import EndCause
from iriai.node.claims import Claims
from iriai.node.metering import HeldClaim, Meter, UsageCounters
from iriai.node.offer_builder import Availability, OfferBuilder
from iriai.protocol.messages.effects import (
    AttemptExited,
    Effect,
    ForgetAttempt,
    Part,
    Persist,
    Send,
)
from iriai.protocol.messages.scheduling import Acknowledge, End, OfAttempt, Refusal


class AttemptEnds:
    """How the attempts of a node end."""

    def __init__(
        self,
        machine: str,
        claims: Claims,
        availability: Availability,
        report: OfferBuilder,
        meter: Meter,
        ledger: UsageCounters,
        effects: list[Effect],
    ) -> None:
        """What is to be done is appended to `effects`."""
        self._machine = machine
        self._claims = claims
        self._availability = availability
        self._report = report
        self._meter = meter
        self._ledger = ledger
        self._effects = effects

    def exited(self, event: AttemptExited, now: Instant) -> None:
        """Take an end that the launcher saw, or that the node knows without it."""
        held = self._claims.by_attempt.get(event.attempt)
        if held is None:
            self._effects.append(ForgetAttempt(event.attempt))
        elif held.end is not None:
            self._send_home(event.attempt, held.end)
        elif event.cause is EndCause.REFUSED:  # the launcher can start nothing at present
            self._availability.back_off.failed(event.message, now.steady_s)
            self.refuse(held, self._availability.back_off.reason())
        else:
            self._send_home(event.attempt, self._end(held, event, now))

    def refuse(self, held: HeldClaim, reason: Reason | None) -> None:
        """Refuse an attempt that had its claim and never started."""
        assert reason is not None
        attempt = held.claim.attempt
        self._free(held.claim)
        self._report.refused(attempt)
        self._drop(attempt)
        self._send_home(attempt, Refusal(attempt, reason))

    def lapsed(self, held: HeldClaim, now: Instant) -> None:
        """End a claim that never started within its lease."""
        message = "its home had no contact for the time of its lease, and it had not started"
        self.exited(held.over(EndCause.LOST, message, now), now)

    def note_start(self, held: HeldClaim, started_wall_s: float, now: Instant) -> None:
        """Note the start of an attempt, from which on it is charged."""
        self._availability.back_off.succeeded()
        held.started(started_wall_s, now)
        self._claims.started(held, now)
        self._meter.started(held)

    def acknowledge(self, message: Acknowledge, now: Instant) -> None:
        """Forget an end that the home has stored."""
        held = self._claims.by_attempt.get(message.attempt)
        if held is not None and held.end is not None:
            self._drop(message.attempt)

    def _drop(self, attempt: AttemptId) -> None:
        """Forget an attempt whose end is acknowledged, or which never started."""
        self._claims.drop(attempt)
        self._effects.append(Persist(ClaimsDropped((attempt,))))
        self._effects.append(ForgetAttempt(attempt))

    def _free(self, claim: Claim) -> None:
        """Release the resources of an attempt that is over."""
        self._claims.free(claim)
        self._report.ended(claim.attempt)

    def _end(self, held: HeldClaim, event: AttemptExited, now: Instant) -> End:
        claim = held.claim
        if event.elapsed_s > 0.0 and held.started_wall_s is None:  # a short task, told once
            self.note_start(held, event.started_wall_s, now)
        ran_s = held.ran_s(event)
        self._meter.ended(held, event, ran_s, now)
        # What was lost, or never started, does not show how long the next takes; one seat does.
        if event.cause is not EndCause.LOST and held.is_ordered and not claim.attempt.rank:
            self._ledger.ran(claim.account, ran_s, claim.limit_s)
        end = held.ended(event, self._machine)
        self._free(claim)
        if held.is_lost_at_once(event, now.steady_s):
            self._report.lost_at_once(claim.attempt)
        elif held.is_failed_at_once(event):
            self._report.failed_at_once(claim.attempt, event.exit_code)
        if not held.is_ordered:  # nothing of it runs, and others may have its place now
            self._effects.append(Persist(ClaimsDropped((claim.attempt,))))
        elif claim.lease_s is not None:  # its home is elsewhere, and may need it after a restart
            self._effects.append(Persist(ClaimStored(held.as_charged()), urgent=False))
        return end

    def _send_home(self, attempt: AttemptId, message: OfAttempt) -> None:
        self._effects.append(Send(attempt.home, Part.HOME, message))
