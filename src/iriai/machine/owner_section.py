"""The owner policy of a machine's file, as a node needs it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from iriai.config.sections import OwnerSection
from iriai.model.owner import REPEAT_S_MAX, REPEAT_S_MIN, SensorSettings
from iriai.policy.owner.owner_steps import PROFILES, OwnerSteps

REPEAT_PART = 0.25
"""Of the time after which use is over, a condition that lasts is told again."""


def owner_policy(section: OwnerSection) -> OwnerSteps | None:
    """Return the profile with the steps that the file names over it; None: nothing gives way."""
    policy = PROFILES.get(section.profile, OwnerSteps())
    steps = {
        "suspend_s": section.suspend_s,
        "continue_s": section.continue_s,
        "vacate_s": section.vacate_s,
        "discard_s": section.discard_s,
    }
    named: dict[str, Any] = {name: value for name, value in steps.items() if value is not None}
    policy = replace(policy, **named)
    conditions = _conditions(section, policy)
    policy = replace(policy, exempt=section.exempt, conditions=conditions)
    return policy if policy.has_steps else None


def _conditions(section: OwnerSection, policy: OwnerSteps) -> SensorSettings:
    """Return which conditions of the machine are signs.

    One that lasts is told often enough that use goes on until it is over.
    """
    profile = policy.conditions
    return profile._replace(
        programs=section.programs,
        foreign_cpus_max=section.foreign_cpus_max,
        pressure_percent_max=section.pressure_percent_max,
        temperature_max_c=section.temperature_max_c,
        gpu_processes=section.gpu_processes,
        on_battery=profile.on_battery if section.on_battery is None else section.on_battery,
        repeat_s=min(max(policy.continue_s * REPEAT_PART, REPEAT_S_MIN), REPEAT_S_MAX),
    )
