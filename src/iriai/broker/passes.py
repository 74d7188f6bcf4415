"""One policy pass: reserved heads first, then draws until nothing more can start.

design.md section 6. A drawn account whose first task does not fit becomes a reserved head, if none
holds the machines that could serve it; later draws only fill in beside it.
"""

from __future__ import annotations

from math import inf
from random import Random

from iriai.broker.machines import MATCH_UNTIL_S, MachineView
from iriai.broker.queues import AccountQueue, Entry
from iriai.broker.state import BrokerState
from iriai.model.account import Account
from iriai.model.ids import JobId, TaskId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.policy.backfill import ReservedHead
from iriai.policy.calendar import OPEN_END_S
from iriai.policy.limits import within_burst
from iriai.policy.order import Contender, GroupStanding, shares_wanted
from iriai.protocol.effects import Effect, Part, Send
from iriai.protocol.messages import Match, Promise

NO_STAY_S = -inf
"""Shorter than anything stays."""
PROMISE_STEP_S = 1.0
"""A promise is told again when it improves by at least this much; less is noise to a person."""


class Pass:
    """What one pass works with; made anew for each."""

    def __init__(self, state: BrokerState, rng: Random, now: Instant) -> None:
        self._state = state
        self._rng = rng
        self._now = now
        self._order = state.settings.order
        self._burst = state.settings.configuration.order.burst
        self._cap_cpus = state.settings.configuration.order.running_cap_cpus
        self._total_cpus = state.total_cpus
        self._groups: dict[str, GroupStanding] = {}
        self._blocked: set[int] = set()
        """Classes that fit nowhere; in one pass room only shrinks, so they stay blocked."""
        self._possible: set[int] = set()
        self._impossible: set[int] = set()
        """Classes that no machine, or no cap, could ever let run: they wait, and block nobody."""
        self._heads: dict[Account, Entry] = {}
        self._contenders: dict[Account, Contender] = {}
        self._within_burst: dict[Account, Contender] = {}
        """Those of them that may start one task more though others wait."""
        self._shares: dict[Account, float] = {}
        self._effects: list[Effect] = []

    def run(self) -> list[Effect]:
        """Match what can start; the messages to homes."""
        self._start_reserved()
        if self._state.is_open:
            self._gather()
        while self._contenders:
            account = self._draw()
            if not self._state.is_open:
                break
            self._renew(account)
            self._judge(account)
        return self._effects

    # --- reserved heads --------------------------------------------------------------------------

    def _start_reserved(self) -> None:
        state = self._state
        for machine, head in list(state.reserved.items()):
            entry = state.queues.entries.get(head.job)
            view = state.machines.get(machine)
            if entry is None or entry.want.resources != head.resources:
                del state.reserved[machine]
            elif view is None:
                continue  # an earlier broker's promise, told before its machine has reported
            elif not self._may_run_more(entry):
                self._tell(head, None)
                del state.reserved[machine]
            elif view.is_open and head.resources.fits_in(view.calendar.free):
                del state.reserved[machine]
                self._match(entry, view)
            else:
                self._plan(head, view)

    def _plan(self, head: ReservedHead, view: MachineView) -> None:
        slot = view.calendar.earliest(head.resources, self._now.steady_s)
        assert slot is not None, "a reserved head fits on its machine"
        head.start_s, head.spare = slot
        rests_on_open_claim = head.start_s > self._now.steady_s + OPEN_END_S / 2
        self._tell(head, None if rests_on_open_claim else head.start_s)

    def _tell(self, head: ReservedHead, start_s: float | None) -> None:
        told = head.told_start_s
        if start_s == told or (start_s and told and abs(start_s - told) < PROMISE_STEP_S):
            return
        head.told_start_s = start_s
        in_s = None if start_s is None else max(0.0, start_s - self._now.steady_s)
        self._effects.append(Send(head.job.home, Part.HOME, Promise(head.job, head.machine, in_s)))

    def _reserve(self, entry: Entry) -> None:
        """Keep the earliest place for an entry that does not fit, unless others hold it."""
        now_s = self._now.steady_s
        able = [
            view
            for view in self._state.machines.values()
            if entry.want.resources.fits_in(view.calendar.capacity) and not view.unavailable
        ]
        if any(view.name in self._state.reserved for view in able):
            return
        slots = [(view.calendar.earliest(entry.want.resources, now_s), view) for view in able]
        found = [(slot.start_s, view.name, slot, view) for slot, view in slots if slot is not None]
        if not found:
            return
        _, _, slot, view = min(found, key=lambda item: item[:2])
        want = entry.want
        head = ReservedHead(want.job, view.name, want.resources, slot.start_s, slot.spare)
        self._state.reserved[view.name] = head
        self._plan(head, view)

    # --- the draw --------------------------------------------------------------------------------

    def _gather(self) -> None:
        """The contenders: accounts with a ready task that some machine could ever hold."""
        state = self._state
        self._groups = dict(state.group_standings(self._now.wall_s))
        for account in state.queues.accounts:
            self._renew(account)
        self._shares = shares_wanted(list(self._contenders.values()), self._groups)
        for account in self._contenders:
            self._judge(account)

    def _renew(self, account: Account) -> None:
        """Bring an account's contender up to date; without a task that may fit, it leaves."""
        queue = self._state.queues.accounts.get(account)
        entry = self._first(queue) if queue else None
        if entry is None or not self._may_run_more(entry):
            self._contenders.pop(account, None)
            return
        self._heads[account] = entry
        want = entry.want
        self._contenders[account] = Contender(
            account,
            self._state.standings.usage_s(account, self._now.wall_s),
            self._state.right_of(account),
            want.urgency,
            entry.precedence.queued_at_s,
            TaskId(want.job.home, want.job.number, 0),
            self._state.standings.expected_s(account, want.resources, want.limit_s),
        )

    def _first(self, queue: AccountQueue) -> Entry | None:
        """The account's first entry that is not known to fit nowhere."""
        while True:
            entry = self._state.queues.first(queue, self._blocked)
            if entry is None or entry.class_id in self._possible:
                return entry
            if self._state.could_ever_run(entry.want.resources):
                self._possible.add(entry.class_id)
                return entry
            self._leave_out_impossible()

    def _leave_out_impossible(self) -> None:
        queues = self._state.queues
        for resources in queues.resources():
            if not self._state.could_ever_run(resources):
                self._impossible.update(queues.classes_of(resources, NO_STAY_S))
        self._blocked |= self._impossible

    def _may_run_more(self, entry: Entry) -> bool:
        return self._cap_cpus is None or self._state.running_cap(entry).allowed

    def _draw(self) -> Account:
        """Draw an account and match its head, or see that it fits nowhere."""
        account = self._order.choose(self._candidates(), self._groups, self._rng)
        entry = self._heads[account]
        queue = self._state.queues.accounts[account]
        view = self._place(entry)
        if view is not None:
            self._match(entry, view)
        else:
            if entry is self._state.queues.first(queue, self._impossible):
                self._reserve(entry)
            self._block()
        return account

    def _block(self) -> None:
        """Block all that fits nowhere now: many tasks may be of a class each."""
        queues = self._state.queues
        for resources in queues.resources():
            longest_s = self._longest_stay_s(resources)
            if longest_s < inf:
                self._blocked.update(queues.classes_of(resources, longest_s))

    def _longest_stay_s(self, resources: Resources) -> float:
        """How long a task that takes `resources` may stay at most, to start somewhere now."""
        longest_s = NO_STAY_S
        for view in self._state.machines.values():
            if view.is_open and resources.fits_in(view.calendar.free):
                head = self._state.reserved.get(view.name)
                if head is None or resources.fits_in(head.spare):
                    return inf
                longest_s = max(longest_s, head.start_s - self._now.steady_s)
        return longest_s

    def _candidates(self) -> list[Contender]:
        """Accounts within their burst; where only others are left, those (nothing stands idle)."""
        return list((self._within_burst or self._contenders).values())

    def _judge(self, account: Account) -> None:
        """Keep up who is within the burst: a draw changes that of the drawn account alone."""
        contender = self._contenders.get(account)
        if contender is not None and self._is_within_burst(contender):
            self._within_burst[account] = contender
        else:
            self._within_burst.pop(account, None)

    def _is_within_burst(self, contender: Contender) -> bool:
        account = contender.account
        running = self._state.standings.running_cpus(account)
        if not running:
            return True  # the rule never binds such an account, and most are
        return within_burst(
            self._heads[account].want.resources.cpus,
            running,
            self._shares.get(account, 0.0),
            self._total_cpus,
            burst=self._burst,
            others_wait=len(self._shares) > 1,
        ).allowed

    def _place(self, entry: Entry) -> MachineView | None:
        """Among the machines where it may start now, the one with the largest part free."""
        best: tuple[float, MachineView] | None = None
        for view in self._state.machines.values():
            if not view.is_open or not self._tolerated(entry, view):
                continue
            part = view.calendar.free.cpus / view.calendar.capacity.cpus
            if best is None or part > best[0]:
                best = (part, view)
        return best[1] if best else None

    def _tolerated(self, entry: Entry, view: MachineView) -> bool:
        want = entry.want
        if not want.resources.fits_in(view.calendar.free):
            return False
        head = self._state.reserved.get(view.name)
        return head is None or head.tolerates(want.resources, entry.stay_s, self._now.steady_s)

    def _match(self, entry: Entry, view: MachineView) -> None:
        want = entry.want
        now_s = self._now.steady_s
        head = self._state.reserved.get(view.name)
        if head is not None:
            head.filled(want.resources, entry.stay_s, now_s)
        capability = view.match(entry, now_s)
        standings = self._state.standings
        before_s = standings.usage_s(want.account, self._now.wall_s)
        standings.began(
            capability,
            want.account,
            want.resources,
            want.limit_s,
            want.urgency,
            speed=view.speed,
        )
        self._add_to_group(want.account, before_s)
        self._state.queues.take_one(entry)
        if not entry.count:
            self._give_back_places(want.job)
        match = Match(want.job, view.name, capability, MATCH_UNTIL_S)
        self._effects.append(Send(want.job.home, Part.HOME, match))

    def _give_back_places(self, job: JobId) -> None:
        """Nothing of the job waits any more, so no other machine keeps a place for it."""
        for machine, head in list(self._state.reserved.items()):
            if head.job == job:
                del self._state.reserved[machine]

    def _add_to_group(self, account: Account, before_s: float) -> None:
        group = self._groups.get(account.group)
        if group is not None:
            more_s = self._state.standings.usage_s(account, self._now.wall_s) - before_s
            self._groups[account.group] = group._replace(usage_s=group.usage_s + more_s)
