"""How background tasks give way to the owner of the machine (docs/spec/016)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from iriai.model.ad import Value
from iriai.model.admission_rules import ALL
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.owner import (
    CONSOLE,
    INPUTS,
    WORD_S_MAX,
    OwnerWord,
    SensorStates,
    Sign,
    SignKind,
)
from iriai.model.reason import Reason, Rule
from iriai.model.records import AbsencesLearnt, OwnerWordGiven
from iriai.model.suspension import SuspendReason
from iriai.model.units import format_duration
from iriai.node.metering import HeldClaim
from iriai.node.offer_builder import NO_USE, Availability
from iriai.node.requirements_check import RequirementsCheck, job_of
from iriai.node.suspending.suspended_claims import QueueParts
from iriai.policy.owner.owner_steps import OwnerStep, OwnerSteps
from iriai.policy.owner.presence import Presence
from iriai.protocol.messages.effects import (
    LoadMeasured,
    MachineSleeps,
    MachineWakes,
    OwnerNoticed,
    OwnerSaid,
    Persist,
    WatchOwner,
)

if TYPE_CHECKING:
    from iriai.policy.owner.absence import Absences
    from iriai.policy.owner.owner_judge import Activity, OwnerJudge

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
LEARNT_EVERY_S = 3_600.0
"""What was learnt is stored so often at most: 5 KiB, of which an hour may be lost."""
CONDITION_HOLDS = "its owner's condition to suspend tasks holds"
IDLE_TIMES = ("KeyboardIdle", INPUTS), ("ConsoleIdle", CONSOLE), ("OwnerIdle", tuple(SignKind))
"""Attributes of expressions, and the signs from which they count."""
IDLE_MAX_S = 365 * 86_400.0
"""`KeyboardIdle` in expressions while the owner's word is `away`."""


