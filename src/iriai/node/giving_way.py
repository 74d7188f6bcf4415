"""How background tasks give way to the owner of the machine (docs/spec/016)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any

from iriai.model.admission_rules import ALL
from iriai.model.instant import Instant
from iriai.model.owner import WORD_S_MAX, OwnerWord, SensorStates, Sign, SignKind
from iriai.model.reason import Reason, Rule
from iriai.model.records import AbsencesLearnt, OwnerWordGiven
from iriai.model.suspension import SuspendReason
from iriai.model.units import format_duration
from iriai.node.metering import HeldClaim
from iriai.node.offer_builder import Availability
from iriai.node.settings import NodeSettings
from iriai.node.suspended_claims import QueueParts
from iriai.policy.owner.owner_steps import OwnerStep, OwnerSteps
from iriai.policy.owner.presence import Presence
from iriai.protocol.messages.effects import OwnerNoticed, OwnerSaid, Persist, WatchOwner

if TYPE_CHECKING:
    from iriai.policy.owner.absence import Absences

VACATED = "the owner of the machine uses it"
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
LEARNT_EVERY_S = 3_600.0
"""What was learnt is stored so often at most: 5 KiB, of which an hour may be lost."""


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
        self.absences = _absences()
        self.learnt = AbsencesLearnt(b"")
        """As it is stored."""
        self._learnt_s = -inf
        """When that was stored last."""
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
        self._ordered: WatchOwner | None = None
        """What the launcher was told; None: it may know nothing."""
        self.handlers: dict[type, Callable[[Any, Instant], None]] = {
            OwnerNoticed: self._noticed,
            OwnerSaid: self._said,
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

    def remember(self, learnt: AbsencesLearnt) -> None:
        """Go by what an earlier daemon has learnt."""
        self.absences, self.learnt = _absences(learnt.counts), learnt

    def _hear(self, given: OwnerWordGiven, left_s: float, now: Instant) -> None:
        self.given = None if given.word is None else given
        self.presence.say(given.word, now.steady_s + left_s, now.steady_s)
        self._vacates_now = given.vacates and self.presence.word is OwnerWord.HERE

    # --- what follows ----------------------------------------------------------------------------

    def settle(self, now: Instant) -> None:
        """Have claims give way, or go on, as it is now; tell the launcher and the broker."""
        self.presence.look(now.steady_s)
        self._learn(now)
        step = self._step(now.steady_s)
        background = [held for held in self._claims.by_attempt.values() if self._gives_way(held)]
        attempts = [held.claim.attempt for held in background if not held.claim.no_suspend]
        is_given = step >= OwnerStep.SUSPEND
        reason = self.reason
        seen = "" if reason is None else reason.had
        self._suspensions.give(attempts, SuspendReason.OWNER, now, is_given=is_given, seen=seen)
        for held in background:
            if step >= OwnerStep.VACATE or (is_given and held.claim.no_suspend):
                words = f"{VACATED}: {seen}"
                self._suspensions.vacate(held, words, is_at_once=step is OwnerStep.DISCARD)
        if not is_given and self.presence.since_s is None:
            self._vacates_now = False
        self._order(now)
        if reason != self._availability.owner:
            self._availability.owner, self._report.is_due = reason, True
            if reason is None and self.policy.exempt:
                self._report.rules += 1  # brokers forget whom it turned away

    def _learn(self, now: Instant) -> None:
        """Learn when the owner is away, and tell for how long they stay so; store it at times."""
        presence = self.presence
        is_idle = presence.since_s is None
        kinds = [sign.kind for sign in self.last if sign.at_s >= presence.last_s]
        is_seen = presence.is_watched and kinds != [SignKind.START]
        is_return = presence.word is OwnerWord.HERE or is_seen
        self.absences.look(now.steady_s, now.wall_s, is_idle=is_idle, is_return=is_return)
        load = self._availability.load
        load.expected_idle_s = self.absences.expected_s(now.steady_s, now.wall_s)
        if now.steady_s >= self._learnt_s + LEARNT_EVERY_S:
            self._learnt_s = now.steady_s
            counts = self.absences.stored()
            if counts != self.learnt.counts:
                self.learnt = AbsencesLearnt(counts)
                self._effects.append(Persist(self.learnt, urgent=False))

    def _step(self, now_s: float) -> OwnerStep:
        used_s = self.presence.used_s(now_s)
        if used_s is None or not self._is_known:
            return OwnerStep.NONE
        step = self.policy.step(used_s)
        return max(step, OwnerStep.VACATE) if self._vacates_now else step

    def _gives_way(self, held: HeldClaim) -> bool:
        return not self.policy.exempts(held.claim.user)

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
        if presence.since_s is None or ALL in self.policy.exempt:
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
        at_s, since_s = self.presence.next_s, self.presence.since_s
        if since_s is not None:
            at_s = min(at_s, since_s + self.policy.next_step_s(max(0.0, now_s - since_s)))
        return None if at_s == inf else at_s


def _absences(kept: bytes = b"") -> Absences:
    from iriai.policy.owner.absence import Absences

    return Absences(kept)


def giving_way(
    settings: NodeSettings, parts: QueueParts, availability: Availability
) -> GivingWay | None:
    """Return that of a node; None: its machine has no owner policy."""
    if settings.owner is None:
        return None
    return GivingWay(settings.owner, settings.machine, parts, availability)
