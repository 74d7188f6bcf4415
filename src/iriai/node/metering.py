"""Metering of claims: each claim with its attempt's state, its charges, and the counters."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from iriai.model.charge_factors import Factors, total_s, with_stretch
from iriai.model.claim import HOLD_S, Claim, ClaimedTurn, Phase
from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.ranks import SeatPlaces
from iriai.model.records import AttemptResult, LedgerRow, Refunds
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendedClaim, SuspendReason, is_preempted
from iriai.model.turn import ALWAYS, RowSet
from iriai.model.usage import Usage
from iriai.node.queues import NodeQueues
from iriai.node.suspension import Suspension
from iriai.policy.accounting.decay import ChargeRule, Counter, Decay, charge
from iriai.policy.accounting.offpeak import OffpeakHours
from iriai.policy.accounting.runtime_estimates import NO_RUNS, RunTimes
from iriai.policy.placement.calendar import END_SLACK_S, longest_stay_s
from iriai.protocol.messages.effects import AttemptExited, LaunchAttempt
from iriai.protocol.messages.scheduling import (
    Accepted,
    Begun,
    Capability,
    Charging,
    End,
    OfAttempt,
    Running,
    Stop,
)

ON_A_MACHINE = frozenset({EndCause.MEMORY_LIMIT, EndCause.DISK_LIMIT})
"""Causes whose message names the machine: others of the job were within the limit."""


class UsageCounters:
    """A usage counter and a mean run time for each account."""

    def __init__(self, fading: Decay, rows: Iterable[LedgerRow]) -> None:
        self._fading = fading
        self._counters: dict[Account, Counter] = {}
        self._times: dict[Account, RunTimes] = {}
        self._refunds: dict[Account, Refunds] = {}
        self._changed: dict[Account, None] = {}
        self._charges: dict[Account, tuple[float, float]] = {}
        """Charges of one moment that are not in the counters yet, and what of them is urgency."""
        self._charged_wall_s = 0.0
        """That moment."""
        for row in rows:
            self._counters[row.account] = fading.restored(row)
            self._times[row.account] = RunTimes(row.runs, row.run_s)
            if row.refunds:
                self._refunds[row.account] = row.refunds

    def add(self, account: Account, charge_s: float, wall_s: float, advance_s: float = 0.0) -> None:
        """Count a charge made now, of which urgency is `advance_s`."""
        if wall_s != self._charged_wall_s:
            self._settle()
            self._charged_wall_s = wall_s
        known_s, known_advance_s = self._charges.get(account, (0.0, 0.0))
        self._charges[account] = (known_s + charge_s, known_advance_s + advance_s)
        self._changed[account] = None

    def _settle(self) -> None:
        """Add the charges so far to the counters: those of tasks that ended together, once."""
        for account, charged in self._charges.items():
            counter = self._counters.get(account) or self._fading.counter()
            self._counters[account] = counter.charged(*charged, self._charged_wall_s)
        self._charges.clear()

    def ran(self, account: Account, elapsed_s: float, limit_s: float | None = None) -> None:
        """Count an ended run, and the limit it had, towards the account's mean."""
        self._times[account] = self._times.get(account, NO_RUNS).with_run(elapsed_s, limit_s)
        self._changed[account] = None

    def refund(self, account: Account, charge_s: float, began_wall_s: float, now_s: float) -> None:
        """Count that charges of work that began then are returned at `now_s`, on the wall clock."""
        from iriai.policy.accounting.refunds import with_refund

        known = self._refunds.get(account, ())
        refunds = with_refund(known, charge_s, began_wall_s, now_s, self._fading)
        self._refunds[account] = refunds
        self._changed[account] = None

    def rows(self) -> tuple[LedgerRow, ...]:
        """Return the rows of all accounts."""
        self._settle()
        return tuple(self._row(account) for account in self._counters)

    def drain_changed(self) -> tuple[LedgerRow, ...]:
        """Return the rows that changed since the last call."""
        if not self._changed:
            return ()
        self._settle()
        rows = tuple(self._row(account) for account in self._changed if account in self._counters)
        self._changed.clear()
        return rows

    def _row(self, account: Account) -> LedgerRow:
        times = self._times.get(account, NO_RUNS)
        row = self._counters[account].row(account, times)
        refunds = self._refunds.get(account) if self._refunds else None
        return replace(row, refunds=refunds) if refunds else row


