"""How far one task has followed orders to freeze and to thaw it, its turns, and for how long."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from iriai.launcher.contract.messages import FreezeOrder, FreezeState
from iriai.model.ids import AttemptId
from iriai.model.suspension import NO_REASONS, Reasons, SuspendReason, with_reason
from iriai.model.time_slices import Cycles

if TYPE_CHECKING:
    from iriai.launcher.tasks.reclaim import Reclaim


class TaskTurns(msgspec.Struct, eq=False):
    """The turns of one attempt, from a moment on."""

    mask: int
    cycles: Cycles
    since_s: float | None = None
    """From when on they count; None: it has no process, or reasons keep it frozen."""
    path: str = ""
    """The file by which the switching process freezes it; empty: it does not."""
    stands: bool = False
    """Whether the launcher has stopped it by signals, since it is not its turn."""

    def away_s(self, now_s: float) -> float:
        """Return for how long it was not its turn, as far as that counts."""
        if self.since_s is None:
            return 0.0
        return self.cycles.away_s(self.mask, self.since_s, now_s)

    def is_turn(self, now_s: float) -> bool:
        """Return whether it is its turn."""
        return self.cycles.is_turn(self.mask, now_s)

    def after_s(self, now_s: float, left_s: float) -> float:
        """Return when it will have run for `left_s` from now on; inf: never."""
        return self.cycles.after_turn_s(self.mask, now_s, left_s)


class TaskSuspension(msgspec.Struct, eq=False):
    """Of a task that was ordered to freeze, or is by the owner; others have none."""

    number: int = -1
    """Of the last order."""
    ordered: Reasons = NO_REASONS
    """The reasons of the last order."""
    by_owner: bool = False
    """Whether the standing order keeps it, whatever the last order says (spec 016, section 4)."""
    changed_s: float = 0.0
    """When it was last frozen or thawed, or had other reasons, on the steady clock."""
    since_s: float | None = None
    """Since when it is frozen; None: it is not."""
    is_complete: bool = True
    """Whether nothing of it runs; while it is not frozen, True."""
    is_told: bool = True
    """Whether the daemon knows that it was frozen."""
    freezes: int = 0
    """How often it was frozen: looks at an earlier time are over."""
    limit_stands: bool = False
    """Whether the timer of its wall limit ran out while it was frozen."""
    samples_stand: bool = False
    """Whether a sample of its use was due while it was frozen."""
    reclaim: Reclaim | None = None
    """What gives its memory back; None: it was not asked to."""
    _before_s: float = 0.0
    """How long it was frozen before `since_s`."""
    turns: TaskTurns | None = None
    """None: it runs whenever no reason keeps it."""
    _away_s: float = 0.0
    """How long it was not its turn, before `turns` counts; the time frozen apart."""
    limit_due_s: float = math.inf
    """When the first timer of its wall limit rings that was set since it has this."""

    @property
    def reasons(self) -> Reasons:
        """Why it may not run now."""
        if not self.by_owner:
            return self.ordered
        return with_reason(self.ordered, SuspendReason.OWNER, is_given=True)

    @property
    def is_to_tell(self) -> bool:
        """Whether a daemon that knows nothing has to hear of it."""
        return self.number >= 0 or self.freezes > 0

    @property
    def is_frozen(self) -> bool:
        """Whether it is frozen, or is about to be."""
        return self.since_s is not None

    def take(self, order: FreezeOrder, now_s: float) -> bool:
        """Take in an order; return whether it is newer than the last."""
        if order.number <= self.number:
            return False
        before = self.reasons
        self.number, self.ordered = order.number, order.reasons
        if self.reasons != before:
            self.changed_s = now_s
        return True

    def give_owner(self, now_s: float, *, is_given: bool) -> bool:
        """Have the standing order keep it, or not; return whether it has other reasons now."""
        before, self.by_owner = self.reasons, is_given
        if self.reasons == before:
            return False
        self.changed_s = now_s
        return True

    def freeze(self, now_s: float) -> None:
        """Count it as frozen from now on; whether nothing runs is not known yet."""
        self._count_turns(now_s)
        self.since_s = self.changed_s = now_s
        self.freezes += 1
        self.is_complete = self.is_told = False

    def thaw(self, now_s: float) -> None:
        """Count it as going on from now on."""
        self._before_s = self.frozen_s(now_s)
        self.changed_s, self.since_s = now_s, None
        self.is_complete = self.is_told = True
        if self.reclaim is not None:
            self.reclaim.stop()
            self.reclaim = None
        if self.turns is not None:
            self.turns.since_s = now_s

    def give_turns(self, turns: TaskTurns | None, now_s: float) -> None:
        """Have it run in these rows alone from now on; None: whenever no reason keeps it."""
        self._count_turns(now_s)
        self.turns = turns
        if turns is not None and self.since_s is None:
            turns.since_s = now_s

    def stood_s(self, now_s: float) -> float:
        """Return how long it was frozen, or not its turn, in all, until `now_s`."""
        away_s = self._away_s if self.turns is None else self._away_s + self.turns.away_s(now_s)
        return self.frozen_s(now_s) + away_s

    def after_s(self, now_s: float, left_s: float) -> float:
        """Return when it will have run for `left_s` from now on; infinite: it stands."""
        if self.since_s is not None:
            return math.inf
        return now_s + left_s if self.turns is None else self.turns.after_s(now_s, left_s)

    def _count_turns(self, now_s: float) -> None:
        """Count the turns that it has had; it has none from now on until they begin again."""
        if self.turns is not None:
            self._away_s += self.turns.away_s(now_s)
            self.turns.since_s = None

    def frozen_s(self, now_s: float) -> float:
        """Return how long it was frozen in all, until `now_s`."""
        since_s = now_s if self.since_s is None else self.since_s
        return self._before_s + max(0.0, now_s - since_s)

    def state(self, attempt: AttemptId) -> FreezeState:
        """Return what the daemon is told of it."""
        return FreezeState(
            attempt,
            max(self.number, 0),
            self.reasons,
            self.frozen_s(self.changed_s),
            self.changed_s,
            self.is_complete,
        )
