"""The owner policy of a machine's file, as a node needs it."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from iriai.config.sections import OwnerSection
from iriai.model.owner import REPEAT_S_MAX, REPEAT_S_MIN, SensorSettings
from iriai.policy.owner.owner_steps import PROFILES, OwnerExpressions, OwnerSteps

STEPS = ("suspend", "resume", "reclaim", "vacate", "discard")

REPEAT_PART = 0.25
"""Of the time after which use is over, a condition that lasts is told again."""


def owner_policy(section: OwnerSection) -> OwnerSteps | None:
    """Return the profile with the steps that the file names over it; None: nothing gives way.

    The expressions were checked when the file was read.
    """
    policy = PROFILES.get(section.profile, OwnerSteps())
    named = {name: getattr(section, name) for name in STEPS}
    delays = {_field(name): step for name, step in named.items() if isinstance(step, float)}
    texts = {name: step for name, step in named.items() if isinstance(step, str)}
    policy = _with_delays(policy, delays)
    if texts:
        policy = replace(policy, expressions=OwnerExpressions(**texts))
        policy = _with_delays(policy, {_field(name): inf for name in texts if name != "resume"})
    conditions = _conditions(section, policy)
    policy = replace(
        policy,
        lowers=section.lower,
        exempt=section.exempt,
        conditions=conditions,
        busy_load=section.busy_load,
    )
    return policy if policy.has_steps else None


def _with_delays(policy: OwnerSteps, delays: dict[str, float]) -> OwnerSteps:
    return replace(policy, **delays)  # type: ignore[arg-type]  # fields that are delays alone


def _field(name: str) -> str:
    return "continue_s" if name == "resume" else f"{name}_s"


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