SLICE_S = 60.0
"""Interval in which running tasks are charged; also at their ends, and when off-peak begins or
ends. A draw counts their expected charge from their start, so intervals matter only for tasks that
run longer than expected; shorter ones would wake every machine for nothing (docs/adr/0073)."""


class Stretch(NamedTuple):
    """A stretch of time that is charged."""

    whole_s: float
    offpeak_s: float


class Meter:
    """Charges claims to their accounts."""

    def __init__(
        self, rule: ChargeRule, speed: float, ledger: UsageCounters, queues: NodeQueues
    ) -> None:
        self._queues = queues
        self._rule = rule
        self.charging = self._prices()
        """The prices here, as reported to a broker."""
        self._speed = speed
        self._ledger = ledger
        self._offpeak = OffpeakHours()

    def set_offpeak(self, is_offpeak: bool, now: Instant) -> bool:
        """Set the off-peak state that the broker sent; return whether it changed."""
        was_offpeak = self._offpeak.is_offpeak(now.steady_s)
        self._offpeak.set_published(is_offpeak, now.steady_s)
        return was_offpeak is not is_offpeak

    def _prices(self) -> Charging:
        return msgspec.convert(self._rule, Charging, from_attributes=True)

    def charge_by(self, told: Charging, _now: Instant) -> None:
        """Use the prices that the broker sent from now on.

        A running attempt keeps its charges so far; the next charge is the new price of its whole
        run, less these.
        """
        self._rule = ChargeRule.of(told)
        self.charging = self._prices()

    def started(self, held: HeldClaim) -> None:
        """Start metering a claim: off-peak time before its start does not count."""
        assert held.started_steady_s is not None
        held.quiet_mark_s = self._offpeak.so_far_s(held.started_steady_s)

    def read(self, held: HeldClaim, ran_s: float, cpu_s: float, now: Instant) -> None:
        """Charge what an attempt used since the last reading; `ran_s` and `cpu_s` are totals.

        The use is off-peak in the proportion in which the time since then was.
        """
        whole_s = charge(
            held.claim.resources,
            ran_s,
            cpu_s,
            self._rule,
            speed=self._speed,
            urgency=held.claim.urgency,
        )
        if held.suspension is not None:
            whole_s += self._charge_kept(held, held.suspension.total_by_user_s(now.steady_s))
        quiet_part = self._offpeak_part(held, ran_s, now)
        more_s = max(0.0, whole_s - held.metered_s)
        held.metered_s += more_s
        more_s *= 1.0 - quiet_part * (1.0 - self._rule.offpeak_factor)
        more_s *= self._queues.charge_factors.get(held.claim.queue, 1.0)
        if more_s:
            held.charged_s += more_s
            advance_s = more_s * (1.0 - 1.0 / held.claim.urgency)
            self._ledger.add(held.claim.account, more_s, now.wall_s, advance_s)

    def ended(self, held: HeldClaim, event: AttemptExited, ran_s: float, now: Instant) -> None:
        """Charge the end of an attempt, and return what it destroyed if the owner is the reason."""
        self.read(held, ran_s, event.usage.cpu_s, now)
        is_saved = event.exit_code is not None and event.exit_code == held.claim.checkpoint_exit
        if held.claim.is_for_owner and event.cause is EndCause.EVICTED and not is_saved:
            self._return(held, event, now)

    def charge_unused(
        self, account: Account, unused: Resources, factor: float, stretch: Stretch, now: Instant
    ) -> None:
        """Charge an account for what is kept for it and nobody uses, as for a claim that idles."""
        price_s = charge(unused, stretch.whole_s, 0.0, self._rule, speed=self._speed) * factor
        if stretch.whole_s > 0.0:
            quiet_part = min(1.0, stretch.offpeak_s / stretch.whole_s)
            price_s *= 1.0 - quiet_part * (1.0 - self._rule.offpeak_factor)
        price_s *= self._queues.charge_factors.get(0, 1.0)
        if price_s > 0.0:
            self._ledger.add(account, price_s, now.wall_s)

    def offpeak_so_far_s(self, now_s: float) -> float:
        """Return the off-peak time until now, from which differences count."""
        return self._offpeak.so_far_s(now_s)

    def _return(self, held: HeldClaim, event: AttemptExited, now: Instant) -> None:
        """Return the charge of an attempt to its account, once."""
        claim = held.claim
        lost_s = held.charged_s - claim.refunded_s
        if lost_s > 0.0:
            self._ledger.refund(claim.account, lost_s, event.started_wall_s, now.wall_s)
            held.claim = replace(claim, refunded_s=held.charged_s)

    def _charge_kept(self, held: HeldClaim, by_user_s: float) -> float:
        """Return the charge for what a claim kept while its user had it suspended.

        No cpus, unless it has the whole machine, which nobody else may use then.
        """
        kept = held.claim.resources
        if held.spec is None or not held.spec.exclusive:
            kept = kept.minus(Resources(cpus=kept.cpus))
        urgency = held.claim.urgency
        return charge(kept, by_user_s, 0.0, self._rule, speed=self._speed, urgency=urgency)

    def _offpeak_part(self, held: HeldClaim, ran_s: float, now: Instant) -> float:
        """Return, and note, the off-peak part (0 to 1) of the time since the last reading."""
        so_far_s = self._offpeak.so_far_s(now.steady_s)
        stretch_s = max(0.0, ran_s - total_s(held.factors))
        quiet_s = min(stretch_s, max(0.0, so_far_s - held.quiet_mark_s))
        held.quiet_mark_s = so_far_s
        if stretch_s <= 0.0:
            return 1.0 if self._offpeak.is_offpeak(now.steady_s) else 0.0
        if quiet_s <= 0.0:
            held.factors = with_stretch(held.factors, 1.0, stretch_s)
            return 0.0
        parts = [(1.0, stretch_s - quiet_s), (self._rule.offpeak_factor, quiet_s)]
        if held.factors and held.factors[-1][0] != 1.0:
            parts.reverse()  # the factor that continued comes before the one that began
        for factor, seconds in parts:
            held.factors = with_stretch(held.factors, factor, seconds)
        return quiet_s / stretch_s


