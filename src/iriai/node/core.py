"""The node core: admission, running attempts and their charges, on one machine.

In: messages from homes, events from the launcher, alarms. Out: acceptances and refusals (never
"wait"), orders to the launcher, ends, and free resources to the broker. docs/spec/002 has the
rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any

from iriai.model.claim import Claim, Phase
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.records import (
    ClaimStored,
    Drained,
    Incarnated,
    LedgerRow,
    Resumed,
)
from iriai.model.reservation import Booking
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendReason
from iriai.node.admission import Admission
from iriai.node.attempt_ends import AttemptEnds
from iriai.node.booked_claims import BookedClaims
from iriai.node.bookings import NodeBookings
from iriai.node.claims import Claims
from iriai.node.metering import SLICE_S, HeldClaim, Meter, UsageCounters
from iriai.node.offer_builder import Availability, OfferBuilder
from iriai.node.queues import NodeQueues
from iriai.node.reporting import Reporting
from iriai.node.requirements_check import RequirementsCheck
from iriai.node.settings import NodeSettings
from iriai.node.steps import NodeSteps
from iriai.node.suspending.cycle import NodeCycle
from iriai.node.suspending.residence import Residence
from iriai.node.suspending.suspended_claims import NodeSuspensions, QueueParts
from iriai.policy.placement.calendar import AHEAD_WAIT_S
from iriai.protocol.messages.effects import (
    AttemptExited,
    AttemptsSampled,
    AttemptStarted,
    Effect,
    ForgetAttempt,
    LauncherAttached,
    LauncherEvent,
    LauncherLost,
    LinkDown,
    LinkUp,
    LoadMeasured,
    OwnerEvent,
    Part,
    Persist,
    PrologFailed,
    RenewLeases,
    SampleAttempts,
    Send,
    TerminateAttempt,
    Wake,
    WakeAt,
)
from iriai.protocol.messages.scheduling import (
    Acknowledge,
    Begun,
    Charging,
    OfAttempt,
    Quiet,
    Refusal,
    Renewed,
    Run,
    Stop,
    ToNode,
)

if TYPE_CHECKING:
    from iriai.node.suspending.giving_way import GivingWay

NodeEvent = ToNode | LauncherEvent | OwnerEvent | Wake | LinkUp | LinkDown

PROLOG = "prolog"
"""The author of a drain after a prolog failed."""


class Node:
    """The node core: the authority over one machine."""

    def __init__(
        self,
        settings: NodeSettings,
        rng: Random,
        incarnation: int,
        claims: Iterable[Claim],
        ledger: Iterable[LedgerRow],
        now: Instant,
        drained: Drained | None = None,
        bookings: Iterable[Booking] = (),
    ) -> None:
        self.settings = settings
        self._claims = Claims(settings)
        self.calendar = self._claims.calendar
        self.has_place, self.ranks_of = self._claims.has_place, self._claims.ranks_of
        self.running, self.specs = self._claims.running, self._claims.specs
        self.held = self._claims.by_attempt.__getitem__
        self.ledger = UsageCounters(settings.fading, ledger)
        self._availability = Availability(
            settings.machine, settings.capacity.cpus, settings.load_max, drained
        )
        self._report = OfferBuilder(settings, incarnation, rng, self._availability.load)
        self.agreement = RequirementsCheck(settings, self._availability, self._claims)
        self._leases, self._holds = self._claims.leases, self._claims.holds
        self._meter = Meter(settings.rule, settings.speed, self.ledger, settings.queues)
        self._alive: dict[AttemptId, None] | None = None
        """The attempts that a newly attached launcher runs; None: nothing to compare."""
        self._is_compared = False
        """Whether a launcher has reported the claims found in the store: some may have ended before
        the restart, and others may have their place."""
        self._slice_at_s: float | None = None
        self._alarm_s: float | None = None
        self.is_idle = False
        """Whether nothing happened since the last `end_turn`."""
        self._effects: list[Effect] = [Persist(Incarnated(incarnation))]
        parts = (self._report, self._meter, self.ledger, self._effects)
        self._ends = AttemptEnds(settings.machine, self._claims, self._availability, *parts)
        self.steps = NodeSteps(settings, self._claims.by_attempt.get, self._effects)
        self._suspensions = NodeSuspensions(settings, self._claims, self._report, self._effects)
        queue_parts = QueueParts(
            settings.queues, self._claims, self._suspensions, self._report, self._effects
        )
        self.cycle = NodeCycle(queue_parts)
        self.bookings = NodeBookings(
            settings,
            self._availability,
            BookedClaims(settings, queue_parts, self._ends),
            self._meter,
        )
        judges = (self._report, self.agreement, self.cycle, self.bookings)
        self._admission = Admission(settings, self._claims, self._availability, *judges)
        told = (self._report, self._claims, self._availability, self._meter)
        self._reporting = Reporting(*told, self.ledger, self.cycle, self.bookings, self._effects)
        self.residence = Residence(queue_parts)
        self.owner: GivingWay | None = None
        """How tasks give way; None: the machine has no owner policy."""
        if settings.owner is not None:
            from iriai.node.suspending.giving_way import GivingWay

            machine = (settings.owner, settings.machine)
            self.owner = GivingWay(*machine, queue_parts, self._availability, self.agreement)
        self.suspended = self._claims.suspended
        self._handlers = self._table()
        stored = list(claims)
        self.bookings.restore(bookings, stored, now)
        kept = self.bookings.with_booking(stored)
        self._claims.restore(kept, now, self.bookings.ends_by_s)
        self._refuse_waiting()

    def _table(self) -> dict[type, Callable[[Any, Instant], None]]:
        """Return the handler of each event."""
        return {
            Run: self._run,
            Stop: self._stop,
            Acknowledge: self._ends.acknowledge,
            AttemptStarted: self._started,
            AttemptExited: self._ends.exited,
            AttemptsSampled: self._sampled,
            LauncherAttached: self._launcher_attached,
            LauncherLost: self._launcher_lost,
            Wake: self._wake,
            Renewed: self._renewed,
            Quiet: self._set_offpeak,
            Charging: self._meter.charge_by,
            PrologFailed: self._prolog_failed,
            LoadMeasured: self._load_measured,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            **self.steps.handlers,
            **self._suspensions.handlers,
            **self.cycle.handlers,
            **self.bookings.handlers,
            **(self.owner.handlers if self.owner else {}),
        }

    def _refuse_waiting(self) -> None:
        """Refuse the claims that were granted ahead before a restart of the daemon."""
        for held in list(self._claims.waiting.values()):
            had = "the daemon of the machine restarted before they did"
            found = Reason(Rule.MACHINE_BUSY, "tasks before it to end", had, self.settings.machine)
            self._ends.refuse(held, found)

    def handle(self, event: NodeEvent, now: Instant) -> list[Effect]:
        """Handle one event; return the effects that cannot wait for `end_turn`."""
        self.take(event, now)
        return self.drain_effects()

    def take(self, event: NodeEvent, now: Instant) -> None:
        """Handle one event; `drain_effects` returns the effects of several."""
        self._handlers[type(event)](event, now)
        self.is_idle = False

    def drain_effects(self) -> list[Effect]:
        """Return the effects since the last call."""
        effects = self._effects[:]
        self._effects.clear()
        return effects

    def end_turn(self, now: Instant) -> list[Effect]:
        """After the events of one instant, report free resources and counters to the broker."""
        if self.is_idle:
            return []
        self.is_idle = True
        if self._alive is not None:
            self._reconcile(self._alive, now)
            self._alive = None
            self._is_compared = True
        if self.owner is not None:
            self.owner.settle(now)
        if self.bookings.kept or self._claims.bound or self.bookings.is_freed:
            self.bookings.settle(now)
        if self._claims.waiting:
            self._see_to_waiting(now)
        if self.settings.queues.modes or self._claims.turns:
            self.cycle.see_to_clock(now.steady_s)
            self.cycle.order(now)
        if self._holds.until_s:
            self._free_expired(now)
        asks_s = self._leases.next_s
        if asks_s is not None and asks_s <= now.steady_s:
            self._renew(now)
        self._reporting.send(now)
        self._set_alarm(now)
        return self.drain_effects()

    def drain(self, reason: str, by: str, now: Instant) -> None:
        """Start no more tasks until `resume`; running tasks go on."""
        self.is_idle = False
        self._availability.drained = drained = Drained(reason, by, now.wall_s)
        self._effects.append(Persist(drained))
        self._report.is_due = True

    def resume(self, by: str, now: Instant) -> bool:
        """Start tasks again; return False if the machine was not drained."""
        if self.drained is None:
            return False
        self.is_idle = False
        self._availability.drained = None
        self._effects.append(Persist(Resumed(by)))
        self._report.is_due = True
        return True

    def suspend(
        self, attempts: Iterable[AttemptId], reason: SuspendReason, now: Instant, *, is_given: bool
    ) -> None:
        """Give a reason of the machine's not to run to attempts, or take it from them."""
        self.is_idle = False
        self._suspensions.give(attempts, reason, now, is_given=is_given)

    def configured(self, queues: NodeQueues) -> None:
        """Take other queues than before; a broker hears whose tasks run."""
        self.settings.queues.take(queues)
        self._claims.fit_capacity()
        self.resend_report()

    @property
    def drained(self) -> Drained | None:
        """Return who drained the machine, and why; None: it is not drained."""
        return self._availability.drained

    @property
    def has_launcher(self) -> bool:
        """Return whether a launcher answers."""
        return self._availability.has_launcher

    def rules_changed(self) -> None:
        """Report that the rules about users changed."""
        self.is_idle = False
        self._report.rules += 1
        self._report.is_due = True

    def resend_report(self) -> None:
        """Send everything again: the broker is new, or can be reached again."""
        self.is_idle = False
        self._report.restart()

    def live(self, now: Instant) -> list[AttemptId]:
        """Return the claims that may run, as far as the node knows; see `Claims.live`."""
        return self._claims.live(now.steady_s)

    def claims(self) -> list[Claim]:
        """Return all claims that a restarted node must find: granted, and not acknowledged."""
        return self._claims.stored()

    def check(self) -> None:
        """Raise if an invariant of this part is broken: (a), and its conditions."""
        if self._is_compared:
            self._claims.check()
            self.bookings.check()

    # --- claims ----------------------------------------------------------------------------------

    def _run(self, run: Run, now: Instant) -> None:
        held = self._claims.by_attempt.get(run.attempt)
        if held is not None:
            self._run_again(run, held, now)
            return
        granted = self._admission.judge(run, now)
        if isinstance(granted, Reason):
            self._send_home(run.attempt, Refusal(run.attempt, granted))
            return
        minted_s, is_ahead, bound = granted
        takes_turns = bool(self.cycle.matched) and run.spec.reservation is None
        turn = self.cycle.turn_of(run) if takes_turns else None
        held = self._claims.grant(run, minted_s, now, is_ahead=is_ahead, turn=turn, bound=bound)
        if granted.is_ahead:
            self._report.waits(run.attempt)
        else:
            self._report.began(run.attempt)
        self._effects.append(Persist(ClaimStored(held.claim)))
        self._launch(held, now)
        if run.lease_s is not None or granted.is_ahead or run.phase is not Phase.STARTED:
            self._resend(held)  # a home beside it hears of refusals alone

    def unavailable(self) -> Reason | None:
        """Return why nothing can be started here now; None: it can."""
        return self._availability.reason()

    def _run_again(self, run: Run, held: HeldClaim, now: Instant) -> None:
        """Handle a repeated `Run` for an attempt that has its claim."""
        if run.phase is Phase.STARTED:  # before, it does not say which other seats there are
            held.spec, held.seats, held.port = run.spec, run.seats, run.port
            if held.suspension is not None and held.end is None:
                self._suspensions.free_cpus(held, now)  # which it must know of
        if held.end is None and (run.phase > held.claim.phase or run.phase is not Phase.STARTED):
            self._raise_phase(held, run.phase, now)
        elif held.end is not None or held.started_wall_s is not None or held.claim.is_ahead:
            self._resend(held)
        elif not (self._is_compared and self._alive is None and self._is_outside(held)):
            self._launch(held, now)
            if held.stop is not None and held.is_ordered:  # that follows the launch
                self._terminate(held, held.stop)

    def _raise_phase(self, held: HeldClaim, phase: Phase, now: Instant) -> None:
        """Go as far with a seat as its home says; answer how far it is."""
        if phase > held.claim.phase:
            self._claims.raise_phase(held, phase, now)
            self._effects.append(Persist(ClaimStored(held.as_charged())))
            self._launch(held, now)
        self._send_home(held.claim.attempt, held.accepted(self.settings.machine))
        if held.started_wall_s is not None:
            self._resend(held)

    def _resend(self, held: HeldClaim) -> None:
        """Send the last messages about an attempt again, which its home may not have received."""
        self._send_home(held.claim.attempt, held.last_message(self.settings.machine))
        if held.end is None and (held.suspension is not None or held.moved_to is not None):
            self._suspensions.tell_again(held)

    def _launch(self, held: HeldClaim, now: Instant) -> None:
        """Order the start, if it may start now; the launcher checks whether its lease expired."""
        is_ready = self.has_launcher and held.is_confirmed and self._is_of_this_boot(held)
        if held.spec is not None and is_ready and held.may_start:
            held.is_ordered = True
            if self._claims.turns:
                self.cycle.order(now)  # before the start
            if held.claim.reservation is not None:
                self.bookings.cut(held, now)
            self._effects.append(held.launch(held.spec))
            if held.suspension is not None:
                self._suspensions.order(held)

    def _is_outside(self, held: HeldClaim) -> bool:
        """Return whether it never started and its booking is gone; it is refused then."""
        wanted = None if held.spec is None else held.spec.reservation
        if wanted is None or held.claim.reservation is not None:
            return False
        self._ends.refuse(held, self.bookings.outside_reason(wanted))
        return True

    def _see_to_waiting(self, now: Instant) -> None:
        """Start claims granted ahead that fit now, and refuse those that waited too long."""
        for held in list(self._claims.waiting.values()):
            fits = held.claim.resources.fits_in(self.calendar.free)
            reason = self._availability.reason_for(held.claim.user)
            if fits and reason is None and self.calendar.bookings:
                reason = self.bookings.of_waiting(held, now)
            if reason is not None:
                self._ends.refuse(held, reason)
            elif fits:
                self._claims.begin(held, now)
                self._report.began(held.claim.attempt)
                self._effects.append(Persist(ClaimStored(held.claim)))
                self._launch(held, now)
            elif now.steady_s >= held.granted_steady_s + AHEAD_WAIT_S:
                needed = f"resources within {AHEAD_WAIT_S:.0f} s"
                had = "the running tasks take longer"
                found = Reason(Rule.MACHINE_BUSY, needed, had, self.settings.machine)
                self._ends.refuse(held, found)

    def _free_expired(self, now: Instant) -> None:
        """Free what homes held and did not confirm in time."""
        for attempt in self._holds.over(now.steady_s):
            needed = "to be confirmed while it was held"
            reason = Reason(Rule.HOLD_EXPIRED, needed, "it was not", self.settings.machine)
            self._ends.refuse(self._claims.by_attempt[attempt], reason)

    def _stop(self, stop: Stop, now: Instant) -> None:
        held = self._claims.by_attempt.get(stop.attempt)
        if held is not None and held.end is None:
            held.stop = stop
            if held.is_ordered:
                self._terminate(held, stop)
            else:
                self._ends.exited(held.over(stop.cause, "it was ended before it started", now), now)

    def _terminate(self, held: HeldClaim, stop: Stop) -> None:
        attempt = held.claim.attempt
        self._effects.append(TerminateAttempt(attempt, stop.cause, stop.grace_s))

    # --- the launcher ----------------------------------------------------------------------------

    def _launcher_attached(self, event: LauncherAttached, now: Instant) -> None:
        self._availability.has_launcher = True
        self._report.is_due = True
        self._alive = dict.fromkeys(attempt for attempt, _ in event.alive)
        self.steps.compare(event.steps)
        self._effects.extend(RenewLeases(home, asked) for home, asked in self._leases.answers())
        for attempt, started_wall_s in event.alive:
            if attempt in self._claims:
                self._started(AttemptStarted(attempt, started_wall_s), now)
                self._suspensions.order(self._claims.by_attempt[attempt])
            else:
                self._effects.append(TerminateAttempt(attempt, EndCause.LOST, 0.0))
        self.cycle.launcher_attached(now)
        if self.owner is not None:
            self.owner.launcher_attached()

    def _reconcile(self, alive: dict[AttemptId, None], now: Instant) -> None:
        """Compare claims with what a launcher runs, after its unacknowledged ends were handled.

        Starts that it may never have received are ordered again: those that it knows have no
        effect. A claim that has run, or was granted in an earlier boot, and is not running, is
        lost.
        """
        for held in self._claims.all():
            attempt = held.claim.attempt
            if held.end is not None or held.claim.is_ahead:
                continue
            if attempt not in alive:
                if held.started_wall_s is not None or not self._is_of_this_boot(held):
                    self._ends.exited(held.lost(now), now)
                    continue
                held.is_ordered = False  # the launcher that got the order does not know it
                if held.claim.phase is Phase.HELD:
                    continue
                if held.has_lapsed(now.steady_s):
                    self._ends.lapsed(held, now)
                    continue
                if self._is_outside(held):
                    continue
                self._launch(held, now)
            if held.stop is not None:
                self._terminate(held, held.stop)

    def _is_of_this_boot(self, held: HeldClaim) -> bool:
        """Return whether processes of the claim can be alive."""
        return held.claim.boot_id == self.settings.boot_id

    def _launcher_lost(self, event: LauncherLost, now: Instant) -> None:
        self._availability.has_launcher = False
        self._report.is_due = True

    def _started(self, event: AttemptStarted, now: Instant) -> None:
        held = self._claims.by_attempt.get(event.attempt)
        if held is None or held.end is not None:  # it was acknowledged, or has its end
            self._effects.append(TerminateAttempt(event.attempt, EndCause.LOST, 0.0))
            return
        if held.started_wall_s is not None:
            return
        self._ends.note_start(held, event.started_wall_s, now)
        begun = Begun(event.attempt, self.settings.machine, event.started_wall_s)
        self._send_home(event.attempt, begun)

    def _prolog_failed(self, event: PrologFailed, now: Instant) -> None:
        """Drain the machine whose prolog failed, and refuse the attempt."""
        held = self._claims.by_attempt.get(event.attempt)
        if held is None:
            self._effects.append(ForgetAttempt(event.attempt))
        elif held.end is not None:
            self._send_home(event.attempt, held.end)
        else:
            if self.drained is None:
                self.drain(event.message, PROLOG, now)
            self._ends.refuse(held, self.unavailable())

    # --- other machines --------------------------------------------------------------------------

    def _link_up(self, event: LinkUp, now: Instant) -> None:
        """Send again what may have been lost to a home there."""
        for held in self._claims.all():
            if held.claim.attempt.home == event.machine and held.claim.lease_s is not None:
                self._resend(held)
        self._leases.ask_soon(event.machine, now.steady_s)
        self.steps.reached(event.machine)

    def _link_down(self, event: LinkDown, now: Instant) -> None:
        """Leases go on."""

    def _renew(self, now: Instant) -> None:
        """Request renewals that are due; give up claims that never started within their lease."""
        for held in self._leases.lapsed(now.steady_s):
            self._ends.lapsed(held, now)
        for home, renew in self._leases.due(now.steady_s):
            self._effects.append(Send(home, Part.HOME, renew))

    def _renewed(self, renewed: Renewed, now: Instant) -> None:
        confirmed = self._leases.answered(renewed, now.steady_s)
        if confirmed is None:
            return
        for held in confirmed:
            self._launch(held, now)
        self._effects.append(RenewLeases(renewed.home, renewed.asked_steady_s))

    def _set_offpeak(self, quiet: Quiet, now: Instant) -> None:
        if self._meter.set_offpeak(quiet.is_offpeak, now):
            self._sample()  # usage so far belongs to the hour that is over

    def _load_measured(self, event: LoadMeasured, now: Instant) -> None:
        if self._availability.load.measured(event):
            self._report.is_due = True

    # --- charges and alarms ----------------------------------------------------------------------

    def _sampled(self, event: AttemptsSampled, now: Instant) -> None:
        for attempt, usage in event.samples:
            held = self._claims.by_attempt.get(attempt)
            if held is None or held.end is not None or held.started_steady_s is None:
                continue
            self._meter.read(held, held.ran_so_far_s(now.steady_s), usage.cpu_s, now)
            self._effects.append(Persist(ClaimStored(held.as_charged()), urgent=False))
            self._report.charged(attempt, held.charged_s)
            if held.claim.reservation is not None and not held.is_used:
                self.bookings.measured(held, usage.cpu_s, now)

    def _wake(self, event: Wake, now: Instant) -> None:
        self._alarm_s = None
        if self.settings.queues.residences_s:
            self.residence.move(now)
        if self._availability.back_off.is_over(now.steady_s):
            self._report.is_due = True
        if self._claims.suspended:
            self._suspensions.evict_overdue(now.steady_s)
        if self._slice_at_s is not None and now.steady_s >= self._slice_at_s:
            self._slice_at_s = None
            self._sample()

    def _sample(self) -> None:
        """Have the usage of running attempts sampled, to charge it."""
        if len(self.calendar) and self.has_launcher:
            self._effects.append(SampleAttempts())

    def _set_alarm(self, now: Instant) -> None:
        if self._slice_at_s is None and len(self.calendar):
            self._slice_at_s = now.steady_s + SLICE_S
        moments = (
            *(self._alarm_s, self._slice_at_s, self._availability.back_off.until_s),
            *(self._leases.next_s, self.cycle.next_s, self.cycle.next_look_s),
            *(self.residence.next_s(now.steady_s), min(self._holds.until_s.values(), default=None)),
            self._claims.give_back_s if self._claims.waiting else None,
            self._suspensions.next_s if self._claims.suspended else None,
            self.owner.next_s(now.steady_s) if self.owner else None,
            self.bookings.next_s if self.bookings.kept or self._claims.bound else None,
        )
        due_s = min((at_s for at_s in moments if at_s is not None), default=None)
        if due_s is not None and due_s != self._alarm_s:
            self._alarm_s = due_s
            self._effects.append(WakeAt(Part.NODE, due_s))

    def _send_home(self, attempt: AttemptId, message: OfAttempt) -> None:
        self._effects.append(Send(attempt.home, Part.HOME, message))
