"""Ranks that have processors of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iriai.launcher.contract.machine_config import MachineSettings
from iriai.launcher.contract.messages import ParallelSeat, StartOrder
from iriai.launcher.environment.processors import Processors, processors_of
from iriai.model.ids import Account, AttemptId
from iriai.model.job import JobSpec
from iriai.model.resources import Resources
from iriai.model.submission import Binding, Layout


@pytest.fixture
def eight(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Processors:
    """Two packages of two cores with two threads each; neighbours have numbers four apart."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for processor in range(8):
        place = tmp_path / f"cpu{processor}" / "topology"
        place.mkdir(parents=True)
        (place / "physical_package_id").write_text(f"{processor % 2}\n")
        (place / "core_id").write_text(f"{processor // 2 % 2}\n")
    return Processors(str(tmp_path))


def order(number: int, ranks: int, first: int = 0) -> StartOrder:
    return StartOrder(AttemptId("ume", number, 0, 1, first), 0, parallel=ParallelSeat(ranks))


def spec(cpus: int = 1, bind: Binding | None = None) -> JobSpec:
    return JobSpec(Account("lab", "ann"), "ann", "j", ("x",), "/", Resources(cpus), bind=bind)


def test_ranks_of_a_seat_are_neighbours_and_have_whole_cores(eight: Processors):
    taken = eight.take(order(1, 2), spec(2))
    assert [processors_of(taken, order(1, 2), Layout.RANKS, rank) for rank in (0, 1)] == [
        (0, 4),
        (2, 6),
    ]
    assert eight.take(order(2, 1), spec(3)) == (1, 5, 3)
    eight.release(order(1, 2).attempt)
    assert eight.take(order(3, 4), spec(1)) == (0, 4, 2, 6)


def test_a_rank_has_those_of_its_place_in_the_seat(eight: Processors):
    seat = order(1, 2, first=6)
    taken = eight.take(seat, spec(2))
    assert processors_of(taken, seat, Layout.RANKS, 7) == (2, 6)
    assert processors_of(taken, seat, Layout.FIRST, 7) == taken


def test_nobody_is_bound_where_too_few_are_free_or_nobody_wants_it(eight: Processors):
    assert eight.take(order(1, 1), spec(4, Binding.NONE)) == ()
    assert len(eight.take(order(2, 1), spec(5))) == 5
    assert eight.take(order(3, 2), spec(2)) == ()
    eight.release(order(3, 2).attempt)
    eight.release(order(2, 1).attempt)
    assert len(eight.take(order(4, 4), spec(2))) == 8


def test_a_machine_that_offers_a_part_of_itself_binds_those_who_ask(eight: Processors):
    eight.use(MachineSettings(cpus=4))
    assert eight.take(order(1, 2), spec()) == ()
    assert eight.take(order(2, 2), spec(1, Binding.CORES)) == (0, 4)
    eight.use(MachineSettings(cpus=8))
    assert eight.take(order(3, 2), spec()) == (2, 6)


def test_where_the_kernel_tells_no_topology_each_processor_is_a_core(tmp_path: Path):
    own = sorted(os.sched_getaffinity(0))
    assert Processors(str(tmp_path)).take(order(1, 1), spec(len(own))) == tuple(own)