ROUNDING_S = 1e-6
"""Moments that are computed twice may differ: what has to be gone for a booking is gone so long
before."""
FAILED_AT_ONCE_S = 2.0
"""A task that fails earlier counts as failed at once: its program, a library or its directory is
missing, or it was called wrongly. Interpreters take a second to find that out."""
LOST_AT_ONCE_S = 10.0
"""A task that is lost this soon after its claim counts against its machine; one that ran longer may
be lost for any reason."""


class HeldClaim(msgspec.Struct):
    """A claim, until its end is acknowledged."""

    claim: Claim
    spec: JobSpec | None
    """The specification; None after a restart, until its home has asked again."""
    granted_steady_s: float
    capability: Capability | None = None
    started_wall_s: float | None = None
    started_steady_s: float | None = None
    charged_s: float = 0.0
    metered_s: float = 0.0
    """The charge with all of its time at peak."""
    factors: Factors = ()
    quiet_mark_s: float = 0.0
    """The off-peak time until it was last charged; see `Meter`."""
    leased_steady_s: float | None = None
    """The start of its lease; None: it has none, or its home has not confirmed it yet."""
    confirmed_steady_s: float | None = None
    """When its home confirmed it, if it was held before."""
    is_ordered: bool = False
    """True if a launcher may have been ordered to start it."""
    stop: Stop | None = None
    end: End | None = None
    seats: SeatPlaces = ()
    """All seats of its attempt, which come with the start; empty: there is but this one."""
    port: int = 0
    """One for the ranks of all seats to meet; 0: none."""
    end_slack_s: float = END_SLACK_S
    suspension: Suspension | None = None
    """None: it was never suspended."""
    is_used: bool | None = None
    """Of a claim inside a booking: whether it has used its cpus; None: it was not measured yet."""
    ends_by_s: float | None = None
    """By when it has to be gone on the steady clock, for a booking or with its own; None: it need
    not."""

    @staticmethod
    def restored(claim: Claim, now: Instant, end_slack_s: float = END_SLACK_S) -> HeldClaim:
        """Return a claim restored from the store; the launcher reports its state later."""
        age_s = max(0.0, now.wall_s - claim.granted_wall_s)
        return HeldClaim(
            claim,
            None,
            now.steady_s - age_s,
            charged_s=claim.charged_s,
            end_slack_s=end_slack_s,
            metered_s=max(claim.metered_s, claim.charged_s),
            factors=claim.factors,
            is_ordered=not claim.is_ahead and claim.phase is Phase.STARTED,
            suspension=None
            if claim.suspension is None
            else Suspension.restored(claim.suspension, now),
        )

    @property
    def is_preempted(self) -> bool:
        """Return whether its queue keeps it from running, and others may have its cpus."""
        return self.suspension is not None and is_preempted(self.suspension.reasons)

    @property
    def moved_to(self) -> int | None:
        """Return the queue in which it goes on after its time of residence; None: its first one."""
        return self.claim.queue if self.claim.resided_from_s else None

    @property
    def turn(self) -> RowSet:
        """Return in which rows of time slices it runs while nothing suspends it."""
        return ALWAYS if self.claim.turn is None else self.claim.turn.turn

    @property
    def wanted_cpus(self) -> int:
        """Return the cpus that it holds while its queue lets it run."""
        freed_cpus = 0 if self.suspension is None else self.suspension.freed_cpus
        return self.claim.resources.cpus - freed_cpus

    def set_turn(self, turn: RowSet, row: int, quantum_s: float, now_s: float) -> None:
        """Let it run in other rows of time slices from now on."""
        unsuspended_s = self._unsuspended_s(now_s)
        out_s = self._out_of_turn_s(unsuspended_s)
        if turn == ALWAYS and not row and not out_s:
            self.claim = replace(self.claim, turn=None)
        else:
            changed = ClaimedTurn(turn, row, quantum_s, unsuspended_s, out_s)
            self.claim = replace(self.claim, turn=changed)

    def _out_of_turn_s(self, unsuspended_s: float) -> float:
        turn = self.claim.turn
        if turn is None:
            return 0.0
        since_s = max(0.0, unsuspended_s - turn.mark_s)
        return turn.out_of_turn_s + turn.turn.stands_s(since_s, turn.quantum_s)

    @property
    def may_start(self) -> bool:
        """Return whether its home has sent the start, and it has its place."""
        return self.claim.phase is Phase.STARTED and not self.claim.is_ahead

    @property
    def is_confirmed(self) -> bool:
        """Return whether its home is known to want it: then it may start and renew its lease."""
        return self.claim.lease_s is None or self.leased_steady_s is not None

    @property
    def frees_cpus(self) -> bool:
        """Return whether its cpus are free for others once it is frozen for its user.

        Not where it has the whole machine, nor before its home has said again what it is.
        """
        suspension = self.suspension
        if self.spec is None or self.spec.exclusive or suspension is None:
            return False
        is_wanted = SuspendReason.USER in suspension.reasons and not suspension.is_resuming
        return is_wanted and SuspendReason.USER in suspension.told and not suspension.freed_cpus

    def is_lease_over(self, now_s: float) -> bool:
        """Return whether its lease is over."""
        lease_s, began_s = self.claim.lease_s, self.leased_steady_s
        return lease_s is not None and began_s is not None and now_s >= began_s + lease_s

    def renew(self, asked_s: float, now_s: float) -> None:
        """Renew the lease as of `asked_s`; a lease that is over stays over."""
        if not self.is_lease_over(now_s):
            self.leased_steady_s = max(asked_s, self.leased_steady_s or asked_s)

    def has_lapsed(self, now_s: float) -> bool:
        """Return whether its lease is over, or was not confirmed for as long; False without one."""
        if self.claim.lease_s is None:
            return False
        if self.is_confirmed:
            return self.is_lease_over(now_s)
        began_s = self.confirmed_steady_s or self.granted_steady_s
        return now_s >= began_s + self.claim.lease_s

    def started(self, started_wall_s: float, now: Instant) -> None:
        """Note the start of its process."""
        self.started_wall_s = started_wall_s
        self.started_steady_s = now.steady_s - max(0.0, now.wall_s - started_wall_s)

    def ran_so_far_s(self, now_s: float) -> float:
        """Return for how long it has run until now, the time frozen apart; 0: it has not begun."""
        if self.started_steady_s is None:
            return 0.0
        frozen_s = 0.0 if self.suspension is None else self.suspension.total_s(now_s)
        unsuspended_s = max(0.0, now_s - self.started_steady_s - frozen_s)
        if self.claim.turn is None:
            return unsuspended_s
        return max(0.0, unsuspended_s - self._out_of_turn_s(unsuspended_s))

    def _unsuspended_s(self, now_s: float) -> float:
        """Return for how long it has not been suspended since its start, in its turn or not."""
        if self.started_steady_s is None:
            return 0.0
        frozen_s = 0.0 if self.suspension is None else self.suspension.total_s(now_s)
        return max(0.0, now_s - self.started_steady_s - frozen_s)

    def ran_s(self, end: AttemptExited) -> float:
        """Return for how long it ran until its end, the time frozen apart.

        A launcher that finds what an earlier one left behind does not know when that was frozen.
        """
        if self.suspension is None or end.cause is not EndCause.LOST:
            return end.elapsed_s
        lasted_s = end.ended_wall_s - end.started_wall_s
        known_s = self.suspension.frozen_s
        return min(end.elapsed_s, max(0.0, lasted_s - known_s))

    @property
    def ending_s(self) -> float:
        """Return how long it takes at most until its place is free, once it is to end."""
        return self.claim.grace_s + self.end_slack_s

    @property
    def longest_stay_s(self) -> float | None:
        """Return for how long it holds its resources at most, from its grant; None: no limit."""
        claim = self.claim
        return longest_stay_s(claim.limit_s, claim.grace_s, self.end_slack_s, parts=claim.parts)

    def stay_left_s(self, now: Instant) -> float | None:
        """Return the time until its resources are certainly free; None: no limit."""
        claim, bound_s = self.claim, None
        if self.ends_by_s is not None:
            bound_s = max(0.0, self.ends_by_s - now.steady_s - ROUNDING_S)
        stay_s = None if claim.limit_s is None else self.longest_stay_s
        if stay_s is None:
            return bound_s
        end_s = self.granted_steady_s + stay_s
        if claim.held_until_wall_s:  # a usual hold is within the slack of ends
            hold_s = claim.held_until_wall_s - claim.granted_wall_s
            end_s += max(0.0, hold_s - HOLD_S)
        if self.started_steady_s is not None:  # a start long after the grant needs no more slack
            end_s = max(end_s, self.started_steady_s + stay_s - self.end_slack_s)
        if self.suspension is not None:
            extension_s = self.suspension.extension_s(now.steady_s)
            if extension_s == inf:
                return bound_s
            end_s += extension_s
        left_s = max(0.0, end_s - now.steady_s)
        return left_s if bound_s is None else min(left_s, bound_s)

    def launch(self, spec: JobSpec) -> LaunchAttempt:
        """Return the order to start it."""
        claim = self.claim
        if claim.reservation is not None:
            spec = replace(spec, time_limit_s=claim.limit_s)
        if spec.exclusive:  # its limits and variables are those of the machine, or of its queue
            resources = claim.resources.within(*spec.limits).shared(claim.ranks)
            spec = replace(spec, resources=resources)
        return LaunchAttempt(
            claim.attempt,
            spec,
            claim.gpu_ids,
            claim.lease_s,
            self.leased_steady_s or 0.0,
            claim.ranks,
            self.seats,
            self.port,
        )

    def ended(self, event: AttemptExited, machine: str) -> End:
        """Note the end that the launcher reported; its use was read before."""
        self.end = End(
            AttemptResult(
                event.attempt,
                machine,
                event.cause,
                event.exit_code,
                event.signal,
                event.usage,
                event.started_wall_s,
                event.ended_wall_s,
                event.elapsed_s,
                self.charged_s,
                f"{event.message} on {machine}" if event.cause in ON_A_MACHINE else event.message,
                self.factors,
                self.claim.refunded_s,
            )
        )
        return self.end

    def lost(self, now: Instant) -> AttemptExited:
        """Return its end as lost, if its result is unknown."""
        return self.over(
            EndCause.LOST,
            "the launcher does not know it: the machine was restarted, or its journal is lost",
            now,
        )

    def is_lost_at_once(self, event: AttemptExited, now_s: float) -> bool:
        """Return whether that end counts against this machine: not requested, and soon."""
        if event.cause is not EndCause.LOST or self.stop is not None:
            return False
        began_s = self.started_steady_s
        return now_s - (self.granted_steady_s if began_s is None else began_s) < LOST_AT_ONCE_S

    def is_failed_at_once(self, event: AttemptExited) -> bool:
        """Return whether it failed by itself almost at once."""
        is_own = event.cause is EndCause.FAILED and self.stop is None
        return is_own and event.elapsed_s < FAILED_AT_ONCE_S

    def over(self, cause: EndCause, message: str, now: Instant) -> AttemptExited:
        """Return its end if no launcher saw it."""
        return AttemptExited(
            self.claim.attempt,
            cause,
            None,
            None,
            Usage(),
            self.started_wall_s or self.claim.granted_wall_s,
            now.wall_s,
            0.0,
            message,
        )

    def accepted(self, machine: str) -> Accepted:
        """Return how far the claim is, for its home."""
        claim = self.claim
        return Accepted(claim.attempt, machine, claim.is_ahead, claim.phase, claim.port)

    def last_message(self, machine: str) -> OfAttempt:
        """Return the last message about it, which its home may not have received."""
        if self.end is not None:
            return self.end
        if self.started_wall_s is not None:
            return Begun(self.claim.attempt, machine, self.started_wall_s, self.is_used)
        return self.accepted(machine)

    def as_running(self, now: Instant) -> Running:
        """Return the claim as a broker needs to know it."""
        claim = self.claim
        return Running(
            claim.attempt,
            claim.account,
            claim.resources,
            claim.limit_s,
            self.stay_left_s(now),
            self.charged_s,
            claim.urgency,
            self.capability,
            None if self.suspension is None else self._suspended(self.suspension, now),
            claim.queue,
            self.suspension is not None and self.is_preempted,
            0 if claim.turn is None else claim.turn.row,
            not self.turn.is_whole,
            claim.reservation,
        )

    def _suspended(self, suspension: Suspension, now: Instant) -> SuspendedClaim:
        """Return what a broker needs to know of its suspension."""
        suspended = SuspendedClaim(
            suspension.freed_cpus,
            suspension.is_resuming,
            suspension.is_by_user,
            stands=bool(suspension.reasons),
        )
        stay_s = self.stay_left_s(now)
        if not suspension.is_by_user or stay_s is None:
            return suspended
        left_s = stay_s + max(0.0, now.steady_s - suspension.changed_s)
        return suspended._replace(left_s=left_s, ending_s=self.ending_s)

    def as_charged(self) -> Claim:
        """Return the claim as it is stored, with the charges so far."""
        return replace(
            self.claim,
            charged_s=self.charged_s,
            metered_s=self.metered_s,
            factors=self.factors,
        )
