"""How background tasks give way to the owner of the machine (docs/spec/016)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from iriai.model.admission_rules import ALL
from iriai.model.instant import Instant
from iriai.model.owner import WORD_S_MAX, OwnerWord, SensorStates, Sign, SignKind
from iriai.model.reason import Reason, Rule
from iriai.model.records import OwnerWordGiven
from iriai.model.suspension import SuspendReason
from iriai.model.units import format_duration
from iriai.node.metering import HeldClaim
from iriai.node.offer_builder import Availability
from iriai.node.settings import NodeSettings
from iriai.node.suspended_claims import QueueParts
from iriai.policy.owner.owner_steps import OwnerStep, OwnerSteps
from iriai.policy.owner.presence import Presence
from iriai.protocol.messages.effects import (
    MachineSleeps,
    MachineWakes,
    OwnerNoticed,
    OwnerSaid,
    Persist,
    WatchOwner,
)

VACATED = "the owner of the machine uses it"
SLEEPS = "the machine is about to sleep or to be shut down"
SLEEPS_WITHIN_S = 60.0
"""A machine that has not gone to sleep by then stays awake."""
SIGN_WORDS = {
    SignKind.START: "nobody knows yet whether its owner uses it",
    SignKind.TERMINAL: "its owner typed at a terminal",
    SignKind.INPUT: "its owner used an input device",
    SignKind.SESSION: "its owner used a graphical session",
    SignKind.CPU: "others than our tasks use its processors",
    SignKind.PRESSURE: "programs of its owner wait for memory or disks",
    SignKind.GPU: "others than our tasks use its GPUs",
    SignKind.PROGRAM: "a program runs that its owner named",
    SignKind.BATTERY: "it runs on its battery",
    SignKind.TEMPERATURE: "it is hotter than its owner allows",
}
"""What is told of the last sign."""


class GivingWay:
    """On one machine with an owner policy; others have none of this."""

    def __init__(
        self, steps: OwnerSteps, machine: str, parts: QueueParts, availability: Availability
    ) -> None:
        self.policy, self._machine = steps, machine
        self._claims, self._suspensions = parts.claims, parts.suspensions
        self._report, self._effects = parts.report, parts.effects
        self._availability = availability
        availability.exempts = steps.exempts if steps.exempt else None
        self.presence = Presence(steps.continue_s)
        self.signs = 0
        """How many the launcher has told of."""
        self.last: tuple[Sign, ...] = ()
        self.sensors: SensorStates = ()
        self._is_known = False
        """Whether the launcher has said what its sensors see: before that nothing is suspended,
        since a daemon that was restarted would else suspend all for a moment."""
        self._vacates_now = False
        """Whether the owner wants the machine for itself, whatever the delays are."""
        self.given: OwnerWordGiven | None = None
        """The owner's word as it is stored, which may be over; None: there is none."""
        self._sleep: MachineSleeps | None = None
        """None: the machine is not about to sleep."""
        self._sleep_until_s = inf
        """When it stays awake after all."""
        self._ordered: WatchOwner | None = None
        """What the launcher was told; None: it may know nothing."""
        self.handlers: dict[type, Callable[[Any, Instant], None]] = {
            OwnerNoticed: self._noticed,
            OwnerSaid: self._said,
            MachineSleeps: self._falls_asleep,
            MachineWakes: self._wakes,
        }

    # --- what is seen and said -------------------------------------------------------------------

    def _noticed(self, event: OwnerNoticed, now: Instant) -> None:
        self.signs, self.last, self.sensors = event.signs, event.last, event.sensors
        self._is_known = True
        if event.last:
            self.presence.sign(max(sign.at_s for sign in event.last), now.steady_s)
        is_watched = any(each.works and not each.kind.is_condition for each in event.sensors)
        self.presence.watched(now.steady_s, is_watched=is_watched)

    def launcher_attached(self) -> None:
        """Note that a launcher came, which may know no order."""
        self._ordered, self._is_known = None, False

    def _said(self, event: OwnerSaid, now: Instant) -> None:
        until_wall_s = None if event.for_s == inf else now.wall_s + event.for_s
        given = OwnerWordGiven(event.word, until_wall_s, event.vacates)
        self._effects.append(Persist(given))
        self._hear(given, event.for_s, now)
        self.settle(now)

    def restore(self, given: OwnerWordGiven, now: Instant) -> None:
        """Go by a word that was given to an earlier daemon; one that is over counts until then."""
        left_s = inf if given.until_wall_s is None else given.until_wall_s - now.wall_s
        self._hear(given, left_s if left_s == inf else min(left_s, WORD_S_MAX), now)

    def _hear(self, given: OwnerWordGiven, left_s: float, now: Instant) -> None:
        self.given = None if given.word is None else given
        self.presence.say(given.word, now.steady_s + left_s, now.steady_s)
        self._vacates_now = given.vacates and self.presence.word is OwnerWord.HERE

    def _falls_asleep(self, event: MachineSleeps, now: Instant) -> None:
        self._sleep, self._sleep_until_s = event, now.steady_s + SLEEPS_WITHIN_S

    def _wakes(self, _event: MachineWakes, now: Instant) -> None:
        """Begin anew: nobody knows who is there now."""
        self._sleep, self._sleep_until_s = None, inf
        self.presence.sign(now.steady_s, now.steady_s)

    # --- what follows ----------------------------------------------------------------------------

    def settle(self, now: Instant) -> None:
        """Have claims give way, or go on, as it is now; tell the launcher and the broker."""
        self.presence.look(now.steady_s)
        if now.steady_s >= self._sleep_until_s:
            self._wakes(MachineWakes(), now)
        step = self._step(now.steady_s)
        background = [held for held in self._claims.by_attempt.values() if self._gives_way(held)]
        attempts = [held.claim.attempt for held in background if not held.claim.no_suspend]
        is_given = step >= OwnerStep.SUSPEND
        reason = self.reason
        seen = "" if reason is None else reason.had
        self._suspensions.give(attempts, SuspendReason.OWNER, now, is_given=is_given, seen=seen)
        for held in background:
            if step >= OwnerStep.VACATE or (is_given and held.claim.no_suspend):
                words = f"{VACATED}: {seen}" if self._sleep is None else SLEEPS
                self._suspensions.vacate(held, words, grace_max_s=self._grace_max_s(step))
        if not is_given and self.presence.since_s is None:
            self._vacates_now = False
        self._order(now)
        if reason != self._availability.owner:
            self._availability.owner, self._report.is_due = reason, True
            if reason is None and self.policy.exempt:
                self._report.rules += 1  # brokers forget whom it turned away

    def _step(self, now_s: float) -> OwnerStep:
        used_s = self.presence.used_s(now_s)
        step = OwnerStep.NONE
        if used_s is not None and self._is_known:
            step = self.policy.step(used_s)
            if self._vacates_now:
                step = max(step, OwnerStep.VACATE)
        return step if self._sleep is None else max(step, OwnerStep.VACATE)

    def _grace_max_s(self, step: OwnerStep) -> float:
        if step is OwnerStep.DISCARD:
            return 0.0
        return inf if self._sleep is None else self._sleep.within_s

    def _gives_way(self, held: HeldClaim) -> bool:
        return not self.policy.exempts(held.claim.user)

    @property
    def is_left(self) -> bool:
        """Return whether no background task is there, nor an end of one that is not told yet."""
        return not any(map(self._gives_way, self._claims.by_attempt.values()))

    def _order(self, now: Instant) -> None:
        """Tell the launcher what to do at the next sign, if that has changed."""
        if not self._availability.has_launcher:
            return
        exempt = tuple(
            attempt
            for attempt, held in self._claims.by_attempt.items()
            if held.end is None and not self._gives_way(held)
        )
        are_over = self._is_known and self.presence.since_s is None
        is_away = self.presence.word is OwnerWord.AWAY
        suspends = self.policy.suspends_at_once and not is_away
        known = self._ordered
        number = int(now.steady_s * 1000)
        if known is not None:
            number = max(number, known.number + 1)
            before = (known.suspends, known.exempt, known.are_over)
            is_same_sign = not are_over or known.signs == self.signs
            if before == (suspends, exempt, are_over) and is_same_sign:
                return
        conditions = self.policy.conditions
        self._ordered = WatchOwner(number, suspends, exempt, self.signs, are_over, conditions)
        self._effects.append(self._ordered)

    @property
    def reason(self) -> Reason | None:
        """Why no background task is started here; None: it is."""
        presence = self.presence
        if ALL in self.policy.exempt:
            return None
        if self._sleep is not None:
            return Reason(Rule.OWNER_ACTIVE, "a machine that stays awake", SLEEPS, self._machine)
        if presence.since_s is None:
            return None
        if presence.word is OwnerWord.HERE:
            return Reason(
                Rule.OWNER_ACTIVE,
                f"iriai owner away on {self._machine}",
                "its owner said: here",
                self._machine,
            )
        needed = f"{format_duration(self.policy.continue_s)} without a sign of its owner"
        had = "none of its sensors works" if not presence.is_watched else self._seen()
        return Reason(Rule.OWNER_ACTIVE, needed, had, self._machine)

    def _seen(self) -> str:
        """Return what was seen last of the owner."""
        last = max(self.last, key=lambda sign: sign.at_s, default=None)
        return SIGN_WORDS[SignKind.START if last is None else last.kind]

    def next_s(self, now_s: float) -> float | None:
        """Return when something changes though nothing is seen; None: never."""
        at_s = min(self.presence.next_s, self._sleep_until_s)
        since_s = self.presence.since_s
        if since_s is not None:
            at_s = min(at_s, since_s + self.policy.next_step_s(max(0.0, now_s - since_s)))
        return None if at_s == inf else at_s


def giving_way(
    settings: NodeSettings, parts: QueueParts, availability: Availability
) -> GivingWay | None:
    """Return that of a node; None: its machine has no owner policy."""
    if settings.owner is None:
        return None
    return GivingWay(settings.owner, settings.machine, parts, availability)
