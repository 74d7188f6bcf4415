"""What accounts get at three homes of a cluster whose broker is killed again and again."""

import json
import subprocess
import sys

import pytest

from tests.benchmarks.test_quick_runs import BENCHMARKS

pytestmark = pytest.mark.root
FIGURES = ("percent", "points_off", "tasks", "brokers_killed", "took_s")


@pytest.mark.soak
def test_rights_count_even_in_few_draws_while_brokers_are_killed(record_property):
    result = shares(record_property, "--quick")
    assert result["tasks"] == 240
    assert result["brokers_killed"] == 2
    assert result["settings"]["runs"] == 1


@pytest.mark.soak
def test_rights_hold_within_four_points_of_3000_tasks_while_the_broker_is_killed_every_20_s(
    record_property,
):
    result = shares(record_property)
    assert result["tasks"] == 3000
    assert (result["settings"]["machines"], result["settings"]["homes"]) == (6, 3)
    assert result["points_off"] <= 4.0
    assert result["brokers_killed"] >= result["took_s"] // 20 - 1


def shares(record_property, *options: str) -> dict:
    """What the program ends with; its own judgement has to be good."""
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "live_shares.py", *options],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    result = json.loads(line)
    record_property("live shares", {name: result[name] for name in FIGURES})
    assert result["judged"] == "ok", result
    return result
