"""The broker core: who is idle, who wants what; matches by policy. It keeps nothing durable.

In: reports of nodes, wants of homes. Out: matches and promises to homes. docs/spec/002.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from random import Random
from typing import Any

from msgspec.structs import replace

from iriai.broker.abroad import Abroad
from iriai.broker.ahead import Ahead
from iriai.broker.attendance import Attendance
from iriai.broker.dice import DecisionDice
from iriai.broker.end_judge import EndJudge
from iriai.broker.estimate import estimated_starts
from iriai.broker.explain import explain, never_runs
from iriai.broker.guests import is_guest
from iriai.broker.machines import MATCH_UNTIL_S, NO_AD, RESEND_S, MachineView, Matched
from iriai.broker.passes import Outcome, Pass
from iriai.broker.planning import planning_of
from iriai.broker.queues import Entry
from iriai.broker.quiet import QuietNews
from iriai.broker.shares import AccountShare, account_shares
from iriai.broker.standings import Standings
from iriai.broker.state import BrokerSettings, BrokerState
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.problem import Refused
from iriai.model.reason import Reason
from iriai.policy.fading import Fading
from iriai.policy.fairshare import ChargeRule
from iriai.policy.offpeak import QuietRule
from iriai.protocol.candidates import Neighbour, Peer
from iriai.protocol.effects import Effect, LinkDown, LinkUp, Part, Send, Wake, WakeAt
from iriai.protocol.messages import (
    BetweenClusters,
    Capability,
    Charging,
    Counted,
    Decline,
    Explain,
    Explained,
    Forward,
    Idle,
    Match,
    Promise,
    Returned,
    Running,
    Summary,
    ToBroker,
    Want,
    Wants,
    Withdraw,
)

MINUTE_S = 60.0
"""Attributes that tell the time do so to the minute."""
BrokerEvent = ToBroker | BetweenClusters | Wake | LinkDown | LinkUp


class Broker:
    """Matches wants with machines; see the module."""

    def __init__(self, settings: BrokerSettings, rng: Random, machine: str = "") -> None:
        """`machine` is its own: what is told there needs no receipt."""
        order = settings.configuration.order
        self.state = BrokerState(settings, Standings(Fading.of(order), ChargeRule.of(order)))
        self._dice = DecisionDice(rng)
        self._planning = planning_of(self.state)
        self._ahead = Ahead(self.state, machine)
        self._quiet = QuietNews(QuietRule.named(order.offpeak))
        self._charging = Charging(
            order.idle_weight, order.gpu_weight, order.memory_weight, order.offpeak_factor
        )
        self._machine = machine
        self.attendance = Attendance(machine)
        self.abroad = Abroad(machine, self.state, rng)
        self._said: list[Effect] = []
        self._asked: dict[JobId, None] = {}
        """Jobs whose homes ask why they wait."""
        self._must_pass = False
        self._left: Pass | None = None
        """A pass that was left before its end; the alarm is set for the next turn."""
        self._turn_s = 0.0
        self._work = 0
        """Of the passes of that moment, as `turn_work_max` counts; an alarm begins anew."""
        self._alarm_s: float | None = None
        self._matching: dict[str, MachineView] = {}
        """Machines with matches under way."""
        self._is_told_away = False
        """Whether homes of other machines were told of some, and may not have heard."""
        self._backed_off: dict[str, MachineView] = {}
        self._ends = EndJudge(self.state, self._backed_off)
        self._handlers: dict[type, Callable[[Any, Instant], None]] = {
            Idle: self._idle,
            Counted: self._counted,
            Want: self._want,
            Wants: self._wants,
            Withdraw: self._withdraw,
            Explain: self._explain,
            Decline: self._decline,
            Summary: self.abroad.take,
            Forward: self.abroad.take,
            Returned: self.abroad.take,
            Wake: self._wake,
            LinkDown: self._link_down,
            LinkUp: self._link_up,
        }

    def begin(self, peers: Iterable[Peer], term: float, now: Instant) -> None:
        """It is new; these are there, and will tell it what they have."""
        self.attendance.term = term
        self.attendance.begin(peers, now.steady_s)
        self._must_pass = True

    def met(self, cluster: str, neighbours: Iterable[Neighbour]) -> None:
        """It is the broker of `cluster`; those are all clusters of the site."""
        self.abroad.met(cluster, neighbours)

    def handle(self, event: BrokerEvent, now: Instant) -> list[Effect]:
        """Take one message in; nothing is decided before `settle`."""
        self._handlers[type(event)](event, now)
        return []

    def settle(self, now: Instant) -> list[Effect]:
        """After the events of one instant: one policy pass, if anything changed."""
        state = self.state
        attendance = self.attendance
        effects: list[Effect] = [*self._quiet.publish(state.machines, now.steady_s)]
        effects += attendance.receipts()
        if self._said:
            effects += self._said
            self._said = []
        if not attendance.is_complete(now.steady_s):
            effects += self._wake_by(attendance.until_s)
        elif self._must_pass or self._left is not None or self.abroad.must_pass:
            effects += self._pass(now)
            self.abroad.passed()
            if self._matching:
                due_s = RESEND_S if self._is_told_away else MATCH_UNTIL_S
                effects += self._wake_by(now.steady_s + due_s)
            for view in self._backed_off.values():
                effects += self._wake_by(view.back_off.until_s or now.steady_s)
        effects += self._abroad(now)
        for job in self._asked:
            reasons = tuple(self.explain(job, now))
            effects.append(Send(job.home, Part.HOME, Explained(job, reasons)))
        self._asked.clear()
        if state.matching.follows_clock:
            effects += self._wake_by(now.steady_s + MINUTE_S - now.wall_s % MINUTE_S)
        wake_s = None if self._planning is None else self._planning.wake_s
        if wake_s is not None and wake_s > now.steady_s:
            effects += self._wake_by(wake_s)
        for at_s in (self._quiet.next_s, attendance.silent_s, state.exclusions.next_s):
            if at_s is not None:
                effects += self._wake_by(at_s)
        return effects

    def _abroad(self, now: Instant) -> list[Effect]:
        """What brokers of other clusters are told, once no more can start here."""
        abroad = self.abroad
        is_calm = self._left is None and self.attendance.is_complete(now.steady_s)
        effects = abroad.settle(now, is_calm=is_calm)
        next_s = now.steady_s if abroad.must_pass else abroad.next_s
        if next_s < inf and (is_calm or next_s > now.steady_s):
            effects += self._wake_by(next_s)
        return effects

    def _wake_by(self, steady_s: float) -> list[Effect]:
        """Have the alarm go off then, or before."""
        if self._alarm_s is not None and self._alarm_s <= steady_s:
            return []
        self._alarm_s = steady_s
        return [WakeAt(Part.BROKER, steady_s)]

    def _pass(self, now: Instant) -> list[Effect]:
        """Go on with the pass that was left, or begin one where anything changed."""
        has_changed = self._must_pass or self.abroad.must_pass
        self._must_pass = self.abroad.must_pass = False
        if self._planning is not None:
            return self._matches(self._planning.run(self._dice, now))
        if has_changed:
            self._left = None
        if not self.state.may_start_something:
            self.state.rooms.end()
            return self._hand_out_ahead(now)
        if now.steady_s != self._turn_s:
            self._turn_s, self._work = now.steady_s, 0
        work = self.state.rooms.work
        current = self._left or Pass(self.state, self._dice, now)
        outcome = current.run(self.state.settings.turn_work_max - self._work)
        self._work += self.state.rooms.work - work
        effects = self._matches(outcome)
        self._left = None if current.is_over else current
        if self._left is not None:
            return [*effects, *self._wake_by(now.steady_s)]
        return [*effects, *self._hand_out_ahead(now)]

    def _hand_out_ahead(self, now: Instant) -> list[Effect]:
        """Nothing that waits could start now: what comes next where short tasks run."""
        if not self._ahead.is_due:
            return []
        return self._matches(self._ahead.run(self._dice, now))

    def _matches(self, outcome: Outcome) -> list[Effect]:
        """What homes are told of a pass."""
        effects: list[Effect] = []
        for entry, view, key in outcome.decisions:
            assert isinstance(key, Capability)
            self._matching[view.name] = view
            job = entry.want.job
            self._is_told_away |= job.home != self._machine
            match = Match(job, view.name, key, MATCH_UNTIL_S, self._named_for(entry))
            effects.append(Send(job.home, Part.HOME, match))
        # After the matches: a promise is for the first task that waits when they are bound.
        for job, machine, start_in_s in outcome.told:
            known = self.state.queues.entries.get(job)
            if known is not None and is_guest(known.want):
                continue  # another broker may promise it a start
            effects.append(Send(job.home, Part.HOME, Promise(job, machine, start_in_s)))
        return effects

    def _named_for(self, entry: Entry) -> str:
        """Who is told if a match is declined: this broker, where it is not the home's own."""
        return self._machine if is_guest(entry.want) else ""

    def explain(self, job: JobId, now: Instant) -> list[Reason]:
        """Why a job's first waiting task has not started; the main reason first."""
        new = self.attendance.reason(now.steady_s)
        if new is not None:
            return [new]
        elsewhere = self.abroad.explain(job, now.steady_s)
        if elsewhere and job not in self.state.queues.entries:
            return elsewhere
        reasons = explain(self.state, job, now)
        if self._planning is not None:
            reasons = self._planning.explain(job, reasons, now)
        return reasons + elsewhere

    def never_runs(self, want: Want) -> list[Reason]:
        """What no machine of this cluster will ever meet of such a job, machine by machine.

        Empty: one may.
        """
        return never_runs(self.state, want)

    def failing_on(self, machine: str) -> list[str]:
        """Whose tasks fail at once there and not elsewhere, in words."""
        return self._ends.failing_on(machine)

    @property
    def is_offpeak(self) -> bool:
        """Whether use is charged by the off-peak factor now."""
        return self._quiet.is_offpeak

    def estimated_starts(self, now: Instant) -> dict[JobId, float]:
        """Seconds until what waits may start, as far as was looked; a guess, see `estimate`."""
        return estimated_starts(self.state, now)

    def shares(self, now: Instant) -> list[AccountShare]:
        """Every account's standing, and how likely it is drawn next."""
        return account_shares(self.state, now)

    def check(self) -> None:
        """Raise where an invariant of this part is broken."""
        self.state.check()
        matching = [view.name for view in self.state.machines.values() if view.matched]
        assert sorted(matching) == sorted(self._matching), f"matches under way at {matching}"

    # --- messages --------------------------------------------------------------------------------

    def _idle(self, idle: Idle, now: Instant) -> None:
        state, name = self.state, idle.machine
        view = state.machines.get(name)
        self.attendance.heard(name, now.steady_s)
        if view is not None and view.is_stale(idle):
            self.attendance.reported(name, (view.incarnation, view.version), is_lacking=False)
            return
        if not idle.whole and (view is None or not view.follows(idle)):
            known = (0, 0) if view is None else (view.incarnation, view.version)
            self.attendance.reported(name, known, is_lacking=True)
            return
        is_whole = idle.whole
        if is_whole and idle.charging not in (None, self._charging):
            self._said.append(Send(name, Part.NODE, self._charging))
        if view is None or (idle.whole and not view.is_same(idle)):
            view = self._new_view(idle)
        elif idle.whole:
            idle = view.what_is_new(idle)
        was_available = view.is_available
        view.told(idle)
        self.attendance.reported(name, (idle.incarnation, idle.version), is_lacking=False)
        is_wider = state.measured(view)
        self._quiet.measured(idle)
        is_wider |= self._spent(view, idle, now)
        for each in idle.turned_away:
            state.turned_away(name, each, now.steady_s)
        for running in idle.began:
            self._running(view, running, now)
        for attempt in idle.ended:
            self._ends.ended(view, idle, attempt, now.steady_s)
            is_wider |= state.end(view, attempt)
            self._ahead.ended(attempt)
        if idle.began and view.matched:
            self._give_way(view)
        for running in idle.waiting:
            self._waits(view, running, now)
        view.capabilities.extend(idle.capabilities)
        view.ahead_capabilities.extend(idle.ahead)
        if view.is_available != was_available:
            state.availability_changed(view)
        elif is_wider or idle.capabilities or idle.whole or view.name in state.reserved:
            state.park.grew(view)
        else:
            state.park.changed(view)
            self._must_pass |= self._ahead.is_due
            return
        self._must_pass = True

    def _new_view(self, idle: Idle) -> MachineView:
        self._matching.pop(idle.machine, None)
        self._backed_off.pop(idle.machine, None)
        self._ends.forget(idle.machine)
        view = MachineView(idle.machine, idle.capacity)
        view.incarnation = idle.incarnation
        view.speed = idle.speed
        view.ad = idle.ad or NO_AD
        view.load, view.foreign_load = idle.load, idle.foreign_load
        view.keyboard_idle_s = idle.keyboard_idle_s
        self.state.add_machine(view)
        return view

    def _spent(self, view: MachineView, idle: Idle, now: Instant) -> bool:
        """Capabilities came back: what became no claim was refused; whether one was."""
        granted = [running.capability for running in (*idle.began, *idle.waiting)]
        turned_away = dict.fromkeys(each.capability for each in idle.turned_away)
        is_wider = False
        for capability in idle.spent:
            is_granted = capability in granted
            matched = self._settle_match(view, capability, is_granted=is_granted)
            if matched is None:
                view.forget(capability)
            elif is_granted:
                view.back_off.succeeded()
            elif capability in turned_away:  # which says nothing of others' tasks
                is_wider = True
            elif not matched.is_ahead:  # which is refused where it came too late, and no more
                is_wider = True
                if view.back_off.failed(now.steady_s):
                    self._backed_off[view.name] = view
        return is_wider

    def _give_way(self, view: MachineView) -> None:
        """A claim was granted for a match that was thought to be lost: others have its place."""
        while view.is_overfull and (latest := view.last_matched) is not None:
            capability, matched = latest
            self._settle_match(view, capability)
            view.give_back(capability, matched)
            self._give_back(matched)

    def _give_back(self, matched: Matched) -> None:
        """A match came to nothing: its task waits again, unless nobody here waits for it."""
        if matched.is_wanted and not self.abroad.is_over(matched.entry):
            self.state.queues.give_back(matched.entry)

    def _running(self, view: MachineView, running: Running, now: Instant) -> None:
        if running.attempt not in view.calendar:
            account = self.state.counts_for(running.account)
            self.state.end(view, running.attempt)  # if it waited there, it does no more
            self.state.began(view, running, account, now.steady_s)
            self._ahead.began(view, running, account, now.steady_s)
            self._ends.began(account, running.attempt, view.name, now.steady_s)

    def _waits(self, view: MachineView, running: Running, now: Instant) -> None:
        if running.attempt not in view.calendar.ahead:
            account = self.state.counts_for(running.account)
            self.state.waits(view, running, account, now.steady_s)

    def _counted(self, counted: Counted, now: Instant) -> None:
        for row in counted.rows:
            account = self.state.counts_for(row.account)
            self.state.standings.counted(counted.machine, row, account)
        for attempt, charge_s in counted.charged:
            self.state.standings.charged(attempt, charge_s)

    def _want(self, want: Want, now: Instant) -> None:
        home = want.job.home
        self.attendance.heard(home, now.steady_s)
        self.attendance.wanted(home, want.job.number, want.stamp)
        known = self.state.queues.entries.get(want.job)
        if known is not None and 0 < want.stamp <= known.want.stamp:
            return
        account = self.state.counts_for(want.account)
        if account != want.account:
            want = replace(want, account=account, group=want.account.group)
        count = self.abroad.waits_here(want, known.count if known is not None else 0)
        if count != want.count:
            want = replace(want, count=count, front=min(want.front, count))
        if not count:
            self._forget_queued(want.job)
            return
        self.state.put(want, now.steady_s)
        if want.promised_in_s is not None:
            start_s = now.steady_s + want.promised_in_s
            if self._planning is not None:
                self._planning.restore(want.job, want.promised_machine, start_s)
            else:
                self.state.heads.restore(want, want.promised_machine, start_s)
        self._must_pass = True

    def _withdraw(self, withdraw: Withdraw, now: Instant) -> None:
        job = withdraw.job
        self.attendance.heard(job.home, now.steady_s)
        self.attendance.wanted(job.home, job.number, withdraw.stamp)
        known = self.state.queues.entries.get(job)
        if known is None or not 0 < withdraw.stamp < known.want.stamp:
            self._forget(job)

    def _forget(self, job: JobId) -> None:
        self.abroad.forget(job)
        self._forget_queued(job)

    def _forget_queued(self, job: JobId) -> None:
        if self._planning is not None:
            self._planning.promised.pop(job, None)
        if self.state.remove(job):
            self._must_pass = True

    def _wants(self, wants: Wants, now: Instant) -> None:
        self.attendance.heard(wants.machine, now.steady_s)
        self.attendance.told_all(wants.machine)
        self._must_pass = True

    def _explain(self, explain: Explain, now: Instant) -> None:
        self._asked[explain.job] = None  # told after the pass of this turn

    def _decline(self, decline: Decline, now: Instant) -> None:
        view = self.state.machines.get(decline.machine)
        matched = None if view is None else self._settle_match(view, decline.capability)
        if view is not None and matched is not None:
            view.give_back(decline.capability, matched)
            self.state.park.grew(view)
            self._must_pass = True

    def _settle_match(
        self, view: MachineView, capability: Capability, *, is_granted: bool = False
    ) -> Matched | None:
        """A match is over, whatever came of it; None: there was none."""
        matched = view.matched.pop(capability, None)
        if matched is not None:
            if not view.matched:
                del self._matching[view.name]
            self.state.end(view, capability, was_granted=is_granted)
        return matched

    def _link_down(self, event: LinkDown, now: Instant) -> None:
        self._away(event.machine, now)

    def _away(self, machine: str, now: Instant) -> None:
        """Nothing is started there until the machine has reported whole; what runs goes on.

        Nor is anything for the jobs of its home, which will tell its wants again.
        """
        self._quiet.away(machine)
        view = self.state.machines.get(machine)
        if view is not None and not view.is_away:
            view.is_away = True
            self.state.availability_changed(view)
            self._must_pass = True
            if view.is_forgotten:
                self._drop(view, now)
        for job in [job for job in self.state.queues.entries if job.home == machine]:
            self._forget(job)
        self.abroad.forget_home(machine)
        for view in self._matching.values():
            view.forsake(machine)

    def _link_up(self, event: LinkUp, now: Instant) -> None:
        """Nothing yet: the machine will report whole."""

    def forget_machine(self, machine: str, now: Instant) -> None:
        """A machine is gone for good: nothing is kept of it until it reports again.

        Raises `Refused` where it is not away. Matches that it was not heard of since wait again.
        """
        view = self.state.machines.get(machine)
        if view is None:
            return
        if not view.is_away:
            raise Refused(
                "not-away",
                f"{machine} is there",
                "end it first: 'iriai down --kill' with its --state; 'iriai drain' only rests it",
            )
        self._drop(view, now)

    def member_forgotten(self, machine: str, now: Instant) -> None:
        """As `forget_machine`, for one that the directory forgot; at the latest when it is away."""
        view = self.state.machines.get(machine)
        if view is not None and view.is_away:
            self._drop(view, now)
        elif view is not None:
            view.is_forgotten = True

    def _drop(self, view: MachineView, now: Instant) -> None:
        for capability, matched in list(view.matched.items()):
            self._settle_match(view, capability)
            self._give_back(matched)
        self.state.drop_machine(view, now.steady_s)
        self.attendance.forget(view.name)
        self._ends.forget(view.name)
        self._backed_off.pop(view.name, None)
        self._must_pass = True

    def _wake(self, wake: Wake, now: Instant) -> None:
        self._alarm_s = None
        self._work = 0
        self._must_pass |= self._left is None
        for machine in self.attendance.silent(now.steady_s):
            self._away(machine, now)
        self._is_told_away = False
        self.state.exclusions.expire(now.steady_s)
        for view in list(self._matching.values()):
            self._review_matches(view, now.steady_s)
        for view in list(self._backed_off.values()):
            if view.back_off.is_over(now.steady_s):
                del self._backed_off[view.name]
                self.state.availability_changed(view)
                self._must_pass = True

    def _review_matches(self, view: MachineView, now_s: float) -> None:
        """Matches of which nothing was heard are told again; for too long, they free their place.

        Their capabilities may still be good, and their tasks still wait. If not, that costs a
        refusal, or a match that is declined.
        """
        over = [(c, m) for c, m in view.matched.items() if m.until_s <= now_s]
        for capability, matched in over:
            self._settle_match(view, capability)
            view.give_back(capability, matched)
            self._give_back(matched)
        if over:
            self.state.park.grew(view)
            self._must_pass = True
        for capability, matched in view.matched.items():
            job = matched.entry.want.job
            if job.home == self._machine:
                continue
            self._is_told_away = True
            if matched.told_s + RESEND_S <= now_s:
                view.matched[capability] = matched._replace(told_s=now_s)
                named = self._named_for(matched.entry)
                match = Match(job, view.name, capability, matched.until_s - now_s, named)
                self._said.append(Send(job.home, Part.HOME, match))
