"""Intake of reports: of nodes what runs and is free, of homes what waits."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import TYPE_CHECKING

from msgspec.structs import replace

from iriai.broker.health.failure_attribution import FailureAttribution
from iriai.broker.intake.sessions import Sessions
from iriai.broker.machines.machine_view import NO_AD, MachineView, Matched
from iriai.broker.machines.pools import pool_of
from iriai.broker.scheduling.pending_matches import PendingMatches, Prefetcher
from iriai.broker.state.other_clusters import OtherClusters
from iriai.broker.state.state import BrokerState
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.model.reservable import UNLIMITED
from iriai.model.turn import NEVER
from iriai.policy.accounting.decay import ChargeRule, Decay
from iriai.policy.accounting.offpeak import OffpeakPublisher
from iriai.protocol.ledger.ledger import BatchRow, KnownAccounts, malformed_row
from iriai.protocol.ledger.use_bounds import UseBounds, rate_of
from iriai.protocol.messages.effects import Part, PeerNoticed, Send
from iriai.protocol.messages.scheduling import (
    Capability,
    Charging,
    Counted,
    Idle,
    Running,
    Want,
    Wants,
    Withdraw,
)
from iriai.protocol.misbehaviour import Incidents

if TYPE_CHECKING:
    from iriai.broker.scheduling.plan_policy import PlanDriver

CPUS_MAX = 8_192
"""The cpus of one machine: four times as many as the largest has today."""
GPUS_MAX = 1_024
MEMORY_BYTES_MAX = 1 << 50
"""A pebibyte."""
SPEED_MAX = 100.0
"""The speed of a machine, as `[machine] speed` has it."""


class ClaimedUse:
    """Checks what nodes report of themselves against bounds for machines of their size.

    A broker draws with what others count, so what no honest machine can have counted, or can be, is
    refused, and named (docs/spec/006, section 6). The own machine is believed.
    """

    def __init__(self, own: str, fading: Decay, rule: ChargeRule) -> None:
        """`own` is the broker's machine."""
        self._own = own
        self._rule = rule
        self.bounds = UseBounds(fading)
        """What machines of their size may have counted."""
        self._rates: dict[str, float] = {}
        self.incidents = Incidents()
        """Of machines whose reports were refused."""

    def measured(self, view: MachineView) -> None:
        """A machine said how large it is."""
        self._rates[view.name] = rate_of(self._rule, view.calendar.capacity, view.speed, view.ad)

    def refuses_report(self, idle: Idle) -> bool:
        """Return whether no machine is as it says."""
        if idle.machine == self._own:
            return False
        words = _impossible(idle)
        if words:
            self.incidents.note("size-beyond-bounds", idle.machine, words)
        return bool(words)

    def refuses(self, counted: Counted, now: Instant) -> bool:
        """Whether what it counted is not to be believed; nothing is noted where it never reported.

        Such a machine sends all again with its whole report.
        """
        machine = counted.machine
        if machine == self._own:
            return False
        rate = self._rates.get(machine)
        if rate is None:
            return True
        wall_s = now.wall_s
        found = (malformed_row(BatchRow.of(row), wall_s) for row in counted.rows)
        words = next(filter(None, found), "")
        words = words or self.bounds.excess(machine, counted.rows, rate, now)
        if words:
            self.incidents.note("use-beyond-size", machine, words)
        return bool(words)


def _impossible(idle: Idle) -> str:
    capacity = idle.capacity
    for what, amount, most in (
        ("cpus", capacity.cpus, CPUS_MAX),
        ("GPUs", capacity.gpus, GPUS_MAX),
        ("bytes of memory", capacity.memory_bytes, MEMORY_BYTES_MAX),
        ("times the usual speed", idle.speed, SPEED_MAX),
    ):
        if not 0 <= amount <= most:
            return f"it reports {amount} {what}; the limit is {most}"
    if not (isfinite(idle.load) and isfinite(idle.foreign_load)):
        return f"a load of {idle.load}, of which {idle.foreign_load} is foreign"
    for running in (*idle.began, *idle.waiting, *idle.changed):
        if not 0 <= running.resources.cpus <= CPUS_MAX or not running.charge_so_far_s >= 0.0:
            return (
                f"{running.attempt} with {running.resources.cpus} cpus, which was charged "
                f"{running.charge_so_far_s} s"
            )
        if running.suspended and running.suspended.freed_cpus > running.resources.cpus:
            freed_cpus = running.suspended.freed_cpus
            return f"{running.attempt} with {freed_cpus} of {running.resources.cpus} cpus free"
    return ""


