"""What a part of a machine has to say at the end of its turn: its alarm, and incidents of peers."""

from __future__ import annotations

from iriai.protocol.messages.effects import Part, PeerNoticed, WakeAt


class Timer:
    """Never put off: an alarm that rings too early costs a turn in which nothing is due."""

    def __init__(self, part: Part) -> None:
        """`part` is woken."""
        self._part = part
        self._at_s: float | None = None

    def rang(self) -> None:
        """The part was woken: what is due later is to be asked for again."""
        self._at_s = None

    def by(self, steady_s: float) -> list[WakeAt]:
        """Have it ring then, or before: what sets it, and nothing where it is set so."""
        if self._at_s is not None and self._at_s <= steady_s:
            return []
        self._at_s = steady_s
        return [WakeAt(self._part, steady_s)]


NOTICES_MAX = 10_000
"""Pairs of (code, machine) that are counted; names are proven, so there are no more than that."""
LIES = frozenset({"forged-doubt", "use-beyond-size", "size-beyond-bounds", "malformed-batch"})
"""What no honest machine says, whatever went wrong: after a few of these it is to be thrown out."""
PROPOSED_AFTER = 3
"""So often a machine said one thing that no honest one says, before operators are told to eject it.
They decide: nothing does so by itself."""
PERIODS = 10
"""The window of an allowance, in periods of the protocol."""


class Incidents:
    """Counts by code and machine; says so at the first, the tenth, the hundredth time.

    A lie is said as well when it is time to propose something.
    """

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self.unsaid: list[PeerNoticed] = []
        """What is to be said."""

    def note(self, code: str, machine: str, message: str, *, is_usual: bool = False) -> None:
        """It happened once more. What is usual now and then is not said the first time."""
        key = (code, machine)
        if key not in self.counts and len(self.counts) >= NOTICES_MAX:
            return
        count = self.counts[key] = self.counts.get(key, 0) + 1
        is_proposed = code in LIES and count == PROPOSED_AFTER
        if is_proposed or (_is_power_of_ten(count) and not (is_usual and count == 1)):
            self.unsaid.append(PeerNoticed(code, machine, message, count))

    def drain(self) -> list[PeerNoticed]:
        """What is to be said since the last call."""
        said, self.unsaid = self.unsaid, []
        return said


class RateLimit:
    """Bounds the requests of each peer in a period."""

    def __init__(self, each: int, window_s: float) -> None:
        self._each = each
        self._window_s = window_s
        self._since_s = 0.0
        self._used: dict[str, int] = {}

    def takes(self, machine: str, now_s: float, amount: int = 1) -> bool:
        """Whether a peer may have `amount` more; it is counted if so."""
        if now_s - self._since_s >= self._window_s or now_s < self._since_s:
            self._since_s = now_s
            self._used.clear()
        used = self._used.get(machine, 0) + amount
        if used > self._each:
            return False
        self._used[machine] = used
        return True


def _is_power_of_ten(count: int) -> bool:
    while count % 10 == 0:
        count //= 10
    return count == 1
