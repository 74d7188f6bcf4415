"""How hot the machine is."""

from __future__ import annotations

from collections.abc import Iterator

from iriai.launcher.owner.polled.polled_sensor import Threshold
from iriai.launcher.owner.polled.reading import CannotLook, names_in, number_in, word_in
from iriai.model.owner import SignKind

RELIEF_C = 5.0
"""It has to cool down by so much below the bound."""
SOURCES_MAX = 256
"""Of one machine; others are left out."""
LEAST_C, MOST_C = -40.0, 200.0
"""What is outside is no temperature, but a sensor that is not connected."""
CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "amdgpu", "nouveau", "radeon", "xe")
"""Drivers that measure processors. Others measure what tasks do not heat, or is hot by nature."""


class TemperatureProbe:
    """Looks at thermal zones and hwmon devices in `root`/class, which is like /sys/class."""

    kind = SignKind.TEMPERATURE

    def __init__(self, most_c: float, root: str = "/sys/class") -> None:
        self._root = root
        self._threshold = Threshold(most_c, most_c - RELIEF_C)
        self._most_c = most_c
        self.holds = False
        self.note = ""

    def look(self, now_s: float) -> Iterator[None]:
        """Look for the hottest; raises `CannotLook` if nothing is measured."""
        hottest_c, where = LEAST_C, ""
        for name, path in self._sources():
            yield
            found = number_in(path)
            if found is not None and hottest_c < found / 1000.0 < MOST_C:
                hottest_c, where = found / 1000.0, name
        if not where:
            raise CannotLook(f"{self._root}/thermal and hwmon: nothing measures a temperature")
        self.holds = self._threshold.take(hottest_c)
        self.note = f"{hottest_c:.0f} °C ({where}), the bound is {self._most_c:g}"

    def _sources(self) -> Iterator[tuple[str, str]]:
        """Yield names and files, in thousandths of a degree."""
        for name in names_in(f"{self._root}/thermal", SOURCES_MAX):
            if name.startswith("thermal_zone"):
                place = f"{self._root}/thermal/{name}"
                yield word_in(f"{place}/type") or name, f"{place}/temp"
        for name in names_in(f"{self._root}/hwmon", SOURCES_MAX):
            place = f"{self._root}/hwmon/{name}"
            chip = word_in(f"{place}/name")
            if chip in CHIPS:
                for file in names_in(place, SOURCES_MAX):
                    if file.startswith("temp") and file.endswith("_input"):
                        yield chip, f"{place}/{file}"

    def close(self) -> None:
        """It has nothing open."""
