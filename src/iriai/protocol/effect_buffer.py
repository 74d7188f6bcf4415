"""What a part of a machine asks for, in order, until its turn is over."""

from __future__ import annotations

from collections.abc import Iterable

from iriai.protocol.messages.effects import Effect


class EffectBuffer:
    """One for all objects that make up a part: what they ask for leaves in one order."""

    __slots__ = ("_effects",)

    def __init__(self) -> None:
        self._effects: list[Effect] = []

    def add(self, effect: Effect) -> None:
        """Ask for one thing more."""
        self._effects.append(effect)

    def extend(self, effects: Iterable[Effect]) -> None:
        """Ask for several, in order."""
        self._effects.extend(effects)

    def drain(self) -> list[Effect]:
        """What was asked for since the last call."""
        effects, self._effects = self._effects, []
        return effects
