"""The sensors of conditions, as the machine's file wants them."""

from __future__ import annotations

from typing import NamedTuple

from iriai.launcher.owner.polled.battery import BatteryProbe
from iriai.launcher.owner.polled.gpu_processes import GpuProbe
from iriai.launcher.owner.polled.polled_sensor import ConditionProbe, LookPace, PolledSensor
from iriai.launcher.owner.polled.pressure import PressureProbe
from iriai.launcher.owner.polled.processor_use import GroupUse, OwnUse, ProcessorProbe, TreeUse
from iriai.launcher.owner.polled.programs import ProgramProbe
from iriai.launcher.owner.polled.temperature import TemperatureProbe
from iriai.model.owner import NO_CONDITIONS, REPEAT_S_MAX, REPEAT_S_MIN, SensorSettings


class OwnTasks(NamedTuple):
    """What does not count."""

    launcher: int
    """The process that all tasks are below."""
    group: str = ""
    """The control group above all tasks that counts processor time; empty: there is none."""
    version: int = 1
    """Of control groups."""

    def use(self) -> OwnUse:
        """Return what measures what they use."""
        return GroupUse(self.group, self.version) if self.group else TreeUse(self.launcher)


class Conditions:
    """Those sensors, which change with the file."""

    def __init__(self, own: OwnTasks) -> None:
        self._own = own
        self._settings = NO_CONDITIONS
        self._pace = LookPace()
        self.sensors: tuple[PolledSensor, ...] = ()

    def go_by(self, settings: SensorSettings, *, is_busy: bool) -> None:
        """Watch what is wanted; conditions of other settings are forgotten."""
        self._pace.is_busy = is_busy
        self._pace.repeat_s = min(max(settings.repeat_s, REPEAT_S_MIN), REPEAT_S_MAX)
        if settings != self._settings:
            for each in self.sensors:
                each.close()
            self._settings = settings
            self.sensors = tuple(PolledSensor(each, self._pace) for each in self._probes())

    def _probes(self) -> list[ConditionProbe]:
        wanted, launcher = self._settings, self._own.launcher
        probes = list[ConditionProbe]()
        if wanted.foreign_cpus_max is not None:
            probes.append(ProcessorProbe(wanted.foreign_cpus_max, self._own.use()))
        if wanted.pressure_percent_max is not None:
            probes.append(PressureProbe(wanted.pressure_percent_max, launcher))
        if wanted.gpu_processes:
            probes.append(GpuProbe(launcher))
        if wanted.programs:
            probes.append(ProgramProbe(wanted.programs, launcher))
        if wanted.on_battery:
            probes.append(BatteryProbe())
        if wanted.temperature_max_c is not None:
            probes.append(TemperatureProbe(wanted.temperature_max_c))
        return probes
