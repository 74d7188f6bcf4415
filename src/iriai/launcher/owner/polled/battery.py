"""Whether the machine runs on its battery."""

from __future__ import annotations

from collections.abc import Iterator

from iriai.launcher.owner.polled.reading import CannotLook, names_in, word_in
from iriai.model.owner import SignKind

SUPPLIES_MAX = 64
"""Of one machine; others are left out."""


class BatteryProbe:
    """Looks at `folder`, which is like /sys/class/power_supply.

    A machine is on its battery if no supply from outside delivers and a battery discharges. The
    batteries of mice and keyboards are none of the machine.
    """

    kind = SignKind.BATTERY

    def __init__(self, folder: str = "/sys/class/power_supply") -> None:
        self._folder = folder
        self.holds = False
        self.note = ""

    def look(self, now_s: float) -> Iterator[None]:
        """Look at all supplies; raises `CannotLook` on a machine without a battery."""
        is_plugged, discharging, batteries = False, list[str](), 0
        for name in names_in(self._folder, SUPPLIES_MAX):
            yield
            place = f"{self._folder}/{name}"
            kind = word_in(f"{place}/type")
            if word_in(f"{place}/scope") == "Device":
                continue
            if kind == "Battery" and word_in(f"{place}/present") != "0":
                batteries += 1
                if word_in(f"{place}/status") == "Discharging":
                    discharging.append(name)
            elif kind != "Battery":
                is_plugged |= word_in(f"{place}/online") in ("1", "2")
        if not batteries:
            raise CannotLook(f"{self._folder}: there is no battery")
        self.holds = bool(discharging) and not is_plugged
        self.note = f"{', '.join(discharging)}: discharging" if self.holds else "plugged in"

    def close(self) -> None:
        """It has nothing open."""
