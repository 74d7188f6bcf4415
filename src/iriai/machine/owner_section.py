"""The owner policy of a machine's file, as a node needs it."""

from __future__ import annotations

from dataclasses import replace

from iriai.config.sections import OwnerSection
from iriai.policy.owner.owner_steps import PROFILES, OwnerSteps


def owner_policy(section: OwnerSection) -> OwnerSteps | None:
    """Return the profile with the steps that the file names over it; None: nothing gives way."""
    policy = PROFILES.get(section.profile, OwnerSteps())
    steps = {
        "suspend_s": section.suspend_s,
        "continue_s": section.continue_s,
        "vacate_s": section.vacate_s,
        "discard_s": section.discard_s,
    }
    named = {name: value for name, value in steps.items() if value is not None}
    policy = replace(policy, **named, lowers=section.lower, exempt=section.exempt)
    return policy if policy.has_steps else None
