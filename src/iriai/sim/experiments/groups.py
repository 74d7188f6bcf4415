"""A group of three users beside a group of one, with equal rights (paper 000, section 5.3)."""

from __future__ import annotations

from iriai.model.configuration import Configuration
from iriai.model.configuration_sections import GroupSection
from iriai.sim.experiments.backlog import mean_shares

ACCOUNTS = {"large/a": 400, "large/b": 400, "large/c": 400, "small/d": 600}
CONFIGURATION = Configuration(groups={"large": GroupSection(1.0), "small": GroupSection(1.0)})
WANTED = {"large/a": 1 / 6, "large/b": 1 / 6, "large/c": 1 / 6, "small/d": 0.5}


def run(seeds: int) -> dict[str, dict[str, float]]:
    """By order, what each user gets."""
    return {
        order: mean_shares(ACCOUNTS, CONFIGURATION, seeds, order=order)
        for order in ("paper000", "lottery")
    }
