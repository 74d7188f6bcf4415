"""The state of a broker between events, and what it asks of its exchange with other clusters.

Nothing of it is durable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from iriai.broker.machines.machine_index import MachineIndex
from iriai.broker.machines.machine_view import (
    MATCH_UNTIL_S,
    SEAT_S,
    ClaimKey,
    MachineView,
    Matched,
)
from iriai.broker.machines.matchmaking import Matchmaking, User, UserExclusions, user_of
from iriai.broker.machines.pool_slots import PoolSlots
from iriai.broker.queue.entries import QueuedJob, TaskClass
from iriai.broker.state.account_queues import AccountQueue, AccountQueues, QueueRules
from iriai.broker.state.contention import Contention
from iriai.broker.state.placement import Placement
from iriai.broker.state.preemptible_claims import PreemptibleClaims
from iriai.broker.state.reserved_heads import ReservedHeads, kept_for
from iriai.broker.state.suspended_claims import SuspendedClaims, used_now
from iriai.broker.usage.usage import UsageAccounts
from iriai.config.reader import Configuration
from iriai.model.ids import Account, AttemptId
from iriai.policy.draw.order import Order
from iriai.policy.placement.backfill import BACKFILLS, CONSERVATIVE
from iriai.policy.placement.calendar import AHEAD_WAIT_S, CpuLimit, within_running_cap
from iriai.policy.placement.policy_api import PlanSource
from iriai.policy.placement.seats import Room, Seats, seats_of
from iriai.protocol.messages.scheduling import Capability, Running, Want

TURN_WORK_MAX = 2_000
"""Work of the passes of one turn, in examined machines: some 10 ms, a hundred draws. Messages that
arrive in that time are handled before the pass continues, so that is the longest wait of a message,
with any number of idle machines. Less: more turns, each of which is recorded; more: longer waits.
"""


class MatchedSeat(NamedTuple):
    """The ranks of a task on one machine, and the key of their claim."""

    view: MachineView
    ranks: int
    key: ClaimKey


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The settings of a broker."""

    configuration: Configuration
    order: Order
    plan: PlanSource | None = None
    """A whole policy from a file, asked instead of draws and reserved heads."""
    turn_work_max: int = TURN_WORK_MAX

    @property
    def is_planned(self) -> bool:
        """Whether a policy plans all starts, in the place of passes."""
        return self.plan is not None or self.configuration.order.backfill == CONSERVATIVE


