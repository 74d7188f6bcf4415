"""What `[order] even` decides where a newcomer meets somebody who has used much, in both modes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.config.reader import Configuration
from iriai.config.sections import OrderSection
from iriai.model.ids import Account
from iriai.sim.workload.full import simulate as full
from iriai.sim.workload.log import Log, LogJob
from iriai.sim.workload.replay import replay
from iriai.sim.workload.settings import ReplaySettings

CPUS, RUN_S = 8, 100.0
COMES_S = 3000.0
"""When ben comes: ann has had all cpus until then."""
ANN, BEN = Account("lab", "ann"), Account("lab", "ben")


def log() -> Log:
    jobs = [LogJob(n, 0.0, RUN_S, 1, RUN_S, ANN) for n in range(1, 601)]
    jobs += [LogJob(n, COMES_S, RUN_S, 1, RUN_S, BEN) for n in range(601, 1001)]
    return Log("newcomer", CPUS, jobs, began_wall_s=1_800_000_000.0)


def part_of_ben(run, even: str) -> float:
    """Of what starts in the twenty turnovers after ben has come, the first apart."""
    order = replace(OrderSection(), even=even)
    settings = ReplaySettings(order="lottery", configuration=Configuration(order=order))
    begun_s, until_s = COMES_S + RUN_S, COMES_S + 21 * RUN_S
    starts = [each for each in run(log(), settings) if begun_s <= each.start_s < until_s]
    return sum(each.job.account == BEN for each in starts) / len(starts)


@pytest.mark.parametrize("run", [replay, full])
def test_by_rate_a_newcomer_gets_its_half_at_once_and_no_more(run):
    assert part_of_ben(run, "rate") == pytest.approx(0.5, abs=0.07)


@pytest.mark.parametrize("run", [replay, full])
def test_by_total_a_newcomer_gets_more_until_it_has_caught_up(run):
    assert part_of_ben(run, "total") > 0.65
