"""One attempt to link with a machine: its addresses in turn, or relays that may lead to it."""

from __future__ import annotations

from dataclasses import dataclass, field

UNPROVED = "unproved"
"""Code of a failure before the other machine has authenticated: offline, foreign or broken."""
UNREACHED = "unreached"
"""Code of `NotReached`: there is no answer."""


class NotReached(Exception):
    """A machine was not reached; `code` is one of the handshake, or `UNREACHED`."""

    def __init__(self, code: str, message: str, *, is_refusal: bool = False) -> None:
        """`is_refusal`: the machine itself refused, as it would at each of its addresses."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.is_refusal = is_refusal


@dataclass(slots=True, eq=False)
class Attempt:
    """The ways to a machine that are left, and what was wrong with those that were tried."""

    ways: list[str]
    """Addresses, or names of relays."""
    is_direct: bool
    """Whether `ways` are addresses."""
    way: str = ""
    """The way that is tried now."""
    is_waiting: bool = False
    """Whether a link with the relay `way` has to be made first."""
    _found: list[NotReached] = field(default_factory=list)

    def next_way(self) -> bool:
        """Go on to the next way; return False if there is none."""
        self.way = self.ways.pop(0) if self.ways else ""
        return bool(self.way)

    def fail(self, missed: NotReached) -> None:
        """Note what was wrong with the way; after a refusal there is no other."""
        if missed.is_refusal:
            self.ways, self._found = [], []
        elif missed.code == UNPROVED and not self.is_direct:
            # The relay has no link with the machine, or lost it.
            missed = NotReached(UNREACHED, f"through {self.way}: {missed.message}")
        self._found.append(missed)

    @property
    def outcome(self) -> NotReached:
        """The machine's refusal, or what was wrong with each way."""
        if not self._found:
            return NotReached(UNREACHED, "no address of it is known")
        words = "; ".join(dict.fromkeys(each.message for each in self._found))
        return NotReached(self._found[-1].code, words)
