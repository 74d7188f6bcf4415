"""Pending matches: sent to homes, not yet seen as claims.

They may be lost, declined, or overtaken by a claim for another match. Until it is known what came
of one, the broker keeps its place, and tells it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from iriai.broker.pool.machine_view import MATCH_UNTIL_S, RESEND_S, MachineView, Matched
from iriai.broker.queue.entries import Queue, QueuedJob, SubQueue, TaskClass, is_guest
from iriai.broker.scheduling.scheduling_pass import Decision, PassResult
from iriai.broker.state.contention import DecisionRng
from iriai.broker.state.other_clusters import OtherClusters
from iriai.broker.state.queue_order import behind
from iriai.broker.state.state import BrokerState
from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.policy.draw.order import Contender
from iriai.protocol.messages.effects import Effect, Part, Send
from iriai.protocol.messages.scheduling import Capability, Decline, Match, Running

SHORT_S = 5.0
"""Tasks that take longer, by their limit or as long as their account's usually do, are not handed
out ahead, nor behind. A trial (1,000 machines, 36 ms a way) gained a tenth with tasks of 1 s, a
hundredth with tasks of 10 s; and whoever is bound to one place waits for it though others may
become free before."""
LINES_MAX = 16
"""Kinds of tasks of one queue that are looked at for one place."""
BEHIND_MAX = 16
"""Jobs of one kind that are looked at behind the first: where their places are kept, or they are
gone, others may be next."""


class PrefetchSlot(NamedTuple):
    """Resources held by a short task, for which a next task is not chosen yet.

    Between two tasks on a machine three messages go one after the other: the end to the broker, a
    match to a home, the next task to the machine. A task of a second loses a good part of its time
    to that. So where a short task runs, the next is chosen as soon as it began, by the order and as
    if it had ended; if that one is short, too, it is sent to wait there (docs/spec/008, section 7).
    """

    view: MachineView
    resources: Resources
    until_s: float
    """Then the task is not short any more, on the steady clock."""


class Prefetcher:
    """Lives as long as the broker."""

    def __init__(self, state: BrokerState, machine: str) -> None:
        """`machine` is the broker's own: where it is the only one, there is no way to go."""
        self._state = state
        self._machine = machine
        self._places: dict[AttemptId, PrefetchSlot] = {}
        """Those that began first come first."""

    def began(self, view: MachineView, running: Running, account: Account, now_s: float) -> None:
        """A task runs; perhaps it is a short one."""
        views = self._state.machines
        is_alone = len(views) == 1 and self._machine in views
        if not is_alone and self._is_short(account, running.limit_s):
            place = PrefetchSlot(view, running.resources, now_s + SHORT_S)
            self._places[running.attempt] = place

    def ended(self, attempt: AttemptId) -> None:
        """Its place is free, or another's."""
        self._places.pop(attempt, None)

    @property
    def is_due(self) -> bool:
        """Return whether someone might be chosen for a place."""
        return bool(self._places and self._state.queues.entries)

    def run(self, decision_rng: DecisionRng, now: Instant) -> PassResult:
        """After a pass, so that nothing which waits could start: who comes next at each place.

        For each one is chosen, once. It is left when it has taken as long as a turn's passes may;
        the places that are left come later.
        """
        state, decisions = self._state, []
        state.regroup_excluded()
        views = state.machines
        work = state.settings.turn_work_max
        for attempt, place in list(self._places.items()):
            if not state.queues.entries or work <= 0:
                break
            view = place.view
            if views.get(view.name) is not view or now.steady_s >= place.until_s:
                del self._places[attempt]
            elif view.ahead_capabilities and view.is_available and self._is_nobodys(view):
                work -= 1 + len(state.contention.contenders)
                del self._places[attempt]
                decision = self._decide(place, decision_rng, now)
                if decision is not None:
                    decisions.append(decision)
        return PassResult(decisions, state.heads.drain_promises())

    def _decide(
        self, place: PrefetchSlot, decision_rng: DecisionRng, now: Instant
    ) -> Decision | None:
        """Send the next there if it is short; if it does not fit keep a place, as a pass would.

        Otherwise what fits would go before it for ever: there is no free place while all that fits
        is handed out ahead.
        """
        state, now_s = self._state, now.steady_s
        entry = self._next(place, decision_rng, now)
        if entry is None:
            return None
        if not self._fits(entry.kind, place):
            reserved = state.heads.reserve(entry, now_s)
            if reserved is not None:
                decision_rng.decided()
                state.placement.shrank(reserved)
            return None
        if not self._is_short(entry.want.account, entry.want.limit_s):
            return None
        decision_rng.decided()
        return Decision(entry, place.view, state.start_ahead(entry, place.view, now_s))

    def _is_short(self, account: Account, limit_s: float | None) -> bool:
        if limit_s is not None and limit_s <= SHORT_S:
            return True
        usual_s = self._state.usage.usual_s(account)
        return usual_s is not None and usual_s <= SHORT_S

    def _is_nobodys(self, view: MachineView) -> bool:
        """Return whether what becomes free there is kept for nobody."""
        reserved = self._state.reserved
        if self._state.backfill.passes_heads:
            return view.name not in reserved
        return not reserved

    # --- who is next -----------------------------------------------------------------------------

    def _next(
        self, place: PrefetchSlot, decision_rng: DecisionRng, now: Instant
    ) -> QueuedJob | None:
        """What would start if the place were free, by the order; None: nothing would."""
        kept = {head.job for head in self._state.reserved.values()}
        shared = self._state.queues.shared
        if shared is not None:
            return self._first(shared, place, kept)
        return self._drawn(place, kept, decision_rng, now)

    def _drawn(
        self, place: PrefetchSlot, kept: set[JobId], decision_rng: DecisionRng, now: Instant
    ) -> QueuedJob | None:
        """The next of an account that is drawn from those of which something would fit there.

        As in a pass: of those within their burst, where there are any.
        """
        state, draws = self._state, self._state.contention
        draws.begin(now.wall_s, state.pool.total_cpus)
        draws.refresh()
        within: list[Contender] = []
        others: list[Contender] = []
        for seat in draws.contenders.values():
            entry = self._first(seat.queue, place, kept)
            if entry is None:
                continue
            if entry is not seat.entry:
                draws.renew(seat, entry)
            (within if draws.is_within_burst(seat) else others).append(seat.contender)
        contenders = within or others
        if not contenders:
            return None
        decision_rng.begin()
        account = state.settings.order.drawing(contenders, draws.groups).draw(decision_rng)
        return draws.contenders[account].entry

    def _first(self, queue: Queue, place: PrefetchSlot, kept: set[JobId]) -> QueuedJob | None:
        """A queue's first, if it fits there or a place may be kept for it; else what may fill in.

        As in a pass, of those that may run. For jobs of `kept` a place is kept.
        """
        state = self._state
        entries: list[QueuedJob] = []
        for line in islice(queue.order, LINES_MAX):
            if not line.kind.key.is_guest:  # it is started at once, or goes back
                entries += islice(self._entries(line, kept), 1)
        entries.sort(key=attrgetter("precedence"))
        if state.cap_cpus is not None:
            entries = [entry for entry in entries if state.running_cap(entry).allowed]
        fitting = (entry for entry in entries if self._fits(entry.kind, place))
        first = entries[0] if entries else None
        if first is not None and (
            self._fits(first.kind, place) or state.heads.may_reserve(first.kind)
        ):
            return first
        return state.backfill.next_fill(fitting)

    def _entries(self, line: SubQueue, kept: set[JobId]) -> Iterator[QueuedJob]:
        """Those of a line in order, but for tasks whose place is kept: they have one."""
        entries = self._state.queues.entries
        first = line.first
        for precedence in (first, *islice(behind(line.heap, first), BEHIND_MAX)):
            entry = entries.get(precedence.job)
            if entry is None or entry.precedence is not precedence:
                continue  # it moved, or is gone
            if entry.count > (precedence.job in kept):
                yield entry

    def _fits(self, kind: TaskClass, place: PrefetchSlot) -> bool:
        """Return whether a task of that kind may have the place when it is free."""
        key, view = kind.key, place.view
        return (
            key.resources.fits_in(place.resources)
            and not (key.exclusive or key.resources.gpus)
            and key.tenant not in view.tenants
            and kind.may_run_on(view.name)
        )


