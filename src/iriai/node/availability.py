"""Whether anything can be started on this machine now, and who or what says no."""

from __future__ import annotations

from iriai.model.backoff import Backoff
from iriai.model.reason import Reason, Rule
from iriai.model.records import Drained

STEP_PART = 0.1
"""The load is told again when it changed by this part of what was told last ..."""
STEP_MIN = 0.2
"""... and by this much at least: a load average wavers by a tenth on an idle machine."""
IDLE_STEP_PART = 0.25
"""How long nobody has used the machine is told again when it is so much longer ..."""
IDLE_STEP_MIN_S = 60.0
"""... and at least this; that somebody uses it again is told at once."""
RELIEF = 0.8
"""A machine above its owner's threshold is open again below this part of it, so that a load near
the threshold does not toggle it."""


class Load:
    """What was measured last, and what was told of it."""

    def __init__(self, machine: str, cpus: int, load_max: float | None) -> None:
        self._machine = machine
        self._cpus = max(1, cpus)
        self._load_max = load_max
        self.average = 0.0
        self.foreign = 0.0
        self.keyboard_idle_s: float | None = None
        self.is_known = False
        self._told_idle_s = 0.0
        self._told = (0.0, 0.0)
        self._is_above = False

    def measured(
        self, average: float, foreign: float, keyboard_idle_s: float | None = None
    ) -> bool:
        """A new measurement; whether it is worth telling."""
        is_news = self._idled(keyboard_idle_s)
        was_known, was_above = self.is_known, self._is_above
        self.average, self.foreign, self.is_known = average, foreign, True
        if self._load_max is not None:
            bound = self._load_max * (RELIEF if was_above else 1.0)
            self._is_above = foreign / self._cpus > bound
        if was_known and was_above is self._is_above and not (is_news or self._has_moved()):
            return False
        self._told = (average, foreign)
        return True

    def _idled(self, idle_s: float | None) -> bool:
        """Somebody used the machine, or nobody did; whether that is worth telling."""
        self.keyboard_idle_s = idle_s
        if idle_s is None:
            return False
        told_s = self._told_idle_s
        if told_s <= idle_s < told_s + max(IDLE_STEP_MIN_S, IDLE_STEP_PART * told_s):
            return False
        self._told_idle_s = idle_s
        return True

    def _has_moved(self) -> bool:
        return any(
            abs(now - told) >= max(STEP_MIN, STEP_PART * told)
            for now, told in zip((self.average, self.foreign), self._told, strict=True)
        )

    def reason(self) -> Reason | None:
        """Why nothing is started here; None: it is."""
        if not self._is_above or self._load_max is None:
            return None
        return Reason(
            Rule.LOAD_ABOVE_THRESHOLD,
            f"at most {self._load_max:g} of others' load for each cpu, and less than "
            f"{self._load_max * RELIEF:g} after it was more",
            f"it is {self.foreign / self._cpus:.2f}",
            self._machine,
        )


FIRST_S = 1.0
"""After one failure: a launcher that shuts down is gone by then."""
MAX_S = 60.0
"""However often it failed: a minute after somebody made room on the disk, work goes on."""


class LauncherBackoff(Backoff):
    """How long the node takes nothing more where a launcher could not start what it was given.

    Otherwise a machine that starts nothing would be the one that is always free, and swallow the
    queue. The pause doubles with each failure in a row, and is forgotten with the first success.
    """

    def __init__(self, machine: str) -> None:
        super().__init__(FIRST_S, MAX_S)
        self._machine = machine
        self._failures = 0
        self._message = ""

    def failed(self, message: str, now_s: float) -> None:
        """Something could not be started; several at once count as one."""
        if self._begin(self._failures, now_s):
            self._failures += 1
            self._message = message

    def succeeded(self) -> None:
        """Something was started."""
        self._failures = 0

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
