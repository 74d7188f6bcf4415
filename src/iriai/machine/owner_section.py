"""The owner policy of a machine's file, as a node needs it."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from iriai.config.sections import OwnerSection
from iriai.policy.owner.owner_steps import PROFILES, OwnerConditions, OwnerSteps

STEPS = ("suspend", "resume", "reclaim", "vacate", "discard")


def owner_policy(section: OwnerSection) -> OwnerSteps | None:
    """Return the profile with the steps that the file names over it; None: nothing gives way.

    The expressions were checked when the file was read.
    """
    policy = PROFILES.get(section.profile, OwnerSteps())
    named = {name: getattr(section, name) for name in STEPS}
    delays = {_field(name): step for name, step in named.items() if isinstance(step, float)}
    texts = {name: step for name, step in named.items() if isinstance(step, str)}
    policy = replace(policy, exempt=section.exempt, busy_load=section.busy_load)
    policy = _with_delays(policy, delays)
    if texts:
        policy = replace(policy, conditions=OwnerConditions(**texts))
        policy = _with_delays(policy, {_field(name): inf for name in texts if name != "resume"})
    return policy if policy.has_steps else None


def _with_delays(policy: OwnerSteps, delays: dict[str, float]) -> OwnerSteps:
    return replace(policy, **delays)  # type: ignore[arg-type]  # fields that are delays alone


def _field(name: str) -> str:
    return "continue_s" if name == "resume" else f"{name}_s"
