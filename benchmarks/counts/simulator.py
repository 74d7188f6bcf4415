"""The simulator: a front end and its back ends with every message, and replays of a made log."""

from __future__ import annotations

from pathlib import Path
from random import Random

from counts import scripted
from counts.counter import Counter

MACHINES, JOBS = 30, 150
POLICIES = ("easy", "conservative")
LOG_JOBS = 150
PROCESSORS = 100


def measure(_: Path) -> dict[str, dict[str, float]]:
    """Count a message of a world, and a job of a replay."""
    scripted.settle(whole=False)
    counted = {"simulated_handle": _handle()}
    return counted | {f"replayed_job_{policy}": _replayed(policy) for policy in POLICIES}


def _handle() -> dict[str, float]:
    """Count everything that moves, for each message that a part gets."""
    from harness.large_world import counted_handles, large_world, run_to_the_end

    handles = counted_handles()
    run_to_the_end(large_world(MACHINES, JOBS // 5))  # what is kept on first use
    world = large_world(MACHINES, JOBS)
    before = handles()
    counter = Counter()
    with counter.on("simulated_handle"):
        run_to_the_end(world)
    return _each(counter, handles() - before)


def _replayed(policy: str) -> dict[str, float]:
    """Count a job of a log in which more wait than run."""
    from iriai.model.ids import Account
    from iriai.sim.workload.log import Log, LogJob
    from iriai.sim.workload.replay import replay
    from iriai.sim.workload.settings import ReplaySettings

    rng = Random(1)
    jobs, now_s = [], 0.0
    for number in range(1, LOG_JOBS + 1):
        now_s += float(rng.randrange(60))
        run_s = float(rng.randrange(10, 600))
        width = rng.choice((1, 1, 2, 4, 8, 8, 16, 32, 64))
        account = Account(f"g{number % 3}", f"u{rng.randrange(12)}")
        jobs.append(LogJob(number, now_s, run_s, width, run_s + rng.randrange(600), account))
    log, settings = Log("made", PROCESSORS, jobs), ReplaySettings(policy=policy)
    replay(log, settings)  # what is kept on first use
    counter = Counter()
    with counter.on(f"replayed_job_{policy}"):
        records = replay(log, settings)
    return _each(counter, len(records))


def _each(counter: Counter, units: int) -> dict[str, float]:
    counter.tell_functions()
    counts = {name: count / units for name, count in counter.counts.items()}
    del counts["system_calls"]
    return counts
