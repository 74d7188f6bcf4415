"""Whose tasks a machine runs, by the place that it has in a cluster."""

from types import SimpleNamespace

import pytest

from iriai.config.reader import Configuration
from iriai.daemon.startup.settings import rules_of


@pytest.mark.parametrize(("front_end", "runs"), [("front", True), ("", False)])
def test_a_back_end_runs_what_its_front_end_accepted_for_root(front_end: str, runs: bool):
    """As on one machine; a member of another host runs nothing as root."""
    cluster = SimpleNamespace(front_end=front_end)
    rules = rules_of(Configuration(), "b1", cluster)  # type: ignore[arg-type]
    assert (rules.refusal("front", "root") == "") is runs
    assert rules.refusal("take", "root")
