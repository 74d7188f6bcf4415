"""Signs of a machine's owner, the sensors that notice them, and what a launcher does at one.

docs/spec/016 has the rules; the source is paper 003, section 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, NamedTuple

from msgspec import Meta

from iriai.model.bounds import Seconds, Words
from iriai.model.ids import AttemptId

WORD_S_MIN, WORD_S_MAX = 1.0, 30 * 86_400.0
"""How long the owner's word may hold."""


class SignKind(StrEnum):
    """What showed that the owner uses the machine."""

    START = "start"
    """Nothing: the sensors began to look, and nobody knows what was before."""
    TERMINAL = "terminal"
    """Somebody typed at a terminal, here or over ssh."""
    INPUT = "input"
    """A key, the mouse or another input device was used."""
    SESSION = "session"
    """An agent in a graphical session says that somebody uses it."""


class OwnerWord(StrEnum):
    """What the owner has said."""

    HERE = "here"
    AWAY = "away"


class Sign(NamedTuple):
    """The last sign of one kind."""

    kind: SignKind
    at_s: Seconds
    """On the steady clock."""


class SensorState(NamedTuple):
    """How the sensor of one kind of sign does."""

    kind: SignKind
    works: bool
    note: Words = ""
    """What it watches, or why it does not work; for people."""


Signs = Annotated[tuple[Sign, ...], Meta(max_length=len(SignKind))]
SensorStates = Annotated[tuple[SensorState, ...], Meta(max_length=len(SignKind))]


class StandingOrder:
    """What a launcher does at a sign, by the last order of its node (spec 016, section 4)."""

    def __init__(self) -> None:
        self.number = -1
        """Of the last order; negative: there was none."""
        self.signs = 0
        """How many signs there were."""
        self.is_given = False
        """Whether a sign keeps tasks frozen now."""
        self.suspends = False
        """Whether a sign does, by that order."""
        self._exempt: Mapping[AttemptId, None] = {}

    def take(
        self,
        number: int,
        exempt: tuple[AttemptId, ...],
        signs: int,
        *,
        suspends: bool,
        are_over: bool,
    ) -> bool:
        """Take in an order; return whether it is newer than the last.

        `signs` are those that the node has taken in; if `are_over`, and there were no others since,
        they keep nothing frozen any more.
        """
        if number <= self.number:
            return False
        self.number, self.suspends = number, suspends
        self._exempt = dict.fromkeys(exempt)
        if not suspends or (are_over and signs == self.signs):
            self.is_given = False
        return True

    def sign(self) -> bool:
        """Count a sign; return whether tasks are to be frozen that were not until now."""
        self.signs += 1
        was_given, self.is_given = self.is_given, self.suspends
        return self.is_given and not was_given

    def keeps(self, attempt: AttemptId) -> bool:
        """Return whether an attempt is to be frozen for it."""
        return self.is_given and attempt not in self._exempt
