"""Two users of one group with rights 1 and 4, both always with work (paper 000, section 3)."""

from __future__ import annotations

from collections.abc import Sequence

from iriai.config.reader import Configuration
from iriai.config.sections import GroupSection
from iriai.sim.experiments.backlog import share_panel
from iriai.sim.experiments.outcome import Panel

ACCOUNTS = {"lab/ann": 600, "lab/bob": 600}
CONFIGURATION = Configuration(groups={"lab": GroupSection(1.0, {"ann": 1.0, "bob": 4.0})})
WANTED = {"lab/ann": 0.2, "lab/bob": 0.8}


def run(seeds: Sequence[int]) -> tuple[Panel, ...]:
    """By order, what each user gets."""
    return (share_panel(ACCOUNTS, CONFIGURATION, WANTED, seeds),)