class NodeReports:
    """Handles the reports of nodes and what machines counted."""

    def __init__(
        self,
        state: BrokerState,
        sessions: Sessions,
        offpeak: OffpeakPublisher,
        pending: PendingMatches,
        failures: FailureAttribution,
        prefetcher: Prefetcher,
        claimed: ClaimedUse,
    ) -> None:
        order = state.settings.configuration.order
        self._charging = Charging(
            order.idle_weight, order.gpu_weight, order.memory_weight, order.offpeak_factor
        )
        self._state = state
        self._sessions = sessions
        self._offpeak = offpeak
        self._pending = pending
        self._failures = failures
        self._prefetcher = prefetcher
        self._claimed = claimed
        self._accounts = KnownAccounts()
        self.effects: list[Send | PeerNoticed] = []
        """Of this turn: nodes get the charging rule where theirs differs, operators incidents."""

    def counted(self, counted: Counted, now: Instant) -> None:
        """Take a machine's ledger rows, and the charges so far of its running attempts."""
        if self._claimed.refuses(counted, now):
            self.effects += self._claimed.incidents.drain()
            return
        usage, machine = self._state.usage, counted.machine
        self._count(machine, counted.rows)
        view = self._state.machines.get(machine)
        for attempt, charge_s in counted.charged:
            if view is not None and attempt in view.calendar and charge_s >= 0.0:
                usage.charged(attempt, charge_s)

    def learned(self, machine: str, rows: Iterable[LedgerRow], now: Instant) -> None:
        """Take a machine's ledger rows from the directory."""
        self._claimed.bounds.know(machine, rows, now)
        self._count(machine, rows)

    def _count(self, machine: str, rows: Iterable[LedgerRow]) -> None:
        usage = self._state.usage
        for row in rows:
            if self._accounts.takes(machine, row.account):
                usage.counted(machine, row, self._state.counts_for(row.account))

    def forget_usage(self, machine: str) -> None:
        """Drop a machine's ledger rows."""
        self._claimed.bounds.forget(machine)
        for account in self._accounts.forget(machine):
            self._state.usage.forget(machine, account, self._state.counts_for(account))

    def receive(self, idle: Idle, now: Instant) -> bool:
        """Handle a report of a node; return whether a pass may start something now."""
        if self._claimed.refuses_report(idle):
            self.effects += self._claimed.incidents.drain()
            return False
        self._sessions.contacted(idle.machine, now.steady_s)
        view = self._state.machines.get(idle.machine)
        if not self._may_take(idle, view):
            return False
        if idle.whole and idle.charging not in (None, self._charging):
            self.effects.append(Send(idle.machine, Part.NODE, self._charging))
        if view is None or (idle.whole and not view.is_same(idle)):
            view = self._new_view(idle)
        elif idle.whole:
            idle = view.changes_in(idle)
        was_available, had_clock = view.is_available, view.has_clock
        view.advertised(idle)
        if idle.expected_idle_s is not None:
            self._state.index.expect_owner(view, now.steady_s + idle.expected_idle_s)
        if view.has_clock is not had_clock:
            self._state.preemptible.clock_changed(view)
        known = (idle.incarnation, idle.version)
        self._sessions.reported(idle.machine, known, is_lacking=False)
        is_wider = self._state.measured(view)
        if idle.is_load_known:
            self._offpeak.measured(idle.machine, idle.load, idle.capacity.cpus)
        is_wider |= self._took_claims(view, idle, now)
        if idle.rules != view.rules:
            view.rules = idle.rules
            self._state.exclusions.forget(view.name)
            is_wider = True
        view.capabilities.extend(idle.capabilities)
        view.ahead_capabilities.extend(idle.ahead)
        if view.is_available != was_available:
            self._state.availability_changed(view)
        elif is_wider or idle.capabilities or idle.whole or view.name in self._state.reserved:
            self._state.index.grew(view)
        elif idle.spent:  # a claim may take less than its match
            self._state.index.grew(view)
            return self._prefetcher.is_due
        else:
            self._state.index.changed(view)
            return self._prefetcher.is_due
        return True

    def _may_take(self, idle: Idle, view: MachineView | None) -> bool:
        """Return whether a report follows what is known; else acknowledge what is known."""
        reported = (idle.incarnation, idle.version)
        known = (0, 0) if view is None else (view.incarnation, view.version)
        is_stale = view is not None and reported <= known
        is_next = view is not None and reported == (view.incarnation, view.version + 1)
        if is_stale or not (idle.whole or is_next):
            self._sessions.reported(idle.machine, known, is_lacking=not is_stale)
            return False
        return True

    def _new_view(self, idle: Idle) -> MachineView:
        self._pending.forget_machine(idle.machine)
        if idle.machine in self._state.machines:  # what is forgotten is sought among all that runs
            self._failures.forget(idle.machine)
        view = MachineView(idle.machine, idle.capacity, pool_of(idle.ad or NO_AD))
        view.incarnation = idle.incarnation
        view.speed = idle.speed
        view.rules = idle.rules
        view.ad = idle.ad or NO_AD
        view.reservable = idle.reservable or UNLIMITED
        view.load, view.foreign_load = idle.load, idle.foreign_load
        view.keyboard_idle_s, view.use = idle.keyboard_idle_s, idle.use
        self._state.add_machine(view)
        self._claimed.measured(view)
        return view

    def _took_claims(self, view: MachineView, idle: Idle, now: Instant) -> bool:
        """Take the claims that began, ended or were refused; return whether there may be room."""
        state = self._state
        has_booked = bool(idle.bookings or (view.calendar.bookings and idle.bookings is not None))
        if has_booked:
            from iriai.broker.intake.booked_times import take_bookings

            take_bookings(state, view, idle.bookings or (), now)
        is_wider, places = self._spent(view, idle, now)
        is_wider |= has_booked
        for each in idle.turned_away:
            state.exclusions.add(idle.machine, each, now.steady_s)
        for running in idle.began:
            self._running(view, running, now, places)
        for capability in places:
            state.release(view, capability, was_granted=True)
        for running in idle.changed:
            state.suspended.reported(running, now.steady_s)
            state.claim_changed(view, running, now.steady_s)
            is_wider = True
        if state.preemptible.tasks or view.cycle or idle.cycle:
            if idle.whole or idle.cycle >= view.cycle:
                self._compare_turns(view, idle)
            state.preemptible.rows.hold()
        if state.suspended.returned and view.is_overfull:
            state.take_back_cpus(view, now.steady_s)
        for attempt in idle.ended:
            self._failures.ended(view, idle, attempt, now.steady_s)
            is_wider |= state.release(view, attempt)
            self._prefetcher.ended(attempt)
        if idle.ended and state.preemptible.standing:
            state.preemptible.freed(view.name)
        if (idle.began or idle.changed) and view.matched:
            self._pending.give_way(view, now.steady_s)
        if state.preemptible.tasks and view.is_overfull:
            state.preemptible.relieve(view)
        for running in idle.waiting:
            self._waits(view, running, now)
        return is_wider

    def _compare_turns(self, view: MachineView, idle: Idle) -> None:
        """Note where a machine has claims that stand or run other than it was told last."""
        preemptible, has_last = self._state.preemptible, idle.cycle == view.cycle
        if idle.cycle > view.cycle:  # another broker's, or of before a new start of its daemon
            preemptible.to_tell[view.name] = None
        if idle.whole or not has_last:
            view.cycle, view.told_turns = max(view.cycle, idle.cycle), None
        for running in (*idle.began, *idle.changed):
            task = preemptible.by_key.get(running.attempt)
            stands = task is not None and task.turn.mask == 0
            if running.is_preempted and not stands and task is not None and has_last:
                preemptible.was_not_taken(running.attempt)
            if stands and has_last and not running.is_preempted and _was_told(view, running):
                takes_turns = running.takes_turns
                preemptible.does_not_stand(running.attempt, running.row, takes_turns=takes_turns)
                continue
            if running.is_preempted is not stands or (idle.whole and task is not None):
                view.told_turns = None
                preemptible.to_tell[view.name] = None

    def _spent(
        self, view: MachineView, idle: Idle, now: Instant
    ) -> tuple[bool, dict[Capability, Matched]]:
        """Close the matches of used capabilities.

        Return whether any became no claim, and those whose places are for claims that began.
        """
        granted = {running.capability for running in (*idle.began, *idle.waiting)}
        turned_away = dict.fromkeys(each.capability for each in idle.turned_away)
        is_wider = False
        places: dict[Capability, Matched] = {}
        for capability in idle.spent:
            is_granted = capability in granted
            matched = self._pending.close(view, capability, is_granted=is_granted)
            if matched is None:
                view.forget(capability)
                continue
            matched.is_received = True
            was_refused = matched.is_refused
            matched.is_refused |= not is_granted
            if is_granted:
                view.back_off.succeeded()
                if matched.is_ahead:
                    self._state.release(view, capability, was_granted=True)
                else:
                    places[capability] = matched
            elif capability in turned_away or was_refused or idle.cycle < view.cycle:
                # Because of its user, another seat, or turns that it has not heard of yet.
                is_wider = True
            elif matched.is_ahead:  # it was late; now others may take the cpus of what runs
                is_wider |= view.name in self._state.preemptible.by_machine
            else:
                is_wider = True
                if view.back_off.failed(now.steady_s):
                    self._failures.quarantine(view)
        return is_wider, places

    def _running(
        self,
        view: MachineView,
        running: Running,
        now: Instant,
        places: dict[Capability, Matched],
    ) -> None:
        """Take a claim that began; it gets the place of its match, if that is among `places`."""
        if running.attempt in view.calendar:
            self._state.suspended.reported(running, now.steady_s)
            self._state.claim_changed(view, running, now.steady_s)
            return
        state, now_s, key = self._state, now.steady_s, running.capability
        was_ahead = running.attempt in view.calendar.ahead
        if was_ahead or not self._is_elsewhere(running):
            account = state.counts_for(running.account)
            if was_ahead:
                state.end_ahead(view, running.attempt)  # it has its place now
            matched = None if key is None else places.pop(key, None)
            if key is None or matched is None:
                state.began(view, running, account, now_s)
            else:
                state.granted(view, key, matched.entry.want, running, account, now_s)
            is_alone = not running.attempt.rank and (matched is None or len(matched.seats) == 1)
            if is_alone:
                self._prefetcher.began(view, running, account, now_s)
            self._failures.began(account, running.attempt, view.name, now_s, is_alone=is_alone)

    def _waits(self, view: MachineView, running: Running, now: Instant) -> None:
        is_known = running.attempt in view.calendar.ahead or self._is_elsewhere(running)
        if not is_known:
            account = self._state.counts_for(running.account)
            self._state.waits(view, running, account, now.steady_s)

    def _is_elsewhere(self, running: Running) -> bool:
        """Return whether another machine reported this attempt, of which there is only one.

        Which of the two reports is false is not known here; the first is believed.
        """
        return self._state.usage.whose(running.attempt) is not None


