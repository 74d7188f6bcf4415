"""What a simulated launcher notices of its machine's owner (docs/spec/016, section 4)."""

from __future__ import annotations

from math import inf

from iriai.model.ids import AttemptId
from iriai.model.owner import (
    NO_CONDITIONS,
    OwnerWord,
    SensorState,
    Sign,
    SignKind,
    StandingOrder,
)
from iriai.protocol.messages.effects import OwnerNoticed, WatchOwner


class OwnerModel:
    """The standing order of one launcher, and the signs since that was started."""

    def __init__(self) -> None:
        self.order = StandingOrder()
        self._last: dict[SignKind, Sign] = {}
        self._conditions = NO_CONDITIONS
        self._held: dict[SignKind, None] = {}
        """Conditions that hold."""
        self._told_s: dict[SignKind, float] = {}
        """When their last signs were given."""
        self._away_s = -inf
        self.suspended_s = -inf
        """When the last sign was that suspends, on the steady clock; -inf: there was none, or the
        owner has said since that they are away."""

        self.woke_s = -inf
        """When the machine last woke, likewise."""

    @property
    def has_order(self) -> bool:
        """Return whether there was a standing order: only then somebody watches."""
        return self.order.number >= 0

    def keeps(self, attempt: AttemptId) -> bool:
        """Return whether an attempt is to be frozen for the owner."""
        return self.order.keeps(attempt)

    def take(self, order: WatchOwner) -> None:
        """Take in an order, unless it is not newer than the last."""
        number, exempt, signs = order.number, order.exempt, order.signs
        suspends, are_over, lowers = order.suspends, order.are_over, order.lowers
        if self.order.take(
            number, exempt, signs, suspends=suspends, are_over=are_over, lowers=lowers
        ):
            self._conditions = order.conditions

    def watches(self, kind: SignKind) -> bool:
        """Return whether there is a sensor of a condition."""
        return kind in self._conditions.kinds

    def holds(self, kind: SignKind) -> bool:
        """Return whether a condition holds, by the last look."""
        return kind in self._held

    def sees(self, kind: SignKind, steady_s: float, *, holds: bool) -> bool:
        """Take in what a sensor sees; return whether it gives a sign."""
        if not holds:
            self._held.pop(kind, None)
            self._told_s.pop(kind, None)
            return False
        self._held[kind] = None
        if steady_s < self._told_s.get(kind, -inf) + self._conditions.repeat_s:
            return False
        self._told_s[kind] = steady_s
        return True

    def sign(self, kind: SignKind, steady_s: float) -> None:
        """Take in a sign."""
        self._last[kind] = Sign(kind, steady_s)
        self.order.sign()
        if self.order.suspends and steady_s > self._away_s:
            self.suspended_s = steady_s

    def said(self, word: OwnerWord | None, steady_s: float, until_s: float) -> None:
        """Note the owner's word: while it is `away` signs do not count, nor do those before."""
        self._away_s = until_s if word is OwnerWord.AWAY else min(self._away_s, steady_s)
        if word is OwnerWord.AWAY:
            self.suspended_s = self.woke_s = -inf

    def woke(self, steady_s: float) -> None:
        """Note that the machine has slept until now: nobody knows who is there."""
        if self.order.suspends and steady_s > self._away_s:
            self.woke_s = steady_s

    def noticed(self, *, sensor_fails: bool) -> OwnerNoticed:
        """Return what the node is told."""
        note = "it was taken away" if sensor_fails else "a keyboard"
        sensor = SensorState(SignKind.INPUT, not sensor_fails, note)
        others = [
            SensorState(kind, True, "it looks", self.holds(kind)) for kind in self._conditions.kinds
        ]
        return OwnerNoticed(self.order.signs, tuple(self._last.values()), (sensor, *others))
