"""Each benchmark runs from beginning to end, in the small, and names its figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

FIGURES = {
    "throughput.py": {"array_per_s", "single_per_s", "back_ends", "limit_per_s", "peers"},
    "no_head.py": {"figures"},
    "latency.py": {"p50_ms", "p99_ms", "run_ms", "submit_ratio", "peers"},
    "match.py": {"speedup_over_classad2", "same_answers", "one_machine_changed_ms"},
    "start.py": {"first_up_s", "up_s", "daemon_rss_mb", "packages", "installed_mb"},
    "footprint.py": {
        "idle_rss_mb",
        "idle_cpu_percent",
        "queued_100k_extra_mb",
        "restart_100k_s",
        "jobs_listing_100k_s",
        "jobs_page_100k_s",
    },
    "parallel_sim.py": {"replay_jobs_per_s", "pass_p99_ms", "ratio", "utilisation", "area_bound"},
    "gang_sim.py": {"gangs", "flood", "logs"},
    "harvest.py": {"full", "half", "idle_percent", "absent_part"},
    "queues.py": {"passes", "flood"},
    "reservations.py": {
        "replays",
        "messages",
        "checks",
        "whole",
        "parts",
        "reserve_p50_ms",
        "ratios",
    },
    "simulation.py": {"figures", "full_handles_per_s", "seeds_per_minute", "peers"},
}
LIVE_FIGURES = {
    "live_gossip.py": {"whole_s", "rest", "change", "match", "eject", "judged"},
    "live_cluster.py": {"whole_s", "rest", "blows", "counts", "judged"},
    "live_throughput.py": {"cluster_8_per_s", "alone_per_s", "cluster_8_of_alone"},
    "large_site.py": {"small", "large", "more", "goals", "judged"},
    "gang.py": {"v2", "v1", "none", "daemons_skew_p99_ms", "daemons_idle_part"},
    "owner.py": {"v2", "v1", "none"},
    "abuse.py": {"honest_p99_ms", "honest_tasks_ratio", "memory_left_mb", "kinds"},
}
"""Of real daemons in network namespaces, which root alone can make."""


@pytest.mark.parametrize("program", FIGURES)
def test_quick_run_ends_with_one_json_object(program, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = quick_run(program)
    assert result.keys() >= FIGURES[program] | {"settings", "machine"}
    assert result["settings"]["runs"] == 1
    assert list(tmp_path.iterdir()) == []  # without peers their environment is not made


def test_in_the_quick_run_of_paper_001_ads_reach_most_machines():
    result = quick_run("gossip_paper.py")
    assert result.keys() >= {"fig6", "fig7", "fig8", "fig9", "table1", "agreement", "settings"}
    reaches = [
        reach for rows in [result["fig6"], *result["fig7"].values()] for reach in rows.values()
    ]
    assert all(reach["final"] > 0.4 for reach in reaches)
    assert result["fig6"]["1"]["final"] < result["fig6"]["4"]["final"]
    at_ten = result["fig8"]["10"]
    assert at_ten["gossip"] < at_ten["manager"] < at_ten["oracle"]
    assert all(each["product"] for each in result["agreement"].values())


@pytest.mark.root
@pytest.mark.parametrize("program", LIVE_FIGURES)
def test_quick_run_of_live_daemons_ends_with_one_json_object(program):
    result = quick_run(program)
    assert result.keys() >= LIVE_FIGURES[program] | {"settings", "machine"}
    assert result["settings"]["runs"] == 1


def quick_run(program):
    """The one JSON object that it ends with."""
    done = subprocess.run(
        [sys.executable, BENCHMARKS / program, "--quick", "--no-peers"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    return json.loads(line)


def test_limit_can_be_measured_alone():
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "limit.py", "--tasks", "100", "--runs", "3"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["limit_per_s"] == sorted(result["runs"])[1]
