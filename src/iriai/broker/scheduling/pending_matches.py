"""Pending matches: sent to homes, not yet seen as claims.

They may be lost, declined, or overtaken by a claim for another match. Until the result of a match
is known, the broker keeps its places and repeats it. Each machine settles the seat that it has: its
capability comes back, with a claim or without. From then on the home is known to have the match,
and answers for its task; seats of which nothing is heard in time are free again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from iriai.broker.machines.beside_bookings import starts_before_bookings
from iriai.broker.machines.machine_view import MATCH_UNTIL_S, RESEND_S, MachineView, Matched
from iriai.broker.queue.entries import Queue, QueuedJob, SubQueue, TaskClass, is_guest
from iriai.broker.scheduling.scheduling_pass import PassResult
from iriai.broker.scheduling.task_starts import Decision
from iriai.broker.state.contention import ContenderState, DecisionRng
from iriai.broker.state.other_clusters import OtherClusters
from iriai.broker.state.queue_order import behind
from iriai.broker.state.state import BrokerState, MatchedSeat
from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.policy.placement.calendar import AHEAD_WAIT_S
from iriai.protocol.messages.effects import Effect, Part, Send
from iriai.protocol.messages.scheduling import Capability, Decline, Match, Running

SHORT_S = 5.0
"""Tasks that take longer, by their limit or by their account's mean run time, are not prefetched,
nor is any task behind them. In a trial (1,000 machines, 36 ms a way) prefetch gained a tenth with
tasks of 1 s, a hundredth with tasks of 10 s; and a task that is bound to one place waits for it
though others may become free before."""
LINES_MAX = 16
"""Kinds of tasks of one queue that are examined for one place."""
BEHIND_MAX = 16
"""Jobs of one kind that are examined after the first: if their places are kept, or they are gone,
others may be next."""


class PrefetchSlot(NamedTuple):
    """Resources held by a short task, for which the next task is not chosen yet.

    Between two tasks on a machine three messages follow one another: the end to the broker, a match
    to a home, the next task to the machine. A task of a second loses a good part of its time to
    them. So when a short task starts, the next one is chosen at once, by the order and as if the
    first had ended; if the next is short too, it is sent to wait there (docs/spec/008, section 7).
    """

    view: MachineView
    resources: Resources
    until_s: float
    """Time from which the task no longer counts as short, on the steady clock."""


class Prefetcher:
    """Lives as long as the broker."""

    def __init__(self, state: BrokerState, machine: str) -> None:
        """`machine` is the broker's own: if it is the only one, no message takes time."""
        self._state = state
        self._machine = machine
        self._places: dict[AttemptId, PrefetchSlot] = {}
        """Places by the start of their tasks, the earliest first."""
        self._now_s = 0.0

    def began(self, view: MachineView, running: Running, account: Account, now_s: float) -> None:
        """Note a task that runs, if it is short."""
        views = self._state.machines
        is_alone = len(views) == 1 and self._machine in views
        if running.reservation is not None:
            return  # its place is for others of its reservation
        if not is_alone and self._is_short(account, running.limit_s):
            place = PrefetchSlot(view, running.resources, now_s + SHORT_S)
            self._places[running.attempt] = place

    def ended(self, attempt: AttemptId) -> None:
        """Remove a place that is free, or another task's."""
        self._places.pop(attempt, None)

    @property
    def is_due(self) -> bool:
        """Return whether a task might be chosen for a place."""
        return bool(self._places and self._state.queues.entries)

    def run(self, decision_rng: DecisionRng, now: Instant) -> PassResult:
        """Choose the next task for each place, after a pass: no waiting task could start.

        One task is chosen for each place, once. It stops when it has taken as long as a turn's
        passes may; the other places come later.
        """
        state, decisions = self._state, []
        self._now_s = now.steady_s
        state.regroup_excluded()
        views = state.machines
        work = state.settings.turn_work_max
        for attempt, place in list(self._places.items()):
            if not state.queues.entries or work <= 0:
                break
            view = place.view
            if views.get(view.name) is not view or now.steady_s >= place.until_s:
                del self._places[attempt]
            elif (
                view.ahead_capabilities
                and view.is_available
                and not view.is_pool_full
                and self._is_nobodys(view)
            ):
                work -= 1 + len(state.contention.contenders)
                del self._places[attempt]
                decision = self._decide(place, decision_rng, now)
                if decision is not None:
                    decisions.append(decision)
        return PassResult(decisions, state.heads.drain_promises())

    def _decide(
        self, place: PrefetchSlot, decision_rng: DecisionRng, now: Instant
    ) -> Decision | None:
        """Match the next task there if it is short; if it does not fit, keep a place.

        Otherwise tasks that fit would precede it for ever: no place becomes free while all are
        prefetched.
        """
        state, now_s = self._state, now.steady_s
        entry = self._next(place, decision_rng, now)
        if entry is None:
            return None
        if not self._fits(entry.kind, place):
            if state.keep_place(entry, now_s):
                decision_rng.decided()
            return None
        if not self._is_short(entry.want.account, entry.want.limit_s):
            return None
        queue, level = entry.want.queue, entry.precedence.level
        if state.preemptible.goes_on_before(place.view.name, queue, level):
            return None  # it would start at the moment at which that goes on, and stand at once
        decision_rng.decided()
        key = state.start_ahead(entry, place.view, now_s)
        return Decision(entry, (MatchedSeat(place.view, 1, key),))

    def _is_short(self, account: Account, limit_s: float | None) -> bool:
        if limit_s is not None and limit_s <= SHORT_S:
            return True
        usual_s = self._state.usage.usual_s(account)
        return usual_s is not None and usual_s <= SHORT_S

    def _is_nobodys(self, view: MachineView) -> bool:
        """Return whether no place is kept there for a head."""
        reserved, heads = self._state.reserved, self._state.heads
        if heads.is_kept_in(view.pool):
            return False
        if self._state.backfill.passes_heads:
            return view.name not in reserved
        return not reserved

    # --- the next task ---------------------------------------------------------------------------

    def _next(
        self, place: PrefetchSlot, decision_rng: DecisionRng, now: Instant
    ) -> QueuedJob | None:
        """Return the task that would start if the place were free, by the order, or None."""
        kept = {head.job for head in self._state.reserved.values()}
        shared = self._state.queues.shared
        if shared is not None:
            return self._first(shared, place, kept)
        return self._drawn(place, kept, decision_rng, now)

    def _drawn(
        self, place: PrefetchSlot, kept: set[JobId], decision_rng: DecisionRng, now: Instant
    ) -> QueuedJob | None:
        """Return the next of an account that is drawn from those with tasks that fit there.

        As in a pass: among those within their burst, if there are any.
        """
        state, draws = self._state, self._state.contention
        draws.begin(now.wall_s, state.index.total_cpus)
        draws.refresh()
        within: list[ContenderState] = []
        others: list[ContenderState] = []
        for contender in draws.contenders.values():
            entry = self._first(contender.queue, place, kept)
            if entry is None:
                continue
            if entry is not contender.entry:
                draws.renew(contender, entry)
            (within if draws.is_within_burst(contender) else others).append(contender)
        able = within or others
        if not able:
            return None
        level = min(each.level for each in able)
        contenders = [each.in_draw for each in able if each.level == level]
        decision_rng.begin()
        account = state.settings.order.drawing(contenders, draws.groups).draw(decision_rng)
        return draws.contenders[account].entry

    def _first(self, queue: Queue, place: PrefetchSlot, kept: set[JobId]) -> QueuedJob | None:
        """Return a queue's first task for the place, else one that may fill in.

        The first counts if it fits there or a place may be kept for it. As in a pass, among those
        that may run. For jobs of `kept` a place is kept.
        """
        state = self._state
        entries: list[QueuedJob] = []
        for line in islice(queue.order, LINES_MAX):
            if line.kind.may_be_head:  # what is a guest's is started at once, or goes back
                entries += islice(self._entries(line, kept), 1)
        entries.sort(key=attrgetter("precedence"))
        if state.cap_cpus is not None:
            entries = [entry for entry in entries if state.running_cap(entry).allowed]
        fitting = (entry for entry in entries if self._fits(entry.kind, place))
        first = entries[0] if entries else None
        if first is not None and (
            self._fits(first.kind, place) or state.heads.may_reserve(first.kind, first.want.job)
        ):
            return first
        return state.backfill.next_fill(fitting)

    def _entries(self, line: SubQueue, kept: set[JobId]) -> Iterator[QueuedJob]:
        """Yield the entries of a line in order, except tasks with a kept place."""
        entries = self._state.queues.entries
        first = line.first
        for precedence in (first, *islice(behind(line.heap, first), BEHIND_MAX)):
            entry = entries.get(precedence.job)
            if entry is None or entry.precedence is not precedence:
                continue  # it moved, or was removed
            if entry.count > (precedence.job in kept):
                yield entry

    def _fits(self, kind: TaskClass, place: PrefetchSlot) -> bool:
        """Return whether a task of that kind may have the place when it is free."""
        key, view = kind.key, place.view
        return (
            key.resources.fits_in(place.resources)
            and not (kind.is_wide or key.exclusive or key.resources.gpus)
            and key.tenant not in view.tenants
            and kind.may_run_on(view.name)
            and (not view.calendar.bookings or self._is_before_bookings(kind, view))
        )

    def _is_before_bookings(self, kind: TaskClass, view: MachineView) -> bool:
        """Return whether a task that waits there at first is over before the next booking opens."""
        stay_s = kind.planned_s
        if stay_s is not None:
            stay_s += MATCH_UNTIL_S + AHEAD_WAIT_S
        return starts_before_bookings(view.calendar, stay_s, self._now_s)


