"""The starts of one pass, and the places that it keeps: reserved heads come first, by level."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby, islice
from typing import NamedTuple

from iriai.broker.machines.machine_view import MachineView
from iriai.broker.queue.entries import QueuedJob, TaskClass
from iriai.broker.state.contention import DecisionRng
from iriai.broker.state.preemptible_task import PreemptibleTask
from iriai.broker.state.reserved_heads import (
    PROMISE_STEP_S,
    could_hold,
    has_capacity,
    kept_for,
    slot_on,
)
from iriai.broker.state.state import BrokerState, MatchedSeat
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.policy.placement.backfill import ReservedHead
from iriai.policy.placement.pool_plan import PoolHead
from iriai.policy.placement.seats import Seat, Seats

FRESH_LOOKS_MAX = 16
"""Machines with newly free resources on which an earlier start of a reserved head is sought in one
pass. If there are thousands after some time, another task starts on one of them anyway."""


class Decision(NamedTuple):
    """The start of a task; its claims are in the machines' calendars already."""

    entry: QueuedJob
    seats: tuple[MatchedSeat, ...]
    """In the order of their ranks."""


class TaskStarts:
    """Starts tasks, or keeps places for them, until nothing changes any more."""

    def __init__(self, state: BrokerState, decision_rng: DecisionRng, now: Instant) -> None:
        self._state = state
        self._decision_rng = decision_rng
        self._now = now
        self._placement = state.placement
        self._heads = state.heads
        self.decisions: list[Decision] = []
        self.standing: list[PreemptibleTask] = []
        """Running tasks that stand aside, or have stood, in the order in which they come back."""
        self.releases = 0
        """Counts the kept places that became free: who could start nothing before may now."""

    def may_run_more(self, entry: QueuedJob) -> bool:
        """Return whether the running cap of its account permits one more task in this pass."""
        state = self._state
        if state.cap_cpus is None:
            return True
        is_stopped = entry.kind.key.capped in self._placement.stopped
        return not is_stopped and state.running_cap(entry).allowed

    def start_or_keep(self, entry: QueuedJob) -> None:
        """Start a task of an entry, or keep a place for it if it fits nowhere."""
        seats = self._placement.place(entry.kind)
        if seats is not None:
            self.start(entry, seats, self._placement.row)
            return
        if self._state.keep_place(entry, self._now.steady_s):
            self._decision_rng.decided()

    def start(self, entry: QueuedJob, seats: Seats, row: int = 0) -> None:
        """Start a task of an entry there; places that are kept for the entry become free."""
        now_s = self._now.steady_s
        self._decision_rng.decided()
        resized = self._state.preemptible.rows.resized
        if resized:
            self._see_to_resized()
        matched = self._state.start(entry, seats, now_s, row)
        self.decisions.append(Decision(entry, matched))
        kind = entry.kind
        is_inside = kind.key.reservation is not None
        for view, ranks, _ in matched:
            if not is_inside:
                taken = kept_for(kind, view, ranks)
                head = self._heads.by_machine.get(view.name)
                if head is not None:
                    head.filled(taken, entry.stay_s, now_s)
                for parallel in self._heads.by_job.values():
                    parallel.filled(view.name, taken, entry.stay_s, now_s)
            if view.name not in resized:
                self._placement.shrank(view)
            if self.standing and view.calendar.bookings:
                self._state.preemptible.joined[view.name] = None
        if resized:
            self._see_to_resized()
        if not entry.count:
            self._give_back_places(entry.want.job)

    def _give_back_places(self, job: JobId) -> None:
        """Free the place of a job that no longer waits on any other machine."""
        for head in list(self._heads.by_machine.values()):
            if head.job == job:
                self._drop(head)
        parallel = self._heads.by_job.pop(job, None)
        if parallel is not None:
            self._give_up_pool(parallel)

    # --- levels ---------------------------------------------------------------------------------

    @property
    def has_more(self) -> bool:
        """Return whether anything comes into its own when its level is served."""
        return bool(self.standing or self._heads.aside or self._heads.promised)

    def stand_aside(self, level: int) -> None:
        """Free the cpus of running tasks below a level, if their queues let that; before a pass."""
        preemptible = self._state.preemptible
        starting = self._state.settings.configuration.starting_queues
        preemptible.stand_aside(level, starting)
        if preemptible.standing or self._state.queues.lower:
            preemptible.settle_machines()  # else a lower gang may get a row that fell empty
        self.standing = preemptible.in_order()
        preemptible.rows.resized.clear()  # the pass has not looked at anything yet

    def _take_back(self, level: int) -> bool:
        """Let running tasks up to a level take their cpus again; return whether there were any."""
        preemptible = self._state.preemptible
        starting = self._state.settings.configuration.starting_queues
        due = [task for task in self.standing if task.level <= level and task.seats]
        self.standing = [task for task in self.standing if task.level > level]
        for _, tasks in groupby(due, key=lambda task: task.level):
            left = list(tasks)
            while left:
                for task in left:
                    is_stopped = task.queue in preemptible.modes and task.queue not in starting
                    preemptible.take_back(task, is_stopped=is_stopped)
                has_moved = preemptible.settle_machines()
                # In rows that fell empty others have room.
                left = [task for task in left if preemptible.may_run(task)] if has_moved else []
        self._see_to_resized()
        return bool(due)

    def give_up_taken(self) -> None:
        """Let running tasks stand whose cpus others have by now: the pass is interrupted."""
        preemptible = self._state.preemptible
        for task in self.standing:
            if task.seats and not preemptible.fits(task):
                preemptible.take_back(task, is_stopped=False)
        preemptible.settle_machines()

    def _see_to_resized(self) -> None:
        """Look again at machines of which running tasks hold more or less than before."""
        resized = self._state.preemptible.rows.resized
        for name, has_grown in resized.items():
            view = self._state.index.views.get(name)
            if view is not None:
                self._placement.resized(view, has_grown=has_grown)
        resized.clear()

    def set_aside(self, level: int) -> None:
        """Free the places of heads of lower levels than the first that waits, until their turn."""
        queues, heads = self._state.queues, self._heads
        kept: list[ReservedHead | PoolHead] = [*heads.by_machine.values(), *heads.by_job.values()]
        for head in kept:
            if queues.level_of(head.job) > level:
                heads.aside.append(head)
                if isinstance(head, PoolHead):
                    del heads.by_job[head.job]
                    self._give_up_pool(head)
                else:
                    self._drop(head)
        self.bring_back(level)

    def bring_back(self, level: int) -> bool:
        """Let running tasks up to that level go on; start heads up to it, or keep their places.

        Returns whether there were any.
        """
        has_taken = bool(self.standing) and self._take_back(level)
        if self._heads.promised:
            has_taken |= self._place_promised(level)
        heads, level_of = self._heads, self._state.queues.level_of
        due = [head for head in heads.aside if level_of(head.job) <= level]
        heads.aside = [head for head in heads.aside if level_of(head.job) > level]
        for head in sorted(due, key=lambda head: level_of(head.job)):
            entry = self._state.queues.entries.get(head.job)
            if entry is None:
                continue
            if isinstance(head, PoolHead):
                self._bring_back_pool(head, entry)
            else:
                self._bring_back_single(head, entry)
        return has_taken or bool(due)

    def _bring_back_pool(self, head: PoolHead, entry: QueuedJob) -> None:
        if head.told_start_s is not None:
            self._heads.promised[head.job] = head.told_start_s
        if entry.kind.is_possible and self.may_run_more(entry):
            entry.kind.looked = -1  # what was found for another of its kind may be old
            self._placement.level = entry.precedence.level
            seats = self._placement.place(entry.kind)
            if seats is not None:
                self._heads.promised.pop(head.job, None)
                self.start(entry, seats, self._placement.row)
            else:
                self._state.keep_place(entry, self._now.steady_s)
        self._heads.take_back(head.job)  # unless places are kept for it again

    def _bring_back_single(self, head: ReservedHead, entry: QueuedJob) -> None:
        heads, now_s = self._heads, self._now.steady_s
        view = self._state.index.views.get(head.machine)
        if view is not None and not self._may_start_on(view, entry):
            heads.promise(head, None, now_s)
            return
        if head.machine in heads.by_machine or (view and heads.is_kept_in(view.pool)):
            found = heads.earliest(entry.kind, now_s)  # a higher level has its place
            if found is None:
                heads.promise(head, None, now_s)
                return
            view = found[0]
            head.machine, head.resources = view.name, kept_for(entry.kind, view)
        head.stay_s = entry.kind.planned_s
        heads.keep(head)
        if view is not None:
            if head.resources.fits_in(view.calendar.capacity):
                heads.plan(head, view, now_s)
            self._placement.shrank(view)
        self._place_head(head)

    # --- reserved heads --------------------------------------------------------------------------

    def place_heads(self, level: int) -> None:
        """Start the heads that can start; plan others again whose machines changed.

        What an earlier broker promised is of that level at least.
        """
        singles = list(self._heads.by_machine.values())
        if self._state.slots.bounds:  # what was promised nothing takes no place in a pool from it
            singles.sort(key=lambda head: head.told_start_s is None)
        for head in singles:
            if self._heads.by_machine.get(head.machine) is head:
                self._place_head(head)
        for parallel in list(self._heads.by_job.values()):
            if self._heads.by_job.get(parallel.job) is parallel:
                self._place_parallel(parallel)
        if self._heads.promised:
            self._place_promised(level)

    def _place_promised(self, level: int) -> bool:
        """Start the parallel tasks that an earlier broker promised a start, or keep places.

        Those up to a level; returns whether there were any.
        """
        heads, waiting = self._heads, self._state.queues.entries
        level_of = self._state.queues.level_of
        due = [job for job in heads.promised if level_of(job) <= level]
        for job in sorted(due, key=heads.promised.__getitem__):
            entry = waiting.get(job)
            if entry is None:
                del heads.promised[job]
                continue
            waited = entry.count
            if entry.kind.is_possible and self.may_run_more(entry):
                self.start_or_keep(entry)
            if entry.count < waited:
                heads.promised.pop(job, None)  # it starts
            else:
                heads.take_back(job)  # unless places are kept for it again
        return bool(due)

    def _place_parallel(self, head: PoolHead) -> None:
        """Start a parallel head that can start; plan it again if machines of its pool changed."""
        state, now_s = self._state, self._now.steady_s
        del self._heads.by_job[head.job]
        entry = state.queues.entries.get(head.job)
        if entry is None or not (entry.kind.is_possible and self.may_run_more(entry)):
            if entry is not None:
                self._heads.give_up_pool(head)
            self._give_up_pool(head)
            return
        entry.kind.looked = -1  # what was found for another of its kind was beside this head
        self._placement.level = entry.precedence.level
        seats = self._placement.place(entry.kind)
        if seats is not None:
            row = self._placement.row
            self._give_up_pool(head)
            self.start(entry, seats, row)
            return
        key = entry.kind.key
        is_same = (key.resources, key.shape) == (head.need, head.shape) and not head.is_stale
        if is_same and not any(head.is_in(view.pool) for view in state.index.news.values()):
            self._heads.by_job[head.job] = head
            return
        pools = state.index.rooms.pools(is_across=head.is_across)
        pool = next((each for each in pools if head.is_across or each.name == head.pool), None)
        planned = None if pool is None else self._heads.plan_in(pool, entry, now_s)
        if planned is None:
            self._give_up_pool(head)
            return
        planned.told_start_s = head.told_start_s
        self._heads.by_job[head.job] = planned
        self._heads.promise_pool(planned, now_s)
        self._placement.replanned(planned)

    def _give_up_pool(self, head: PoolHead) -> None:
        """Free the places that a parallel head kept; it is not among the heads any more."""
        self._heads.changes += 1
        self.releases += 1
        for view in self._state.index.rooms.machines_of(head.pool, is_across=head.is_across):
            self._placement.grew(view)

    def _place_head(self, head: ReservedHead) -> None:
        state = self._state
        entry = state.queues.entries.get(head.job)
        view = state.index.views.get(head.machine)
        if entry is not None:
            head.stay_s = entry.kind.planned_s
            if entry.want.exclusive and view is not None:
                head.resources = view.calendar.capacity
        if entry is None or not (entry.want.exclusive or entry.want.resources == head.resources):
            self._drop(head)
        elif view is None:
            return  # an earlier broker's promise, which came before its machine's report
        elif not head.resources.fits_in(view.calendar.capacity):
            self._drop(head)
        elif not self._may_start_on(view, entry):
            self._heads.promise(head, None, self._now.steady_s)
            self._drop(head)
        elif not self._start_head(head, entry, view):
            self._improve(head, entry.kind, view)

    def _may_start_on(self, view: MachineView, entry: QueuedJob) -> bool:
        """Return whether a head may start on a machine once there is room."""
        is_stopped = entry.kind.key.is_stopped
        return not is_stopped and could_hold(entry.kind, view) and self.may_run_more(entry)

    def _start_head(self, head: ReservedHead, entry: QueuedJob, view: MachineView) -> bool:
        """Start a head on its machine or one with newly free resources; return whether it did."""
        for place in chain((view,), self._fresh_for(head, entry.kind)):
            if has_capacity(place, entry.kind, self._now.steady_s):
                self._drop(head)
                self.start(entry, (Seat(place.name, 1),))
                return True
        if entry.kind.key.is_gang:
            self._placement.level = entry.precedence.level
            seats = self._placement.in_row(entry.kind, head.job)
            if seats is not None:
                row = self._placement.row
                self._drop(head)
                self.start(entry, seats, row)
                return True
        return False

    def _improve(self, head: ReservedHead, kind: TaskClass, view: MachineView) -> None:
        """Plan a head again after a change: on another machine if it can start earlier there."""
        now_s = self._now.steady_s
        news = self._state.index.news
        if not view.is_available:
            found = self._heads.earliest(kind, now_s)
            if found is not None:
                self._move(head, view, found[0], kind)
                return
        if view.name in news and self._heads.plan(head, view, now_s):
            self._placement.grew(view)
        for other in list(self._fresh_for(head, kind)):
            slot = slot_on(kind, other, now_s)
            if slot is not None and slot.start_s < head.start_s - PROMISE_STEP_S:
                self._move(head, view, other, kind)
                view = other

    def _move(
        self, head: ReservedHead, old: MachineView, new: MachineView, kind: TaskClass
    ) -> None:
        kept = head.resources
        self._heads.move(head, new, kind, self._now.steady_s)
        self._placement.shrank(new)
        self._given_up(old.name, kept)

    def _fresh_for(self, head: ReservedHead, kind: TaskClass) -> Iterator[MachineView]:
        """Yield machines with newly free resources that could hold the head, and have no other."""
        held, is_kept_in = self._heads.by_machine, self._heads.is_kept_in
        able = (
            view
            for view in self._state.index.news.values()
            if view.name not in held
            and view.is_available
            and head.resources.fits_in(view.calendar.capacity)
            and not is_kept_in(view.pool)
            and could_hold(kind, view)
        )
        return islice(able, FRESH_LOOKS_MAX)

    def _drop(self, head: ReservedHead) -> None:
        del self._heads.by_machine[head.machine]
        self._given_up(head.machine, head.resources)

    def _given_up(self, machine: str, kept: Resources) -> None:
        """Free a kept place: if no task may pass a head, on every machine that it fits."""
        self._heads.changes += 1
        self.releases += 1
        view = self._state.index.views.get(machine)
        if view is not None:
            self._placement.grew(view)
        if not self._state.backfill.passes_heads:
            for other in list(self._state.index.views.values()):
                if kept.fits_in(other.calendar.capacity):
                    self._placement.grew(other)
