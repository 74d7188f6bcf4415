"""Desks with owners, in virtual time: what comes and goes adds up."""

import sys
from math import inf
from pathlib import Path

import pytest

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")
DESKS, DAYS = 12, 7


@pytest.fixture
def kit(monkeypatch):
    """The world of `harvest.py`."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    from harness import harvest_world

    yield harvest_world
    for name in [each for each in sys.modules if each.split(".")[0] == "harness"]:
        del sys.modules[name]


def test_owners_leave_as_much_of_the_processors_idle_as_was_measured(kit):
    parts = [kit.idle_part(300, 7, seed) for seed in range(1, 4)]
    assert [round(part, 3) for part in parts] == [0.979, 0.979, 0.979]


def test_visits_are_in_order_and_do_not_overlap(kit):
    for number in range(50):
        visits = kit.owner_visits(number, DAYS, 1)
        moments = [moment for visit in visits for moment in visit]
        assert moments == sorted(moments)
        assert all(visit.begin_s < visit.end_s for visit in visits)


@pytest.mark.parametrize("saving", ["NEVER", "REGULARLY", "AND_WHEN_ASKED"])
@pytest.mark.parametrize("load", [None, 0.5])
def test_what_desks_computed_was_kept_or_lost(kit, saving, load):
    steps = kit.OwnerSteps(suspend_s=0.0, vacate_s=600.0)
    world = kit.HarvestWorld(kit.HarvestCase(steps, kit.Saving[saving], load), DESKS, DAYS, 1)

    world.run()

    totals = world.totals
    assert totals.evictions > 0
    assert 0.0 <= totals.lost_s <= totals.computed_s <= totals.absent_s
    assert (totals.lost_s == 0.0) is (saving == "AND_WHEN_ASKED")
    assert totals.kept_s == pytest.approx(totals.computed_s - totals.lost_s)


def test_nothing_is_lost_where_tasks_only_stand(kit):
    steps = kit.OwnerSteps(suspend_s=0.0, vacate_s=inf)
    world = kit.HarvestWorld(kit.HarvestCase(steps), DESKS, DAYS, 1)

    world.run()

    assert world.totals.evictions == world.totals.lost_s == 0
    assert world.totals.harvested > 0.9


def test_who_knows_when_owners_return_loses_less(kit):
    steps = kit.OwnerSteps(suspend_s=0.0, vacate_s=600.0)
    lost = {}
    for hint in kit.Hint:
        world = kit.HarvestWorld(kit.HarvestCase(steps, load=0.5, hint=hint), 60, DAYS, 1)
        world.run()
        lost[hint] = world.totals.lost_percent
    assert lost[kit.Hint.TRUTH] < lost[kit.Hint.EXPECTED] < lost[kit.Hint.NOTHING]
