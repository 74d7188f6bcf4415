"""One policy pass: reserved heads first, then draws until nothing more can start.

A drawn account whose first task does not fit becomes a reserved head, if none holds the machines
that could serve it; later draws only fill in beside it (docs/spec/003, section 7).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from iriai.broker.queue.entries import (
    BEHIND_ALL,
    Precedence,
    Queue,
    QueuedJob,
    SubQueue,
)
from iriai.broker.scheduling.resumptions import Resumption, resume, vacate
from iriai.broker.scheduling.task_starts import Decision, TaskStarts
from iriai.broker.state.contention import ContenderState, DecisionRng
from iriai.broker.state.state import BrokerState
from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.policy.draw.order import IncrementalDraw
from iriai.policy.placement.pool_plan import PoolHead
from iriai.protocol.messages.effects import Send
from iriai.protocol.messages.scheduling import Promise

REDRAWS_MAX = 4
"""An account contends with the task that it could start when it was last drawn. If it is another
task now, the draw may fail and is repeated: at most so often for one start. Then the draw stands,
though the chances were those of a cheaper task."""
DRAW_WORK = 20
"""The work of a draw and its start, in examined machines: some 5 us each."""
MISSES_MAX = 3
"""Drawn accounts without a fitting task, before all accounts are checked: that costs as much."""


class PassResult(NamedTuple):
    """The result of a pass."""

    decisions: list[Decision]
    promises: list[Promise]
    """Messages about promised starts, for homes."""
    orders: Sequence[Send] = ()
    """Messages about suspended claims, for their machines."""


class SchedulingPass:
    """The working state of one pass; created for each.

    A pass may be interrupted and continued later: its decisions are then the same. If anything
    changed in between, a new pass replaces it.
    """

    def __init__(self, state: BrokerState, decision_rng: DecisionRng, now: Instant) -> None:
        self._state = state
        self._decision_rng = decision_rng
        self._now = now
        self._order = state.settings.order
        self._placement = state.placement
        self._heads = state.heads
        self._contention = state.contention
        self._out: dict[Account, None] = {}
        """Accounts that can start nothing more in this pass."""
        self._contenders: list[ContenderState] | None = None
        """Accounts that may start a task; None: not computed since resources became free."""
        self._starts = TaskStarts(state, decision_rng, now)
        self._releases = 0
        """Of `_starts`, as of which `_out` and `_contenders` hold."""
        self._orders: list[Send] = []
        self._drawing: IncrementalDraw | None = None
        self._sole: ContenderState | None = None
        """The only account that may start a task: it need not be drawn; None: there are others."""
        self._redraws = self._misses = 0
        self._is_layered = False
        """Whether tasks wait that do not count in queue 0 (docs/spec/013, section 4)."""
        self._level = 0
        """The level that is served: tasks of lower ones wait until nothing of it can start."""
        self._has_begun = False
        self._stop_at: float = inf
        """Work at which it is interrupted."""
        self.is_over = False
        """Whether no more task can start."""

    def run(self, work_max: float = inf) -> PassResult:
        """Decide which tasks start, and where; the claims are made in the view of the machines.

        It is interrupted after about so much work, in examined machines, unless it `is_over`
        before.
        """
        self._stop_at = self._placement.work + work_max
        if not self._has_begun:
            self._begin()
        self.is_over = self._placement.scan_ahead(self._stop_at) and self._serve()
        if self.is_over:
            if self._state.suspended.claims:
                planned = self._heads.planned()
                self._orders += vacate(self._state, self._now.steady_s, planned)
            self._placement.end()
        else:
            self._starts.give_up_taken()
        if self._state.preemptible.rows.unsettled:
            self._state.preemptible.settle_machines()
        decisions, self._starts.decisions = self._starts.decisions, []
        orders, self._orders = self._orders, []
        return PassResult(decisions, self._heads.drain_promises(), orders)

    def _begin(self) -> None:
        state = self._state
        self._has_begun = True
        self._decision_rng.begin()
        state.tick(self._now.wall_s)
        level, has_tasks = 0, bool(state.preemptible.tasks)
        if has_tasks or state.queues.lower or self._heads.aside:
            level = state.queues.first_level if state.queues.entries else BEHIND_ALL.level
        if has_tasks:
            self._starts.stand_aside(min(level, state.preemptible.first_level))
        self._placement.begin(self._now.steady_s)
        if state.queues.lower or self._heads.aside or self._starts.standing:
            self._is_layered = True
            self._level = self._placement.level = level
            self._starts.set_aside(level)
        self._starts.place_heads(level)
        if state.suspended.claims and not self._starts.standing:
            self._see_to_suspended()
        if state.queues.shared is None and state.has_room:
            self._contention.begin(self._now.wall_s, state.index.total_cpus)
            if self._is_layered:
                self._contention.begin_levels()
            self._share_out()

    def _see_to_suspended(self) -> None:
        """Let suspended claims go on."""
        state, now_s = self._state, self._now.steady_s
        for resumption in resume(state, now_s, self._tolerates):
            self._orders.append(resumption.order)
            view, stay_s = resumption.known.view, resumption.stay_s
            head = self._heads.by_machine.get(view.name)
            if head is not None:
                head.filled(resumption.needed_at(head.start_s), stay_s, now_s)
            for parallel in self._heads.by_job.values():
                parallel.filled(view.name, resumption.needed_at(parallel.start_s), stay_s, now_s)
            self._placement.shrank(view)

    def _tolerates(self, resumption: Resumption) -> bool:
        """Return whether a suspended claim may go on without delaying a head."""
        now_s, name, stay_s = self._now.steady_s, resumption.known.view.name, resumption.stay_s
        heads, here = self._heads, self._heads.by_machine.get(name)
        for head in (*((here,) if here else ()), *heads.by_job.values(), *heads.aside):
            needed = resumption.needed_at(head.start_s)
            if isinstance(head, PoolHead):
                if not head.tolerates(name, needed, stay_s, now_s):
                    return False
            elif head.machine == name and not head.tolerates(needed, stay_s, now_s):
                return False
        return True

    def _serve(self) -> bool:
        """Start tasks; return whether all that may start have."""
        shared = self._state.queues.shared
        is_over = self._serve_drawn() if shared is None else self._serve_first(shared)
        if is_over and self._starts.has_more:
            has_stood = bool(self._starts.standing)
            self._starts.bring_back(BEHIND_ALL.level)
            if has_stood and self._state.suspended.claims:  # what stood aside has its cpus again
                self._see_to_suspended()
        return is_over

    def _is_spent(self) -> bool:
        """Return whether to interrupt the pass; count one draw."""
        rooms = self._placement
        if rooms.work >= self._stop_at:
            return True
        rooms.work += DRAW_WORK
        return False

    # --- the next account ------------------------------------------------------------------------

    def _serve_first(self, queue: Queue) -> bool:
        """Start from one queue for all its first task that fits, until none does."""
        ranks, is_booked = self._state.index.open.ranks, self._placement.has_booked_room
        while ranks or is_booked:
            if self._is_spent():
                return False
            entry = self._next_of(queue)
            level = self._placement.level = _level_of(entry)
            if self._starts.has_more and self._starts.bring_back(level):
                continue
            if entry is None:
                break
            if self._starts.may_run_more(entry):
                self._starts.start_or_keep(entry)
            else:
                self._placement.stopped[entry.want.account] = None
        return True

    def _serve_drawn(self) -> bool:
        """Draw an account, start its next task or keep a place for it, until none is left."""
        contenders, waiting = self._contention.contenders, self._state.queues.entries
        ranks, is_booked = self._state.index.open.ranks, self._placement.has_booked_room
        while waiting and (ranks or is_booked):
            if self._is_spent():
                return False
            drawing = self._contest()
            if drawing is None:
                break
            contender = self._sole or contenders[drawing.draw(self._decision_rng)]
            may_start = self._sole is not None or self._may_start(contender.queue)
            entry = self._next_of(contender.queue) if may_start else None
            if entry is None or not self._starts.may_run_more(entry):
                self._misses += 1
                self._leave_out(contender, entry)
                drawing.leave(contender.account)
            elif entry.precedence.level > self._level:
                self._contention.renew(contender, entry)
                drawing.leave(contender.account)
            elif self._contends_with(contender, entry) or self._redraws == REDRAWS_MAX:
                self._redraws = 0
                self._starts.start_or_keep(entry)
                self._follow(drawing, contender)
            else:
                self._redraws += 1
                drawing.replace(contender.in_draw)
        return True

    def _look_again(self) -> None:
        """Let all accounts contend again if a kept place became free."""
        if self._releases != self._starts.releases:
            self._releases = self._starts.releases
            self._out.clear()
            self._contenders = None

    def _contest(self) -> IncrementalDraw | None:
        """Return the draw for the next account; None: no account may start a task."""
        self._look_again()
        drawing = self._drawing
        is_good = drawing is not None and len(drawing) and self._contenders is not None
        if not is_good or self._misses > MISSES_MAX:
            candidates, self._misses = self._candidates(), 0
            if not candidates:
                return None
            able = None if self._is_layered else self._contenders
            self._sole = able[0] if able is not None and len(able) == 1 else None
            groups = self._contention.groups
            drawing = self._drawing = self._order.drawing_weighed(candidates, groups)
        return drawing

    def _follow(self, drawing: IncrementalDraw, contender: ContenderState) -> None:
        """Update the contenders after a start or a kept place."""
        draws = self._contention
        queue = contender.queue
        first = queue.first_from(self._level) if self._level else queue.first
        if first is None or first.first.level > self._level:
            drawing.leave(contender.account)
            return
        was_within = contender.is_within
        if not contender.entry.count:  # it started, so `refresh` computes the contender again
            contender.entry = self._state.queues.entry_of(first)
        if self._sole is not None:
            return  # it is computed again before others contend
        for account in draws.refresh():
            if account.group in draws.groups:
                drawing.regroup(draws.groups[account.group])
        if was_within and not draws.is_within_burst(contender):
            drawing.leave(contender.account)
        else:
            drawing.replace(contender.in_draw)

    def _contends_with(self, contender: ContenderState, entry: QueuedJob) -> bool:
        """Return whether the draw stands, though the account may have been drawn with another task.

        If its chances are smaller with this task, it stands with the ratio of the chances as
        probability.
        """
        if entry is contender.entry or self._sole is not None:
            return True
        ratio = self._contention.renew(contender, entry)
        return ratio >= 1.0 or self._decision_rng.random() < ratio

    def _leave_out(self, contender: ContenderState, capped: QueuedJob | None) -> None:
        """Leave the account out for the rest of this pass."""
        self._out[contender.account] = None
        if capped is not None:
            self._contention.renew(contender, capped)
            contender.queue.is_behind = True

    def _share_out(self) -> None:
        """Compute the shares among the accounts that no cap keeps from running more."""
        if self._state.cap_cpus is not None:
            known = self._contention.contenders.values()
            self._contention.share_out([each.account for each in known if self._contends(each)])

    def _candidates(self) -> list[tuple[Any, ...]]:
        """Return accounts with a task that may start, or whose first task may have a place kept.

        As their order weighs them. Those within their burst; if there are only others, those (no
        machine stays idle).
        """
        draws, out = self._contention, self._out
        draws.refresh()
        mask, held = self._placement.mask(), self._heads.held
        may_reserve = self._heads.may_reserve_first
        known = draws.contenders.values() if self._contenders is None else self._contenders
        # Most of all accounts pass, for each pass: comprehensions, and no call for each.
        able = [
            each
            for each in known
            if each.queue.mask & mask or (each.queue.held != held and may_reserve(each.queue, held))
        ]
        if out:
            able = [each for each in able if each.account not in out]
        if 0 in [each.entry.count for each in able]:  # matched, or withdrawn
            able = [each for each in able if each.entry.count or self._takes_first(each)]
        has_cap = self._state.cap_cpus is not None
        if has_cap:
            able = [each for each in able if self._contends(each)]
        self._contenders = None if has_cap else able
        if self._is_layered:
            self._level = min((each.level for each in able), default=BEHIND_ALL.level)
            self._placement.level = self._level
            if self._starts.has_more and self._starts.bring_back(self._level):
                self._look_again()
                return self._candidates()
            able = [each for each in able if each.level == self._level]
        within = [each.weighed for each in able if each.is_within or draws.is_within_burst(each)]
        return within or [each.weighed for each in able]

    def _takes_first(self, contender: ContenderState) -> bool:
        """Let the account contend with its first task; return whether there is any."""
        if contender.queue.first is None:
            return False
        self._contention.renew(contender, self._state.queues.entry_of(contender.queue.first))
        return True

    def _contends(self, contender: ContenderState) -> bool:
        """Return whether the account may run more; if it could not before, all may fit."""
        queue = contender.queue
        if queue.first is None:
            return False
        if not self._starts.may_run_more(contender.entry):
            first = self._state.queues.entry_of(queue.first)
            if first is contender.entry or not self._starts.may_run_more(first):
                queue.is_behind = True
                return False
            self._contention.renew(contender, first)
        if queue.is_behind:
            self._state.queues.catch_up(queue)
        return True

    def _may_start(self, queue: Queue) -> bool:
        """Return whether a task of it may fit, or its first task may have a place kept."""
        heads = self._heads
        is_fitting = bool(queue.mask & self._placement.mask())
        return is_fitting or heads.may_reserve_first(queue, heads.held)

    def _next_of(self, queue: Queue) -> QueuedJob | None:
        """Return the queue's first, if it fits or a place may be kept; else one that fills in."""
        first = self._first_of(queue)
        if first is None:
            return None
        kind = first.kind
        if kind.key.is_gang:
            self._placement.level = first.first.level
        if self._placement.place(kind) or self._heads.may_reserve(kind, first.first.job):
            return self._state.queues.entry_of(first)
        return self._state.backfill.next_fill(self._fitting(queue))

    def _first_of(self, queue: Queue) -> SubQueue | None:
        """Return the queue's first line among those whose accounts may run more."""
        stopped = self._placement.stopped
        if stopped:
            return next((line for line in queue.order if line.kind.key.capped not in stopped), None)
        return queue.first

    def _fitting(self, queue: Queue) -> Iterator[QueuedJob]:
        """Yield the first entries of each kind that fit on a machine now, all of one level."""
        queues, rooms = self._state.queues, self._placement
        if len(queue.lines) == 1:
            return  # its first, which was examined
        mask = rooms.mask(len(queue.lines)) & queue.mask
        searches = rooms.searches
        if queue.searched_as_of != searches:
            queue.searched, queue.searched_as_of = None, searches
        found: Precedence | None = None
        for line in queue.of(mask, queue.searched):
            if found is not None and line.first.level > found.level:
                break
            if line.kind.key.is_gang:
                rooms.level = line.first.level
            if rooms.place(line.kind) is not None:
                if found is None:
                    found = queue.searched = line.first
                yield queues.entry_of(line)
        if found is None:
            queue.searched = BEHIND_ALL


def _level_of(entry: QueuedJob | None) -> int:
    return BEHIND_ALL.level if entry is None else entry.precedence.level
