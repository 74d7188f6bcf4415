"""The broker core: who is idle, who wants what; matches by policy. It keeps nothing durable.

In: reports of nodes, wants of homes. Out: matches and promises to homes. docs/spec/002.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec.structs import replace

from iriai.broker.explain import explain
from iriai.broker.machines import MATCH_UNTIL_S, MachineView
from iriai.broker.passes import Pass
from iriai.broker.quiet import QuietNews
from iriai.broker.shares import AccountShare, account_shares
from iriai.broker.standings import Standings
from iriai.broker.state import BrokerSettings, BrokerState
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.policy.backfill import ReservedHead
from iriai.policy.fairshare import ChargeRule
from iriai.policy.offpeak import QuietRule
from iriai.protocol.effects import Effect, LinkDown, LinkUp, Part, Wake, WakeAt
from iriai.protocol.messages import (
    Capability,
    Counted,
    Decline,
    Idle,
    Running,
    ToBroker,
    Want,
    Withdraw,
)

BrokerEvent = ToBroker | Wake | LinkUp | LinkDown


class Broker:
    """Matches wants with machines; see the module."""

    def __init__(self, settings: BrokerSettings, rng: Random) -> None:
        order = settings.configuration.order
        self.state = BrokerState(settings, Standings(order.half_life_s, ChargeRule.of(order)))
        self._rng = rng
        self._quiet = QuietNews(QuietRule.named(order.offpeak))
        self._must_pass = False
        self._alarm_s: float | None = None
        self._handlers: dict[type, Callable[[Any, Instant], None]] = {
            Idle: self._idle,
            Counted: self._counted,
            Want: self._want,
            Withdraw: self._withdraw,
            Decline: self._decline,
            Wake: self._wake,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
        }

    def handle(self, event: BrokerEvent, now: Instant) -> list[Effect]:
        """Take one message in; nothing is decided before `settle`."""
        self._handlers[type(event)](event, now)
        return []

    def settle(self, now: Instant) -> list[Effect]:
        """After the events of one instant: one policy pass, if anything changed."""
        state = self.state
        effects: list[Effect] = [*self._quiet.publish(state.machines, now.steady_s)]
        if self._must_pass:
            self._must_pass = False
            if state.reserved or (state.queues.entries and state.is_open):
                effects += Pass(state, self._rng, now).run()
            if any(view.matched for view in state.machines.values()):
                effects += self._wake_by(now.steady_s + MATCH_UNTIL_S)
        if self._quiet.next_s is not None:
            effects += self._wake_by(self._quiet.next_s)
        return effects

    def _wake_by(self, steady_s: float) -> list[Effect]:
        """Have the alarm go off then, or before."""
        if self._alarm_s is not None and self._alarm_s <= steady_s:
            return []
        self._alarm_s = steady_s
        return [WakeAt(Part.BROKER, steady_s)]

    def explain(self, job: JobId, now: Instant) -> list[Reason]:
        """Why a job's first waiting task has not started; the main reason first."""
        return explain(self.state, job, now)

    @property
    def is_offpeak(self) -> bool:
        """Whether use is charged by the off-peak factor now."""
        return self._quiet.is_offpeak

    def shares(self, now: Instant) -> list[AccountShare]:
        """Every account's standing, and how likely it is drawn next."""
        return account_shares(self.state, now)

    def check(self) -> None:
        """Raise where an invariant of this part is broken."""
        state = self.state
        for view in state.machines.values():
            view.check()
        state.standings.check([key for view in state.machines.values() for key in view.calendar])
        for machine, head in state.reserved.items():
            assert machine == head.machine
            entry = state.queues.entries.get(head.job)
            assert entry is not None, f"a place is kept for {head.job}, which does not wait"
            view_of_head = state.machines.get(machine)
            if view_of_head is not None:
                assert head.resources.fits_in(view_of_head.calendar.capacity), f"{head.job}"
        state.queues.check()

    # --- messages --------------------------------------------------------------------------------

    def _link_up(self, event: LinkUp, now: Instant) -> None:
        """The machine reports whole."""

    def _link_down(self, event: LinkDown, now: Instant) -> None:
        self._quiet.away(event.machine)
        view = self.state.machines.get(event.machine)
        if view is not None:
            had = "it cannot be reached"
            view.unavailable = Reason(Rule.MACHINE_AWAY, "a link", had, event.machine)
            self._must_pass = True

    def _idle(self, idle: Idle, now: Instant) -> None:
        view = self.state.machines.get(idle.machine)
        if view is not None and view.is_stale(idle):
            return
        if idle.whole:
            view = self._new_view(idle)
        elif view is None or view.incarnation != idle.incarnation:
            return  # the node will report whole when it hears of a broker that is new to it
        view.version = idle.version
        view.unavailable = idle.unavailable
        view.load, view.foreign_load = idle.load, idle.foreign_load
        self._quiet.measured(idle)
        for capability in idle.spent:
            if not self._settle_match(view, capability):
                view.forget(capability)
        for running in idle.began:
            self._running(view, running, now)
        for attempt in idle.ended:
            view.calendar.remove(attempt)
            self.state.standings.ended(attempt)
        view.capabilities.extend(idle.capabilities)
        self._must_pass = True

    def _new_view(self, idle: Idle) -> MachineView:
        old = self.state.machines.get(idle.machine)
        if old is not None:
            for key in old.calendar:
                self.state.standings.ended(key)
        view = self.state.machines[idle.machine] = MachineView(idle.machine, idle.capacity)
        view.incarnation = idle.incarnation
        view.speed = idle.speed
        return view

    def _running(self, view: MachineView, running: Running, now: Instant) -> None:
        if running.attempt in view.calendar:
            return
        resources = running.resources
        view.calendar.add(running.attempt, resources, now.steady_s, running.ends_in_s)
        self.state.standings.began(
            running.attempt,
            self.state.counts_for(running.account),
            resources,
            running.limit_s,
            running.urgency,
            running.charge_so_far_s,
            speed=view.speed,
        )

    def _counted(self, counted: Counted, now: Instant) -> None:
        for row in counted.rows:
            account = self.state.counts_for(row.account)
            self.state.standings.counted(counted.machine, row, account)
        for attempt, charge_s in counted.charged:
            self.state.standings.charged(attempt, charge_s)

    def _want(self, want: Want, now: Instant) -> None:
        account = self.state.counts_for(want.account)
        if account != want.account:
            want = replace(want, account=account)
        self.state.queues.put(want, now.steady_s)
        self._must_pass = True
        self._restore_promise(want, now)

    def _restore_promise(self, want: Want, now: Instant) -> None:
        """An earlier broker's reserved head keeps its place under this one."""
        machine, in_s = want.promised_machine, want.promised_in_s
        if in_s is None or machine in self.state.reserved:
            return
        start_s = now.steady_s + in_s
        self.state.reserved[machine] = ReservedHead(
            want.job, machine, want.resources, start_s, want.resources, start_s
        )

    def _withdraw(self, withdraw: Withdraw, now: Instant) -> None:
        if self.state.queues.remove(withdraw.job):
            self._must_pass = True

    def _decline(self, decline: Decline, now: Instant) -> None:
        view = self.state.machines.get(decline.machine)
        if view is not None and self._settle_match(view, decline.capability):
            view.capabilities.append(decline.capability)
            self._must_pass = True

    def _settle_match(self, view: MachineView, capability: Capability) -> bool:
        """A match is over, whatever came of it; False where there was none."""
        self.state.standings.ended(capability)
        return view.settle_match(capability)

    def _wake(self, wake: Wake, now: Instant) -> None:
        """Matches that nobody has heard of for too long free their place again.

        Their capabilities may still be good, and their tasks still wait. If not, that costs a
        refusal, or a match that is declined.
        """
        self._alarm_s = None
        for view in self.state.machines.values():
            over = [(c, m.entry) for c, m in view.matched.items() if m.until_s <= now.steady_s]
            for capability, entry in over:
                self._settle_match(view, capability)
                view.capabilities.append(capability)
                self.state.queues.give_back(entry)
        self._must_pass = True