class PendingMatches:
    """Pending matches by machine. Times are those of the steady clock."""

    def __init__(self, machine: str, state: BrokerState, federation: OtherClusters) -> None:
        """`machine` is the broker's own: messages to its home are not lost."""
        self._machine = machine
        self._state = state
        self._federation = federation
        self._views: dict[str, MachineView] = {}
        """Machines with pending matches."""
        self._is_told_away = False
        """Whether matches were sent to other machines, or concern several: they may be lost."""

    @property
    def review_in_s(self) -> float | None:
        """Return the time after a pass at which they are checked; None: there are none."""
        if not self._views:
            return None
        return RESEND_S if self._is_told_away else MATCH_UNTIL_S

    def announce(self, outcome: PassResult) -> list[Effect]:
        """Return the messages to homes after a pass, whose matches are pending from now on."""
        effects: list[Effect] = [*outcome.orders]
        views, machine = self._views, self._machine
        for _, seats in outcome.decisions:
            for view, _, _ in seats:
                views[view.name] = view
            key = seats[-1].key
            assert isinstance(key, Capability)
            matched = view.matched[key]
            if len(seats) > 1 or matched.entry.want.job.home != machine:
                matched.may_be_lost = self._is_told_away = True
            effects.append(self._match(matched, matched.until_s - matched.sent_s))
        # After the matches: a promise is for the first task that still waits when these are bound.
        for promise in outcome.promises:
            known = self._state.queues.entries.get(promise.job)
            if known is None or not is_guest(known.want):  # else another broker may promise
                effects.append(Send(promise.job.home, Part.HOME, promise))
        return effects

    def close(
        self, view: MachineView, capability: Capability, *, is_granted: bool = False
    ) -> Matched | None:
        """End the match of a seat, with any result; return it, or None if there was none.

        The caller updates the index. With `is_granted` the place stays: the claim gets it.
        """
        matched = view.matched.pop(capability, None)
        if matched is not None:
            if not view.matched:
                del self._views[view.name]
            if not is_granted:
                self._state.release(view, capability)
        return matched

    def decline(self, decline: Decline, now: Instant) -> bool:
        """End a declined match with all its seats; return whether any of its places is free now."""
        has_freed = False
        for machine, capability, _ in decline.seats:
            view = self._views.get(machine)
            matched = None if view is None else view.matched.get(capability)
            if matched is not None:
                self._give_back(matched)
                has_freed = True
        return has_freed

    def give_way(self, view: MachineView, now_s: float) -> None:
        """End the matches in the place of a claim: its match counted as lost, or was one ahead.

        A task that follows one which had a place sooner may be granted ahead in its turn.
        """
        while view.is_overfull and (latest := view.last_matched) is not None:
            capability, matched = latest
            if matched.waits_again and view.may_wait_ahead(matched):
                view.wait_ahead(capability, matched, now_s)
                self._state.preemptible.dropped(capability)
            elif matched.is_received:  # its home knows of the other seats
                self._free(view, capability, matched)
            else:
                self._fail(matched)

    def forget_machine(self, machine: str) -> None:
        """Forget a machine's pending matches, after its view was replaced."""
        self._views.pop(machine, None)

    def give_up(self, view: MachineView) -> None:
        """Forget a machine: tasks that were matched there wait again."""
        for capability, matched in list(view.matched.items()):
            if matched.is_received:
                self.close(view, capability)
            else:
                self._fail(matched)

    def drop_home(self, home: str) -> None:
        """Forget a home: its tasks do not wait again."""
        for view in self._views.values():
            view.drop_home(home)

    def review(self, now_s: float) -> tuple[bool, list[Effect]]:
        """Repeat matches without an answer; free the places of those without one for too long.

        Returns whether there were such, and the messages.
        """
        self._is_told_away = has_freed = False
        effects: list[Effect] = []
        for view in list(self._views.values()):
            has_freed |= self._give_back_old(view, now_s)
            effects += self._resend(view, now_s)
        return has_freed, effects

    def check(self) -> None:
        """Raise if the machines are not those with pending matches."""
        matching = [view.name for view in self._state.machines.values() if view.matched]
        assert sorted(matching) == sorted(self._views), f"matches under way at {matching}"

    def _give_back_old(self, view: MachineView, now_s: float) -> bool:
        """Free the places of matches without an answer for too long; return whether there were any.

        Their capabilities may still be valid, and their tasks still wait. If not, that costs a
        refusal, or a match that is declined.
        """
        over = [matched for matched in view.matched.values() if matched.until_s <= now_s]
        for matched in over:
            self._fail(matched)
        return bool(over)

    def _resend(self, view: MachineView, now_s: float) -> list[Effect]:
        """Return repeated matches to homes of other machines: a match or its answer may be lost."""
        effects: list[Effect] = []
        for matched in view.matched.values():
            if not matched.may_be_lost:
                continue
            self._is_told_away = True
            is_due = matched.sent_s + RESEND_S <= now_s and not matched.is_received
            if is_due and matched.entry.want.job.home != self._machine:
                matched.sent_s = now_s
                effects.append(self._match(matched, matched.until_s - now_s))
        return effects

    def _fail(self, matched: Matched) -> None:
        """Free all places of a match of which nothing came; its task waits again."""
        self._give_back(matched)
        self._wait_again(matched)

    def _give_back(self, matched: Matched) -> None:
        """Free the places of all seats of a match of which nothing is known yet."""
        for machine, capability, _ in matched.seats:
            view = self._views.get(machine)
            if view is not None and view.matched.get(capability) is matched:
                self._free(view, capability, matched)

    def _free(self, view: MachineView, capability: Capability, matched: Matched) -> None:
        """Free the place of one seat, whose capability may still be valid."""
        self.close(view, capability)
        view.give_back(capability, matched)
        self._state.index.grew(view)

    def _wait_again(self, matched: Matched) -> None:
        """Queue the task of a failed match again, unless it no longer waits here."""
        if matched.waits_again and not self._federation.is_over(matched.entry):
            self._state.queues.give_back(matched.entry)

    def _match(self, matched: Matched, until_s: float) -> Send:
        """Return a match for its task's home; for a forwarded task it names this broker."""
        want = matched.entry.want
        broker = self._machine if is_guest(want) else ""
        match = Match(want.job, tuple(matched.seats), until_s, broker)
        return Send(want.job.home, Part.HOME, match)
