"""Whether anything can be started on this machine now, and who or what says no."""

from __future__ import annotations

from iriai.model.reason import Reason, Rule
from iriai.model.records import Drained
from iriai.node.launcher_backoff import LauncherBackoff
from iriai.node.load import Load


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