class JobRequests:
    """Handles the requests of homes. Methods return whether a pass may decide otherwise now."""

    def __init__(
        self,
        state: BrokerState,
        sessions: Sessions,
        federation: OtherClusters,
        plan_driver: PlanDriver | None,
    ) -> None:
        self._state = state
        self._sessions = sessions
        self._federation = federation
        self._plan_driver = plan_driver

    def put(self, want: Want, now: Instant) -> bool:
        """Take the number of waiting tasks of a job."""
        home = want.job.home
        self._sessions.contacted(home, now.steady_s)
        self._sessions.wanted(home, want.job.number, want.stamp)
        known = self._state.queues.entries.get(want.job)
        if known is not None and 0 < want.stamp <= known.want.stamp:
            return False
        if self._plan_driver is not None:
            self._plan_driver.proposals.told(want, now.steady_s)
        if want.held is not None:
            self._federation.forget(want.job)
            return self._forget_queued(want.job)
        account = self._state.counts_for(want.account)
        if account != want.account:
            want = replace(want, account=account, group=want.account.group)
        count = self._federation.waits_here(want, known.count if known is not None else 0)
        if count != want.count:
            want = replace(want, count=count, front=min(want.front, count))
        if not count:
            return self._forget_queued(want.job)
        self._state.put(want, now.steady_s)
        if want.promised_in_s is not None:
            self._restore_promise(want, now.steady_s + want.promised_in_s)
        return True

    def _restore_promise(self, want: Want, start_s: float) -> None:
        """Restore the start that an earlier broker promised."""
        if self._plan_driver is not None:
            self._plan_driver.restore(want.job, want.promised_machine, start_s)
        else:
            self._state.heads.restore(want, want.promised_machine, start_s)

    def withdraw(self, withdraw: Withdraw, now: Instant) -> bool:
        """Withdraw a job, unless a later request for it arrived before."""
        job = withdraw.job
        self._sessions.contacted(job.home, now.steady_s)
        self._sessions.wanted(job.home, job.number, withdraw.stamp)
        known = self._state.queues.entries.get(job)
        if known is not None and 0 < withdraw.stamp < known.want.stamp:
            return False
        return self._forget(job)

    def all_resent(self, wants: Wants, now: Instant) -> bool:
        """Note that a home has sent all its requests."""
        self._sessions.contacted(wants.machine, now.steady_s)
        self._sessions.resent_all(wants.machine)
        if self._plan_driver is not None:
            self._plan_driver.proposals.permitted(wants.machine, wants.policy_may)
        return True

    def forget_home(self, home: str) -> bool:
        """Forget the jobs of a home that is offline; it will send its requests again."""
        has_changed = False
        for job in [job for job in self._state.queues.entries if job.home == home]:
            has_changed |= self._forget(job)
        self._federation.forget_home(home)
        if self._plan_driver is not None:
            self._plan_driver.proposals.forget_home(home)
        return has_changed

    def _forget(self, job: JobId) -> bool:
        self._federation.forget(job)
        if self._plan_driver is not None:
            self._plan_driver.proposals.forget(job)
        return self._forget_queued(job)

    def _forget_queued(self, job: JobId) -> bool:
        if self._plan_driver is not None:
            self._plan_driver.promised.pop(job, None)
        return self._state.queues.remove(job)


def _was_told(view: MachineView, running: Running) -> bool:
    """Return whether the last that a machine was told is that a claim stands."""
    turns = () if view.told_turns is None else view.told_turns.turns
    return any(each.attempt == running.attempt and each.turn == NEVER for each in turns)