class GivingWay:
    """On one machine with an owner policy; others have none of this."""

    def __init__(
        self,
        steps: OwnerSteps,
        machine: str,
        parts: QueueParts,
        availability: Availability,
        agreement: RequirementsCheck,
    ) -> None:
        self.policy, self._machine, self._agreement = steps, machine, agreement
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
        self._sleep: MachineSleeps | None = None
        """None: the machine is not about to sleep."""
        self._sleep_until_s = inf
        """When it stays awake after all."""
        self._ordered: WatchOwner | None = None
        """What the launcher was told; None: it may know nothing."""
        self._reclaimed: dict[AttemptId, None] = {}
        """The attempts whose memory the launcher is to give back to the owner."""
        self.judge = _judge_of(steps)
        """What says when steps are due that are expressions; None: all are delays."""
        self._looked_at: tuple[int, float] | None = None
        """The signs, and the last of them, at the last look at expressions."""
        self._judged: dict[AttemptId, tuple[OwnerStep, str]] = {}
        """What expressions said of each claim at that look, and what was seen."""
        agreement.judge = self.judge
        self.handlers: dict[type, Callable[[Any, Instant], None]] = {
            OwnerNoticed: self._noticed,
            LoadMeasured: self._measured,
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

    def _measured(self, event: LoadMeasured, now: Instant) -> None:
        """Take the load; for how long nobody was there the sensors know better than it says."""
        if self.presence.is_watched:
            event = replace(
                event,
                keyboard_idle_s=self._away_s(INPUTS, now.steady_s),
                console_idle_s=self._away_s(CONSOLE, now.steady_s),
            )
        if self._availability.load.measured(event):
            self._report.is_due = True

    def _away_s(self, kinds: tuple[SignKind, ...], now_s: float) -> float | None:
        """Return the time since a sign of these kinds; at most since somebody watches.

        Who was there by other words than those of a sensor counts for all kinds. None: nobody
        knows.
        """
        signs_s = [sign.at_s for sign in self.last if sign.kind in (*kinds, SignKind.START)]
        return max(0.0, now_s - max(*signs_s, self.presence.unseen_s)) if signs_s else None

    def launcher_attached(self) -> None:
        """Note that a launcher came, which may know no order."""
        self._ordered, self._is_known, self._looked_at = None, False, None

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
        self._looked_at = None
        self.given = None if given.word is None else given
        self.presence.say(given.word, now.steady_s + left_s, now.steady_s)
        self._vacates_now = given.vacates and self.presence.word is OwnerWord.HERE

    @property
    def is_about_to_sleep(self) -> bool:
        """Return whether its machine is, so that all leave it."""
        return self._sleep is not None

    def _falls_asleep(self, event: MachineSleeps, now: Instant) -> None:
        self._sleep, self._sleep_until_s = event, now.steady_s + SLEEPS_WITHIN_S

    def _wakes(self, _event: MachineWakes, now: Instant) -> None:
        """Begin anew: nobody knows who is there now."""
        self._sleep, self._sleep_until_s = None, inf
        self.presence.woke(now.steady_s)

    # --- what follows ----------------------------------------------------------------------------

    def settle(self, now: Instant) -> None:
        """Have claims give way, or go on, as it is now; tell the launcher and the broker."""
        self.presence.look(now.steady_s)
        if now.steady_s >= self._sleep_until_s:
            self._wakes(MachineWakes(), now)
        self._learn(now)
        background = [held for held in self._claims.by_attempt.values() if self._gives_way(held)]
        reason = self.reason
        if self._sleep is not None:
            self._give_way(background, OwnerStep.VACATE, SLEEPS, now)
        elif self.judge is None:
            seen = "" if reason is None else reason.had
            self._give_way(background, self._step(now.steady_s), seen, now)
        elif self._is_known:
            if self._is_look_due(self.judge, now.steady_s):
                self._look(self.judge, background, now)
                reason = self.reason
            for held in background:
                if held.claim.attempt in self._judged:
                    self._give_way((held,), *self._judged[held.claim.attempt], now)
        if self.presence.since_s is None:
            self._vacates_now = False
        steps = [self._step(now.steady_s), *(step for step, _ in self._judged.values())]
        self._availability.is_vacated = self._sleep is None and max(steps) >= OwnerStep.VACATE
        self._order(now)
        self._note_use()
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

    def _note_use(self) -> None:
        """Say in the ad what tasks do for the owner, and whether the machine is on its battery."""
        live = [held for held in self._claims.by_attempt.values() if held.end is None]
        stand = [
            held.suspension is not None and SuspendReason.OWNER in held.suspension.reasons
            for held in live
        ]
        pairs = zip(live, stand, strict=True)
        some_end = any(held.stop is not None and is_for for held, is_for in pairs)
        batteries = [each for each in self.sensors if each.kind is SignKind.BATTERY and each.works]
        on_battery = any(each.holds for each in batteries) if batteries else None
        load = self._availability.load
        use = (load.use or NO_USE)._replace(
            on_battery=on_battery, all_stand=bool(stand) and all(stand), some_end=some_end
        )
        if use != (load.use or NO_USE):
            load.use, self._report.is_due = use, True

    def _give_way(
        self, background: Sequence[HeldClaim], step: OwnerStep, seen: str, now: Instant
    ) -> None:
        """Have claims give way as far as a step says; with none they go on."""
        attempts = [held.claim.attempt for held in background if not held.claim.no_suspend]
        is_given = step >= OwnerStep.SUSPEND
        self._suspensions.give(attempts, SuspendReason.OWNER, now, is_given=is_given, seen=seen)
        for held in background:
            attempt = held.claim.attempt
            # What a task has in the memory of a GPU can be had back in no other way than its end.
            is_for_good = step is OwnerStep.RECLAIM and bool(held.claim.gpu_ids)
            if step >= OwnerStep.VACATE or is_for_good or (is_given and held.claim.no_suspend):
                words = f"{VACATED}: {seen}" if self._sleep is None else SLEEPS
                self._suspensions.vacate(held, words, grace_max_s=self._grace_max_s(step))
            elif step is OwnerStep.RECLAIM:
                self._reclaimed[attempt] = None
            else:
                self._reclaimed.pop(attempt, None)

    # --- steps that are expressions --------------------------------------------------------------

    def _is_look_due(self, judge: OwnerJudge, now_s: float) -> bool:
        """Return whether expressions are to be looked at: in time, and at each sign."""
        return now_s >= judge.next_s or (self.signs, self.presence.last_s) != self._looked_at

    def _look(self, judge: OwnerJudge, background: Sequence[HeldClaim], now: Instant) -> None:
        """Let expressions say for each claim which step is due."""
        self._looked_at = self.signs, self.presence.last_s
        judge.begin(self._attributes(now), self._availability.load.foreign, now)
        judge.forget_others(self._claims.by_attempt)
        self._judged.clear()
        reason = self.reason
        seen = CONDITION_HOLDS if reason is None else reason.had
        is_here = self.presence.word is OwnerWord.HERE or not self.presence.is_watched
        for held in background:
            if held.end is not None:
                continue
            claim, ran_s = held.claim, held.ran_so_far_s(now.steady_s)
            step = judge.step(claim.attempt, _activity(held), job_of(claim), ran_s)
            if not judge.suspends_by_expression:
                step = max(step, self._step(now.steady_s))
            if is_here:
                step = max(step, OwnerStep.VACATE if self._vacates_now else OwnerStep.SUSPEND)
            self._judged[claim.attempt] = step, seen

    def _attributes(self, now: Instant) -> dict[str, Value]:
        """Return the machine's attributes, with what the sensors have seen by now."""
        return self._agreement.attributes(now.wall_s) | {
            name: self._idle_s(kinds, now.steady_s) for name, kinds in IDLE_TIMES
        }

    def _idle_s(self, kinds: tuple[SignKind, ...], now_s: float) -> int:
        """Return the time since a sign of these kinds, unless the owner's word outranks it."""
        if self.presence.word is OwnerWord.AWAY and self.presence.is_watched:
            return int(IDLE_MAX_S)
        is_here = self.presence.word is OwnerWord.HERE or not self.presence.is_watched
        return 0 if is_here else int(min(IDLE_MAX_S, self._away_s(kinds, now_s) or 0.0))

    # --- the launcher and the broker -------------------------------------------------------------

    def _step(self, now_s: float) -> OwnerStep:
        used_s = self.presence.used_s(now_s)
        if used_s is None or not self._is_known:
            return OwnerStep.NONE
        step = self.policy.step(used_s)
        return max(step, OwnerStep.VACATE) if self._vacates_now else step

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
        for attempt in [each for each in self._reclaimed if each not in self._claims.by_attempt]:
            del self._reclaimed[attempt]
        reclaimed = tuple(self._reclaimed)
        known = self._ordered
        number = int(now.steady_s * 1000)
        if known is not None:
            number = max(number, known.number + 1)
            before = (known.suspends, known.exempt, known.are_over, known.reclaimed)
            is_same_sign = not are_over or known.signs == self.signs
            if before == (suspends, exempt, are_over, reclaimed) and is_same_sign:
                return
        conditions, lowers = self.policy.conditions, self.policy.lowers
        self._ordered = WatchOwner(
            number, suspends, exempt, self.signs, are_over, conditions, reclaimed, lowers
        )
        self._effects.append(self._ordered)

    @property
    def reason(self) -> Reason | None:
        """Why no background task is started here; None: it is."""
        presence, judge = self.presence, self.judge
        if ALL in self.policy.exempt:
            return None
        if self._sleep is not None:
            return Reason(Rule.OWNER_ACTIVE, "a machine that stays awake", SLEEPS, self._machine)
        by_expression = "" if judge is None else judge.refuses_all
        if by_expression:
            return Reason(Rule.OWNER_ACTIVE, f"not {by_expression}", CONDITION_HOLDS, self._machine)
        if presence.since_s is None or (
            judge is not None
            and judge.resumes_by_expression
            and presence.is_watched
            and presence.word is None
        ):
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
        """Return what was seen last of the owner: conditions only while nothing else was.

        They are told again and again, so the words would change with each key.
        """
        since_s = self.presence.last_s - self.policy.continue_s
        counted = [sign for sign in self.last if sign.at_s >= since_s]
        last = max(counted, key=_weight, default=None)
        return SIGN_WORDS[SignKind.START if last is None else last.kind]

    def next_s(self, now_s: float) -> float | None:
        """Return when something changes though nothing is seen; None: never."""
        at_s = min(self.presence.next_s, self._sleep_until_s)
        since_s = self.presence.since_s
        if since_s is not None:
            at_s = min(at_s, since_s + self.policy.next_step_s(max(0.0, now_s - since_s)))
        has_reason = bool(self._claims.by_attempt) or self._availability.owner is not None
        is_judged = self._is_known and self._sleep is None
        if self.judge is not None and is_judged and has_reason:
            at_s = min(at_s, max(now_s, self.judge.next_s))
        return None if at_s == inf else at_s


def _absences(kept: bytes = b"") -> Absences:
    from iriai.policy.owner.absence import Absences

    return Absences(kept)


def _weight(sign: Sign) -> tuple[bool, bool, float]:
    is_start = sign.kind is SignKind.START
    return not is_start, not sign.kind.is_condition, sign.at_s


def _judge_of(steps: OwnerSteps) -> OwnerJudge | None:
    if steps.expressions is None:
        return None
    from iriai.policy.owner.owner_judge import OwnerJudge

    return OwnerJudge(steps, steps.expressions)


def _activity(held: HeldClaim) -> Activity:
    """Return what a task does, as expressions see it."""
    from iriai.policy.owner.owner_judge import Activity

    if held.stop is not None:
        return Activity.VACATING
    reasons = () if held.suspension is None else held.suspension.reasons
    return Activity.SUSPENDED if SuspendReason.OWNER in reasons else Activity.BUSY