class PendingMatches:
    """Pending matches by machine. Times are those of the steady clock."""

    def __init__(self, machine: str, state: BrokerState, federation: OtherClusters) -> None:
        """`machine` is the broker's own: what is told to its home is not lost."""
        self._machine = machine
        self._state = state
        self._federation = federation
        self._views: dict[str, MachineView] = {}
        """Machines with matches under way."""
        self._is_told_away = False
        """Whether homes of other machines were told of some, and may not have heard."""

    @property
    def review_in_s(self) -> float | None:
        """How long after a pass they are looked at; None: there are none."""
        if not self._views:
            return None
        return RESEND_S if self._is_told_away else MATCH_UNTIL_S

    def announce(self, outcome: PassResult) -> list[Effect]:
        """What homes are told of a pass, whose matches are under way from now on."""
        effects: list[Effect] = []
        for entry, view, key in outcome.decisions:
            assert isinstance(key, Capability)
            self._views[view.name] = view
            self._is_told_away |= entry.want.job.home != self._machine
            effects.append(self._match(entry, view, key, MATCH_UNTIL_S))
        # After the matches: a promise is for the first task that waits when they are bound.
        for promise in outcome.promises:
            known = self._state.queues.entries.get(promise.job)
            if known is None or not is_guest(known.want):  # else another broker may promise
                effects.append(Send(promise.job.home, Part.HOME, promise))
        return effects

    def close(
        self, view: MachineView, capability: Capability, *, is_granted: bool = False
    ) -> Matched | None:
        """A match is over, whatever came of it; None: there was none."""
        matched = view.matched.pop(capability, None)
        if matched is not None:
            if not view.matched:
                del self._views[view.name]
            self._state.end(view, capability, was_granted=is_granted)
        return matched

    def decline(self, decline: Decline, now: Instant) -> bool:
        """A home had nothing that waits; whether the place of the match is free now."""
        view = self._state.machines.get(decline.machine)
        matched = None if view is None else self.close(view, decline.capability)
        if view is None or matched is None:
            return False
        view.give_back(decline.capability, matched)
        self._state.pool.grew(view)
        return True

    def give_way(self, view: MachineView) -> None:
        """A claim was granted for a match that was thought to be lost: others have its place."""
        while view.is_overfull and (latest := view.last_matched) is not None:
            capability, matched = latest
            self._fail(view, capability, matched)

    def forget_machine(self, machine: str) -> None:
        """Nothing is known of a machine any more, nor of its matches."""
        self._views.pop(machine, None)

    def give_up(self, view: MachineView) -> None:
        """A machine is gone for good: tasks that were matched there wait again."""
        for capability, matched in list(view.matched.items()):
            self.close(view, capability)
            self._wait_again(matched)

    def drop_home(self, home: str) -> None:
        """A home is gone: its tasks do not wait again."""
        for view in self._views.values():
            view.drop_home(home)

    def review(self, now_s: float) -> tuple[bool, list[Effect]]:
        """Tell again what nothing was heard of; what it was not for too long frees its place.

        Returns whether there was such, and what is told.
        """
        self._is_told_away = has_freed = False
        effects: list[Effect] = []
        for view in list(self._views.values()):
            has_freed |= self._give_back_old(view, now_s)
            effects += self._resend(view, now_s)
        return has_freed, effects

    def check(self) -> None:
        """Raise where the machines are not those with matches."""
        matching = [view.name for view in self._state.machines.values() if view.matched]
        assert sorted(matching) == sorted(self._views), f"matches under way at {matching}"

    def _give_back_old(self, view: MachineView, now_s: float) -> bool:
        """Matches of which nothing was heard for too long free their place; whether some did.

        Their capabilities may still be good, and their tasks still wait. If not, that costs a
        refusal, or a match that is declined.
        """
        over = [(c, m) for c, m in view.matched.items() if m.until_s <= now_s]
        for capability, matched in over:
            self._fail(view, capability, matched)
        if over:
            self._state.pool.grew(view)
        return bool(over)

    def _resend(self, view: MachineView, now_s: float) -> list[Effect]:
        """To homes of other machines: the match may be lost, or what they said of it."""
        effects: list[Effect] = []
        for capability, matched in view.matched.items():
            if matched.entry.want.job.home == self._machine:
                continue
            self._is_told_away = True
            if matched.sent_s + RESEND_S <= now_s:
                view.matched[capability] = matched._replace(sent_s=now_s)
                left_s = matched.until_s - now_s
                effects.append(self._match(matched.entry, view, capability, left_s))
        return effects

    def _fail(self, view: MachineView, capability: Capability, matched: Matched) -> None:
        self.close(view, capability)
        view.give_back(capability, matched)
        self._wait_again(matched)

    def _wait_again(self, matched: Matched) -> None:
        """A match came to nothing: its task waits again, unless nobody here waits for it."""
        if matched.is_wanted and not self._federation.is_over(matched.entry):
            self._state.queues.give_back(matched.entry)

    def _match(
        self, entry: QueuedJob, view: MachineView, capability: Capability, until_s: float
    ) -> Send:
        """Return the match for the entry's home; of a guest it names this broker, for refusals."""
        job, broker = entry.want.job, self._machine if is_guest(entry.want) else ""
        return Send(job.home, Part.HOME, Match(job, view.name, capability, until_s, broker))
