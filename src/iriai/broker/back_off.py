"""A machine whose starts keep failing is asked less and less, so that it cannot swallow the queue.

It is always free: without this, all that waits would be tried there, again and again.
"""

from __future__ import annotations

from iriai.model.reason import Reason, Rule

FAILURES_MIN = 3
"""So many in a row are no accident: two refusals happen where what a broker knows is stale."""
FIRST_S = 1.0
"""After the first `FAILURES_MIN`; each later failure doubles it."""
MAX_S = 300.0
"""However often it failed: a machine that was mended works again within five minutes."""


class BackOff:
    """Counts the failures of one machine."""

    __slots__ = ("_failures", "_machine", "until_s")

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self._failures = 0
        self.until_s: float | None = None
        """When it is tried again, on the steady clock; None: nothing is wrong."""

    def failed(self, now_s: float) -> bool:
        """A match came back without a claim; whether the machine is left alone from now on."""
        self._failures += 1
        if self.until_s is not None or self._failures < FAILURES_MIN:
            return False
        doublings = min(self._failures - FAILURES_MIN, 16)
        self.until_s = now_s + min(MAX_S, FIRST_S * 2.0**doublings)
        return True

    def succeeded(self) -> None:
        """A match became a claim."""
        self._failures = 0

    def is_over(self, now_s: float) -> bool:
        """Whether it ends now; then it is over."""
        if self.until_s is None or now_s < self.until_s:
            return False
        self.until_s = None
        return True

    def reason(self, now_s: float) -> Reason | None:
        """Why it is left alone; None: it is not."""
        if self.until_s is None:
            return None
        return Reason(
            Rule.BACKED_OFF,
            "a machine that starts what it is asked to",
            f"it failed {self._failures} times in a row; it is tried again within"
            f" {max(0.0, self.until_s - now_s):.0f} s: look at its log, or drain it",
            self._machine,
        )
