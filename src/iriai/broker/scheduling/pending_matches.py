"""Pending matches: sent to homes, not yet seen as claims.

They may be lost, declined, or overtaken by a claim for another match. Until it is known what came
of one, the broker keeps its place, and tells it again.
"""

from __future__ import annotations

from iriai.broker.federation.federation import Federation
from iriai.broker.pool.machine_view import MATCH_UNTIL_S, RESEND_S, MachineView, Matched
from iriai.broker.queue.entries import QueuedJob
from iriai.broker.queue.forwarded_jobs import is_guest
from iriai.broker.scheduling.scheduling_pass import PassResult
from iriai.broker.state.state import BrokerState
from iriai.protocol.messages.effects import Effect, Part, Send
from iriai.protocol.messages.scheduling import Capability, Decline, Match, Promise


class PendingMatches:
    """By machine. Times are those of the steady clock."""

    def __init__(self, machine: str, state: BrokerState, abroad: Federation) -> None:
        """`machine` is the broker's own: what is told to its home is not lost."""
        self._machine = machine
        self._state = state
        self._abroad = abroad
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
            job = entry.want.job
            self._is_told_away |= job.home != self._machine
            match = Match(job, view.name, key, MATCH_UNTIL_S, self._named_for(entry))
            effects.append(Send(job.home, Part.HOME, match))
        # After the matches: a promise is for the first task that waits when they are bound.
        for job, machine, start_in_s in outcome.told:
            known = self._state.queues.entries.get(job)
            if known is not None and is_guest(known.want):
                continue  # another broker may promise it a start
            effects.append(Send(job.home, Part.HOME, Promise(job, machine, start_in_s)))
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

    def decline(self, decline: Decline) -> bool:
        """A home had nothing that waits; whether the place of the match is free now."""
        view = self._state.machines.get(decline.machine)
        matched = None if view is None else self.close(view, decline.capability)
        if view is None or matched is None:
            return False
        view.give_back(decline.capability, matched)
        self._state.park.grew(view)
        return True

    def give_way(self, view: MachineView) -> None:
        """A claim was granted for a match that was thought to be lost: others have its place."""
        while view.is_overfull and (latest := view.last_matched) is not None:
            capability, matched = latest
            self._come_to_nothing(view, capability, matched)

    def known_anew(self, machine: str) -> None:
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
            self._come_to_nothing(view, capability, matched)
        if over:
            self._state.park.grew(view)
        return bool(over)

    def _resend(self, view: MachineView, now_s: float) -> list[Effect]:
        """To homes of other machines: the match may be lost, or what they said of it."""
        effects: list[Effect] = []
        for capability, matched in view.matched.items():
            job = matched.entry.want.job
            if job.home == self._machine:
                continue
            self._is_told_away = True
            if matched.told_s + RESEND_S <= now_s:
                view.matched[capability] = matched._replace(told_s=now_s)
                named = self._named_for(matched.entry)
                match = Match(job, view.name, capability, matched.until_s - now_s, named)
                effects.append(Send(job.home, Part.HOME, match))
        return effects

    def _come_to_nothing(self, view: MachineView, capability: Capability, matched: Matched) -> None:
        self.close(view, capability)
        view.give_back(capability, matched)
        self._wait_again(matched)

    def _wait_again(self, matched: Matched) -> None:
        """A match came to nothing: its task waits again, unless nobody here waits for it."""
        if matched.is_wanted and not self._abroad.is_over(matched.entry):
            self._state.queues.give_back(matched.entry)

    def _named_for(self, entry: QueuedJob) -> str:
        """Who is told if a match is declined: this broker, where it is not the home's own."""
        return self._machine if is_guest(entry.want) else ""
