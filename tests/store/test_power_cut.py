"""Power fails at every sync: what was acknowledged is there, and no batch is there by half."""

from __future__ import annotations

import sys
from copy import deepcopy
from random import Random

import pytest

from iriai.store import Store
from tests.store import workload
from tests.store.model import Remembered
from tests.store.power import Acknowledge, Disk, Sync, Write, trace

pytestmark = pytest.mark.long

SEEDS = (None, 1, 2)
"""None: all that was not synced is gone. A number: some of it is there, different for each."""


def traced(directory, synchronous="FULL"):
    made = directory / "made"
    made.mkdir()
    command = [sys.executable, "-m", "tests.store.workload", str(made), synchronous]
    return trace(made, command, directory / "trace")


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    return traced(tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def states():
    """What must be remembered after 0, 1, 2, … batches."""
    remembered = Remembered()
    states = [deepcopy(remembered)]
    for batch in workload.batches():
        for record in batch:
            remembered.take(record)
        states.append(deepcopy(remembered))
    return states


def cuts(steps):
    """The disk right before and right after each sync."""
    disk = Disk()
    for step in steps:
        if isinstance(step, Sync):
            yield disk
        disk.perform(step)
        if isinstance(step, Sync):
            yield disk


def batches_found(directory, states):
    """How many batches the store in `directory` has; None where one of them is not whole."""
    store = Store.open(directory / "iriai.db")
    try:
        state = store.load()
        attempts = {(row.job, row.task_index, row.attempt) for row in store.history()}
    finally:
        store.close()
    found = state.next_number - 1  # each batch brings one job
    expected = states[found]
    is_whole = state == expected.state() and attempts == set(expected.attempts)
    return found if is_whole else None


@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_lost_and_nothing_is_there_by_half(steps, states, tmp_path):
    seen = set()
    for moment, disk in enumerate(cuts(steps)):
        for seed in SEEDS:
            directory = tmp_path / f"{moment}-{seed}"
            directory.mkdir()
            disk.after_power_cut(directory, None if seed is None else Random(seed * 1000 + moment))
            found = batches_found(directory, states)
            assert found in (disk.acknowledged, disk.acknowledged + 1), (moment, seed)
            seen.add(found)
    assert seen == set(range(workload.BATCHES + 1))


def test_without_full_syncs_acknowledged_batches_are_lost(states, tmp_path):
    """The judge can see: the same store, told to sync less, is found out."""
    lost = 0
    for moment, disk in enumerate(cuts(traced(tmp_path, "NORMAL"))):
        directory = tmp_path / str(moment)
        directory.mkdir()
        disk.after_power_cut(directory, None)
        lost += disk.acknowledged - batches_found(directory, states)
    assert lost > 0


def test_a_sync_lies_between_a_job_s_record_and_its_acknowledgement(steps):
    for number in range(1, workload.BATCHES + 1):
        name = f"batch-{number:04}".encode()
        acknowledged = steps.index(Acknowledge(number))
        written = [
            position
            for position, step in enumerate(steps[:acknowledged])
            if isinstance(step, Write) and step.name == "iriai.db-wal" and name in step.content
        ]
        assert written
        assert Sync("iriai.db-wal") in steps[written[0] : acknowledged]