class BrokerState:
    """Machines, wants, standings and reserved heads, and the indices over them.

    It can also run a pass without messages, as a replay does:

        state = BrokerState(settings, standings)
        state.add_machine(MachineView("ume", Resources(100), mints=False))
        state.put(want, now.steady_s)                   # a job arrives; `remove` withdraws it
        outcome = SchedulingPass(state, rng, now).run()          # after each change
        outcome.decisions                               # these start now; keep (view, key) of each
        state.end(view, key)                            # such a task has ended

    After a pass no waiting task could start, so no pass is needed before something changes: a want
    is put, a claim ends, a machine comes or changes. A machine's view is changed by methods below.
    """

    def __init__(self, settings: BrokerSettings, standings: UsageAccounts) -> None:
        configuration = settings.configuration
        order = configuration.order
        self.settings = settings
        self.usage = standings
        self.cap_cpus = order.running_cap_cpus
        self.backfill = BACKFILLS[order.backfill]
        self.index = MachineIndex()
        self.machines = self.index.views
        """By name; only methods of this class change it."""
        self.matching = Matchmaking(self.index)
        self.exclusions = UserExclusions()
        rules = QueueRules(
            configuration.jobs.end_slack_s,
            settings.order.is_one_queue,
            self.cap_cpus is not None,
            self.tenant_of,
            self.matching,
            self.exclusions.of,
            inf if order.age_s is None else order.age_s,
            configuration.starting_queues,
            configuration.gang_queues,
            configuration.turning_queues,
            configuration.gang.rows_max,
        )
        self.queues = AccountQueues(rules, self.could_ever_run)
        self.suspended = SuspendedClaims()
        self.preemptible = PreemptibleClaims(configuration, self.index)
        self.slots = PoolSlots(self.machines)
        self.slots.bound(configuration.bounded_pools)
        self.heads = ReservedHeads(self.index, self.suspended, self.slots, configuration)
        self.reserved = self.heads.by_machine
        """By machine; at most one for each disjoint set of machines."""
        self.placement = Placement(
            self.index, self.queues, self.heads, self.backfill, self.preemptible
        )
        self.contention = Contention(configuration, settings.order, standings, self.queues)
        self._one_per_machine = order.one_per_machine
        self._of_users: dict[str, Account] = {}
        self._charge_factors = configuration.charge_factors
        """Of queues in which use costs less than in others."""
        self._keys = 0
        self._must_review = False
        """Whether machines came or changed that may match tasks without a possible machine."""

    @property
    def may_start_something(self) -> bool:
        """Return whether a pass could start a task now."""
        return bool(
            self.reserved
            or self.heads.by_job
            or self.heads.aside
            or self.suspended.resuming
            or self.preemptible.standing
            or self.preemptible.has_news
            or (self.queues.entries and (self.has_room or self.preemptible.tasks))
        )

    @property
    def has_room(self) -> bool:
        """Return whether a machine is open, or a booking for tasks that wait for it."""
        return bool(self.index.open.ranks) or self.placement.has_booked_room

    @property
    def has_news_of_tasks(self) -> bool:
        """Return whether running tasks may have to stand, or may go on."""
        preemptible = self.preemptible
        return preemptible.has_news or bool(preemptible.standing and self.index.news)

    # --- changes ---------------------------------------------------------------------------------

    def configured(self, configuration: Configuration) -> None:
        """Take a configuration with other queues than before."""
        self.settings = replace(self.settings, configuration=configuration)
        self.queues.configured(configuration)
        self.preemptible.configured(configuration)
        self._charge_factors = configuration.charge_factors
        self.heads.changes += 1
        if self.slots.bounds or configuration.bounded_pools:
            self.slots.bound(configuration.bounded_pools)
            self._refresh_pools(dict.fromkeys(view.pool for view in self.machines.values()))

    def put(self, want: Want, now_s: float) -> None:
        """Add or replace a job's want."""
        self.queues.put(want, now_s)
        self.contention.want_added(want)

    def add_machine(self, view: MachineView) -> None:
        """Add or replace a machine; claims of its old view are dropped."""
        old = self.index.views.get(view.name)
        if old is not None:
            self._end_all(old)
            self.heads.lost(old)
        before = self.index.capacities()
        self.index.put(view)
        if self.slots.bounds:
            self._refresh_pools([view.pool] if old is None else [view.pool, old.pool])
        after = self.index.capacities()
        if self.matching.put(view):
            self.queues.regroup()
        if before != after:
            self.queues.review()
        self.exclusions.forget(view.name)
        self._must_review = (
            self.matching.matches is not None
            or self.queues.are_bounded
            or self.queues.classes.wide > 0
        )
        self.heads.changes += 1

    def drop_machine(self, view: MachineView, now_s: float) -> None:
        """Remove a machine and the claims on it."""
        self._end_all(view)
        self.placement.drop(view)
        self.index.drop(view)
        if self.slots.bounds:
            self._refresh_pools([view.pool])
        self.heads.lost(view)
        self.matching.drop(view.name)
        self.exclusions.forget(view.name)
        if self.heads.give_up(view.name, now_s):
            for other in self.index.views.values():
                self.index.grew(other)  # resources that the head kept
        self.queues.review()
        self.heads.changes += 1

    def _end_all(self, view: MachineView) -> None:
        """Drop all claims of a machine."""
        for key in (*view.calendar, *view.calendar.ahead):
            self.usage.ended(key)
            self.slots.ended(key)
            self.suspended.drop(key)
            self.preemptible.dropped(key)

    def start(
        self, entry: QueuedJob, seats: Seats, now_s: float, row: int = 0
    ) -> tuple[MatchedSeat, ...]:
        """Claim the seats of a task that starts; one task less of its job waits.

        `row`: of time slices, for a gang.
        Of a task that takes as many ranks as fit, those that its account's cap has room for.
        """
        shape = entry.kind.key.shape
        if self.cap_cpus is not None and shape.least < shape.most:
            left_cpus = self.cap_cpus - self.running_cap(entry).running_cpus
            most = max(shape.least, left_cpus // max(1, entry.kind.key.resources.cpus))
            if most < sum(seat.ranks for seat in seats):
                rooms = [Room(machine, ranks) for machine, ranks in seats]
                seats = seats_of(rooms, shape._replace(most=most)) or seats
        started = []
        matched = Matched(entry, now_s + MATCH_UNTIL_S + SEAT_S * (len(seats) - 1), now_s)
        for machine, ranks in seats:
            view = self.machines[machine]
            self._keys += 1
            key = view.match(matched, ranks, now_s, self._keys)
            self._count_in(entry, view, key, ranks)
            started.append(MatchedSeat(view, ranks, key))
        has_mode = entry.want.queue in self.preemptible.modes
        if has_mode and not (entry.want.exclusive or entry.want.reservation):
            self.preemptible.started(
                entry.want.queue,
                entry.precedence.level,
                [(view, key) for view, _, key in started],
                row,
            )
        elif self.preemptible.tasks:
            for view, _, _ in started:
                self.preemptible.rows.room_changed(view.name)
        self.queues.task_matched(entry)
        if self.slots.bounds:
            self._refresh_pools(each.view.pool for each in started)
        return tuple(started)

    def start_ahead(self, entry: QueuedJob, view: MachineView, now_s: float) -> ClaimKey:
        """Match a task that waits for a place; it counts as a start, and holds nothing yet."""
        matched = Matched(entry, now_s + MATCH_UNTIL_S, now_s, is_ahead=True)
        key = view.match_ahead(matched, now_s)
        self._count_in(entry, view, key)
        self.queues.task_matched(entry)
        if self.slots.bounds:
            self._refresh_pools([view.pool])
        self.index.changed(view)
        return key

    def keep_place(self, entry: QueuedJob, now_s: float) -> bool:
        """Make a head of a task that does not fit; return whether places could be kept for it."""
        if not entry.kind.may_be_head:
            return False
        if entry.kind.is_wide:
            parallel = self.heads.reserve_pool(entry, now_s)
            if parallel is not None:
                self.placement.replanned(parallel)
            return parallel is not None
        view = self.heads.reserve(entry, now_s)
        if view is not None:
            self.placement.shrank(view)
        return view is not None

    def _count_in(self, entry: QueuedJob, view: MachineView, key: ClaimKey, ranks: int = 1) -> None:
        want = entry.want
        claimed = kept_for(entry.kind, view, ranks)
        speed = view.speed
        if self._charge_factors:
            speed *= self._charge_factors.get(want.queue, 1.0)
        self.usage.began(
            key,
            want.account,
            claimed,
            want.limit_s,
            want.urgency,
            speed=speed,
            queue=want.queue,
        )
        view.moved_in(self.tenant_of(want.account))
        if self.slots.bounds:
            self.slots.began(view, key)

    def _refresh_pools(self, pools: Iterable[str]) -> bool:
        """Note that the number of tasks in bounded pools may have changed.

        Returns whether a pool that was full is so no more.
        """
        changed = self.slots.refresh(pools)
        for view in changed:
            self.heads.changes += 1
            if view.is_pool_full:
                self.placement.shrank(view)
            else:
                self.placement.grew(view)
        return not all(view.is_pool_full for view in changed)

    def waits(self, view: MachineView, running: Running, account: Account, now_s: float) -> None:
        """Add a claim that its machine granted ahead."""
        ends_in_s = running.ends_in_s
        stay_s = None if ends_in_s is None else AHEAD_WAIT_S + ends_in_s
        view.calendar.add_ahead(running.attempt, running.resources, now_s, stay_s)
        self.index.changed(view)
        self._count_running(view, running, account)

    def began(self, view: MachineView, running: Running, account: Account, now_s: float) -> None:
        """Add a claim that its machine granted."""
        inside = running.reservation
        view.calendar.add(running.attempt, running.kept, now_s, running.stays_s, inside)
        if running.suspended is not None:
            self.suspended.put(view, running)
        if self.preemptible.modes:
            self.preemptible.know(view, running)
            self.preemptible.rows.room_changed(view.name)
        self._count_running(view, running, account)

    def claim_changed(self, view: MachineView, running: Running, now_s: float) -> None:
        """Let a claim that was ever suspended, or has another end, hold what its machine says."""
        attempt, calendar = running.attempt, view.calendar
        if attempt not in calendar:
            return
        if running.reservation is None and calendar.inside(attempt) is not None:
            calendar.leave(attempt)
        self.usage.moved(attempt, running.queue)
        if self.usage.evens_rate:
            self.usage.uses(attempt, used_now(running))
        kept, preemptible = running.kept, self.preemptible
        if preemptible.modes or preemptible.tasks:
            preemptible.know(view, running)
            if attempt in preemptible.by_key:  # this broker says when it runs
                kept = running.resources.with_cpus(calendar.held_by(attempt).cpus)
        if running.suspended is None and calendar.is_held(attempt, kept, now_s, running.stays_s):
            return
        calendar.change(attempt, kept, now_s, running.stays_s)
        preemptible.rows.hold()
        if running.suspended is None:
            return
        was_resuming = self.suspended.is_awaited_on(view.name)
        self.suspended.put(view, running)
        if was_resuming is not self.suspended.is_awaited_on(view.name):
            self.heads.changes += 1

    def take_back_cpus(self, view: MachineView, now_s: float) -> None:
        """Take back the cpus that suspended claims on a machine were given, but may not have got.

        Others have them: the machine says soon what they have.
        """
        returned = self.suspended.returned
        for attempt in [each for each, known in returned.items() if known.view is view]:
            if not view.is_overfull:
                return
            self.claim_changed(view, returned.pop(attempt).running, now_s)

    def granted(
        self,
        view: MachineView,
        key: Capability,
        want: Want,
        running: Running,
        account: Account,
        now_s: float,
    ) -> None:
        """Let the claim that a machine granted for the match `key` have the place of that."""
        held = view.calendar.held_by(key)
        if self.preemptible.tasks and key in self.preemptible.by_key:
            held = self.preemptible.by_key[key].seats[key].resources
        if (
            running.suspended is None
            and running.resources == held
            and (running.limit_s, running.urgency) == (want.limit_s, want.urgency)
            and running.charge_so_far_s == 0.0
            and self.usage.whose(key) == account
            and running.reservation == want.reservation
        ):
            view.calendar.pass_on(key, running.attempt, now_s, running.ends_in_s)
            if self.preemptible.tasks:
                self.preemptible.granted(key, running)
            self.usage.pass_on(key, running.attempt)
            if self.slots.bounds:
                self.slots.pass_on(key, running.attempt)
        else:
            self.release(view, key, was_granted=True)
            self.began(view, running, account, now_s)

    def _count_running(self, view: MachineView, running: Running, account: Account) -> None:
        speed = view.speed
        if self._charge_factors:
            speed *= self._charge_factors.get(running.queue, 1.0)
        self.usage.began(
            running.attempt,
            account,
            running.resources,
            running.limit_s,
            running.urgency,
            running.charge_so_far_s,
            speed=speed,
            queue=running.queue,
        )
        if running.suspended is not None:
            self.usage.uses(running.attempt, used_now(running))
        view.moved_in(self.tenant_of(account))
        if self.slots.bounds:
            self.slots.began(view, running.attempt)
            self._refresh_pools([view.pool])

    def end(self, view: MachineView, key: ClaimKey) -> bool:
        """End a claim and free its place; return False if there was none."""
        has_ended = self.release(view, key)
        if has_ended:
            self.index.grew(view)
        return has_ended

    def release(self, view: MachineView, key: ClaimKey, *, was_granted: bool = False) -> bool:
        """End a claim as `end` does; the caller updates the pool, once for all that has ended.

        `was_granted`: it was a match, and becomes a claim, which takes the same place.
        """
        if not view.calendar.remove(key):
            return self.end_ahead(view, key)
        view.ended += not was_granted
        if self.suspended.claims:
            self.suspended.drop(key)
        if self.preemptible.tasks:
            self.preemptible.dropped(key)
            self.preemptible.rows.room_changed(view.name)
        self._count_out(view, key)
        return True

    def end_ahead(self, view: MachineView, key: ClaimKey) -> bool:
        """Remove a claim that waited for a place: it has the place now, or will not get it.

        Returns whether another task may have a place now.
        """
        if not view.calendar.remove_ahead(key):
            return False
        is_wider = self._count_out(view, key)
        if is_wider:
            self.index.grew(view)
        else:
            self.index.changed(view)
        return is_wider

    def _count_out(self, view: MachineView, key: ClaimKey) -> bool:
        """Remove a claim from the counts; return whether that lets others have its place.

        A task of its name may run there again, or its pool is full no more.
        """
        account = self.usage.ended(key)
        tenant = self.tenant_of(account) if account is not None else ""
        if tenant:
            view.moved_out(tenant)
            self.heads.changes += 1
        has_opened = False
        if self.slots.bounds:
            self.slots.ended(key)
            has_opened = self._refresh_pools([view.pool])
        return bool(tenant) or has_opened

    def availability_changed(self, view: MachineView) -> None:
        """Note that the availability of a machine may have changed."""
        self.heads.changes += 1
        if self.slots.bounds:
            self.slots.came_or_left(view)
            self._refresh_pools([view.pool])
        self.index.grew(view)

    # --- queries ---------------------------------------------------------------------------------

    def counts_for(self, account: Account) -> Account:
        """Return the account under which wants and usage of `account` count here.

        Without configured groups a user counts once, whatever group a job was submitted under:
        otherwise each Unix group of a user would be another ticket in the draw, and another name to
        start with. The first account that was received stands for all of the user's.
        """
        if self.settings.configuration.groups:
            return account
        return self._of_users.setdefault(account.user, account)

    def tenant_of(self, account: Account) -> str:
        """Return the name of which one task runs on a machine (paper 000, section 5.4)."""
        whose = self._one_per_machine
        if whose == "none":
            return ""
        return {"user": account.user, "group": account.group}.get(whose, "")

    def running_cap(self, entry: QueuedJob) -> CpuLimit:
        """Return the decision of the running cap about one more task.

        A reserved head of the account counts as running: otherwise tasks that fill in beside it
        could use up the cap, and its own account would break the promise.
        """
        account = entry.want.account
        cpus = self.usage.running_cpus(account)
        for head in self.reserved.values():
            if head.job != entry.want.job:
                reserved = self.queues.entries.get(head.job)
                if reserved is not None and reserved.want.account == account:
                    cpus += head.resources.cpus
        for job in self.heads.by_job:
            if job != entry.want.job:
                reserved = self.queues.entries.get(job)
                if reserved is not None and reserved.want.account == account:
                    cpus += reserved.kind.total.cpus
        return within_running_cap(entry.kind.total.cpus, cpus, self.cap_cpus)

    def could_ever_run(self, kind: TaskClass) -> bool:
        """Return whether some machine and the running cap would admit a task on its own."""
        if kind.key.is_stopped:
            return False
        if kind.key.reservation is not None:
            return self.placement.inside.could_hold(kind)
        resources = kind.key.resources
        cpus = resources.cpus * kind.key.shape.least
        if not within_running_cap(cpus, 0, self.cap_cpus).allowed:
            return False
        if kind.is_wide:
            return self.placement.parallel.could_ever_run(kind)
        if not kind.is_choosy:
            return self.index.has_kind_for(resources)
        views, bounds, demand = self.index.views, kind.key.bounds, kind.demand
        names = views if demand is None else demand.possible()
        return any(
            resources.fits_in(views[name].calendar.capacity)
            and (bounds is None or bounds.admit(name))
            for name in names
        )

    def exclude(
        self, machine: str, attempt: AttemptId, account: Account, words: str, until_s: float
    ) -> None:
        """Start no task of the attempt's user there until then: tasks of theirs fail at once."""
        entry = self.queues.entries.get(attempt.task.job)
        user = account.user if entry is None else user_of(entry.want)
        self.exclusions.exclude(machine, User(attempt.home, user), words, until_s)
        self.heads.changes += 1

    def regroup_excluded(self) -> None:
        """Note that machines began or ceased to refuse some users."""
        users = self.exclusions.drain_changed()
        if users:
            self.queues.regroup(lambda want: (want.job.home, user_of(want)) in users)
            self.heads.changes += 1

    def measured(self, view: MachineView) -> bool:
        """Update a machine's load; return whether other tasks may run there now."""
        if not self.matching.measured(view):
            return False
        self.heads.changes += 1
        return True

    def tick(self, wall_s: float) -> None:
        """Prepare a pass at that time: machines came, or a new minute began."""
        if self.matching.tick(wall_s):
            self.heads.changes += 1
            for view in self.index.views.values():
                self.index.grew(view)
        self.regroup_excluded()
        if self._must_review:
            self._must_review = False
            self.queues.review()

    def first_of(self, queue: AccountQueue) -> QueuedJob | None:
        """Return the account's first task, even if it could never run; None if it is not first.

        With one queue for all, it must be the first of all accounts.
        """
        firsts = [line.first for line in queue.queue.lines.values()]
        entry = self.queues.entries[min(firsts).job] if firsts else None
        return entry if entry is not None and entry.want.account == queue.account else None

    def check(self) -> None:
        """Raise if an invariant is broken, or an index does not agree with its source."""
        self.index.check()
        self.preemptible.check()
        self.slots.check()
        views = self.machines.values()
        self.usage.check([key for view in views for key in (*view.calendar, *view.calendar.ahead)])
        self.heads.check(self.queues.entries)
        self.queues.check()
