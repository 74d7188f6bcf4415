"""Misbehaviour of peers: incidents, counted and reported, and limits on requests."""

from __future__ import annotations

from iriai.protocol.messages.effects import PeerNoticed

NOTICES_MAX = 10_000
"""Pairs of (code, machine) that are counted. Names are authenticated, so more are not expected."""
LIES = frozenset({"forged-doubt", "use-beyond-size", "size-beyond-bounds", "malformed-batch"})
"""Codes that no honest machine causes, whatever fails; a few of them are a reason to eject it."""
PROPOSED_AFTER = 3
"""The count of one code in `LIES` at which operators are advised to eject the machine. Nothing is
ejected automatically."""
PERIODS = 10
"""The window of a rate limit, in periods of the protocol."""


class Incidents:
    """Counts incidents by code and machine; reports the first, the tenth, the hundredth.

    A code in `LIES` is also reported when its count reaches `PROPOSED_AFTER`.
    """

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self.unreported: list[PeerNoticed] = []
        """Reports that `drain` returns next."""

    def note(self, code: str, machine: str, message: str, *, is_usual: bool = False) -> None:
        """Count an incident; report the first one only if it is not `is_usual`."""
        key = (code, machine)
        if key not in self.counts and len(self.counts) >= NOTICES_MAX:
            return
        count = self.counts[key] = self.counts.get(key, 0) + 1
        is_proposed = code in LIES and count == PROPOSED_AFTER
        if is_proposed or (_is_power_of_ten(count) and not (is_usual and count == 1)):
            self.unreported.append(PeerNoticed(code, machine, message, count))

    def drain(self) -> list[PeerNoticed]:
        """Return the reports made since the last call."""
        reports, self.unreported = self.unreported, []
        return reports


class RateLimit:
    """Limits the requests of each peer in a window of time."""

    def __init__(self, each: int, window_s: float) -> None:
        self._each = each
        self._window_s = window_s
        self._since_s = 0.0
        self._used: dict[str, int] = {}

    def takes(self, machine: str, now_s: float, amount: int = 1) -> bool:
        """Return whether a peer may use `amount` more, and count it if so."""
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
