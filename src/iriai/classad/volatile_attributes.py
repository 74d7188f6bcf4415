"""Attributes of an ad that change by themselves, and the time on a machine."""

from __future__ import annotations

from collections.abc import Mapping

from iriai.model.ad import Value
from iriai.model.owner import MachineUse
from iriai.model.reason import Reason, Rule

UTC_OFFSET = "UtcOffset"
"""Seconds that a machine's clocks on the wall are ahead of UTC."""
CLOCK = frozenset({"currenttime", "clockmin", "clockday"})
"""Attributes that follow from the time, by key."""
MEASURED = frozenset(
    [
        *("loadavg", "condorloadavg", "ownerload", "keyboardidle", "consoleidle"),
        *("onbattery", "state", "activity", "expectedidle"),
    ]
)
"""Attributes that a machine measures again and again."""
CHANGING = CLOCK | MEASURED
DAY_S, FIRST_DAY = 86_400, 4
"""1 January 1970 was a Thursday; HTCondor counts from Sunday."""


def clock_attributes(wall_s: float, static: Mapping[str, Value]) -> dict[str, Value]:
    """The time as the machine with these attributes has it, by HTCondor's names.

    ClockMin: minutes since midnight; ClockDay: 0 is Sunday; CurrentTime: seconds since 1970.
    """
    offset = static.get(UTC_OFFSET, 0)
    local_s = int(wall_s) + (offset if isinstance(offset, int) else 0)
    return {
        "CurrentTime": int(wall_s),
        "ClockMin": local_s % DAY_S // 60,
        "ClockDay": (local_s // DAY_S + FIRST_DAY) % 7,
    }


def load_attributes(
    load: float,
    foreign_load: float,
    keyboard_idle_s: float | None,
    use: MachineUse | None = None,
    expected_idle_s: float | None = None,
) -> dict[str, Value]:
    """What a machine measured last."""
    found: dict[str, Value] = {
        "LoadAvg": float(load),
        "CondorLoadAvg": max(0.0, float(load) - float(foreign_load)),
        "OwnerLoad": float(foreign_load),
    }
    if keyboard_idle_s is not None:
        found["KeyboardIdle"] = int(keyboard_idle_s)
    if expected_idle_s is not None:
        found["ExpectedIdle"] = int(expected_idle_s)
    if use is not None and use.console_idle_s is not None:
        found["ConsoleIdle"] = int(use.console_idle_s)
    if use is not None and use.on_battery is not None:
        found["OnBattery"] = use.on_battery
    return found


def state_attributes(
    unavailable: Reason | None, use: MachineUse | None, *, is_claimed: bool
) -> dict[str, Value]:
    """What becomes of tasks there, by HTCondor's words, of all of the machine.

    `unavailable` is why nothing can be started there.
    """
    if unavailable is not None and unavailable.rule is Rule.DRAINED:
        return {"State": "Drained", "Activity": "Retiring" if is_claimed else "Idle"}
    if not is_claimed:
        return {"State": "Unclaimed" if unavailable is None else "Owner", "Activity": "Idle"}
    if use is not None and use.some_end:
        return {"State": "Preempting", "Activity": "Vacating"}
    stands = use is not None and use.all_stand
    return {"State": "Claimed", "Activity": "Suspended" if stands else "Busy"}
