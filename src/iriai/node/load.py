"""The load of the machine: what is published of it, and when its owner wants nothing started."""

from __future__ import annotations

from iriai.model.reason import Reason, Rule

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
