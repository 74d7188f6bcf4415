"""A group of three users beside a group of one, with equal rights (paper 000, section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence

from iriai.config.reader import Configuration
from iriai.config.sections import GroupSection
from iriai.sim.experiments.backlog import share_panel
from iriai.sim.experiments.outcome import Panel

ACCOUNTS = {"large/a": 400, "large/b": 400, "large/c": 400, "small/d": 600}
CONFIGURATION = Configuration(groups={"large": GroupSection(1.0), "small": GroupSection(1.0)})
WANTED = {"large/a": 1 / 6, "large/b": 1 / 6, "large/c": 1 / 6, "small/d": 0.5}


def run(seeds: Sequence[int]) -> tuple[Panel, ...]:
    """By order, what each user gets."""
    return (share_panel(ACCOUNTS, CONFIGURATION, WANTED, seeds),)
