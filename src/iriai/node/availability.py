"""Whether anything can be started on this machine now, and who or what says no."""

from __future__ import annotations

from iriai.model.reason import Reason, Rule
from iriai.model.records import Drained
from iriai.node.load import Load

FIRST_S = 1.0
"""After one failure: a launcher that shuts down is gone by then."""
MAX_S = 60.0
"""However often it failed: a minute after somebody made room on the disk, work goes on."""


class LauncherBackoff:
    """How long the node takes nothing more where a launcher could not start what it was given.

    Otherwise a machine that starts nothing would be the one that is always free, and swallow the
    queue. The pause doubles with each failure in a row, and is forgotten with the first success.
    """

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self._failures = 0
        self._message = ""
        self.until_s: float | None = None
        """When starts are tried again, on the steady clock; None: nothing is wrong."""

    def failed(self, message: str, now_s: float) -> None:
        """Something could not be started; several at once count as one."""
        if self.until_s is None:
            self.until_s = now_s + min(MAX_S, FIRST_S * 2.0**self._failures)
            self._failures = min(self._failures + 1, 16)
            self._message = message

    def succeeded(self) -> None:
        """Something was started."""
        self._failures = 0

    def is_over(self, now_s: float) -> bool:
        """Whether it ends now; then it is over."""
        if self.until_s is None or now_s < self.until_s:
            return False
        self.until_s = None
        return True

    def reason(self) -> Reason | None:
        """Why nothing is taken; None: it is."""
        if self.until_s is None:
            return None
        return Reason(
            Rule.BACKED_OFF,
            "a launcher that starts tasks",
            f"it could not: {self._message}; it is tried again within {MAX_S:.0f} s",
            self._machine,
        )


class Availability:
    """Its launcher, whoever drained it, its owner's threshold, and how starts went lately."""

    def __init__(
        self, machine: str, cpus: int, load_max: float | None, drained: Drained | None
    ) -> None:
        self._machine = machine
        self.has_launcher = False
        self.drained = drained
        self.back_off = LauncherBackoff(machine)
        self.load = Load(machine, cpus, load_max)

    def reason(self) -> Reason | None:
        """Why nothing can be started, the one that lasts longest first; None: it can."""
        drained = self.drained
        if drained is not None:
            return Reason(
                Rule.DRAINED,
                f"iriai resume {self._machine}",
                f"{drained.by} drained it: {drained.reason}",
                self._machine,
            )
        if self.has_launcher:
            return self.back_off.reason() or self.load.reason()
        return Reason(
            Rule.NO_LAUNCHER, "a launcher that answers", "none is connected", self._machine
        )
