"""A disk that is really full: nothing is lost, nothing is there by half, and it goes on."""

from __future__ import annotations

import shutil
import threading

import pytest

from iriai.store import Store, StoreFailure, Writer, writer
from tests.store.records import accepted, event

pytestmark = pytest.mark.root

TIMEOUT_S = 60.0


@pytest.fixture
def on_disk(disk, empty_database):
    path = disk.directory / "iriai.db"
    shutil.copyfile(empty_database, path)
    store = Store.open(path)
    yield store
    store.close()


def turn(number):
    """The records of one turn: a job and two of its events."""
    return [accepted(number), event(number, 1), event(number, 2)]


def write_until_full(store):
    """Write turn after turn; the first that could not be written, and why."""
    for number in range(1, 100_000):
        try:
            store.write(turn(number))
        except StoreFailure as failure:
            return number, failure
    raise AssertionError("the disk never was full")


def kept(path):
    """The jobs that the next daemon finds; each must have both of its events."""
    store = Store.open(path)
    jobs = store.load().jobs
    store.close()
    assert all(len(job.events) == 2 for job in jobs)
    return [job.number for job in jobs]


def test_what_was_written_before_the_disk_was_full_is_there_and_nothing_else(disk, on_disk):
    disk.fill(leave_bytes=500_000)
    refused, failure = write_until_full(on_disk)
    assert failure.code == "no-space"
    assert failure.message == f"no space left under {disk.directory}"
    assert failure.passing
    assert refused > 10
    disk.make_room()
    assert kept(on_disk.path) == list(range(1, refused))


def test_the_same_records_can_be_written_once_there_is_room(disk, on_disk):
    disk.fill(leave_bytes=100_000)
    refused, _ = write_until_full(on_disk)
    disk.make_room()
    on_disk.write(turn(refused))
    assert kept(on_disk.path) == list(range(1, refused + 1))


def test_a_full_disk_can_still_be_read(disk, on_disk):
    disk.fill(leave_bytes=100_000)
    refused, _ = write_until_full(on_disk)
    assert on_disk.job(refused - 1) is not None
    assert on_disk.job(refused) is None


def test_a_daemon_that_starts_on_a_full_disk_says_so(disk, on_disk):
    for number in range(1, 101):
        on_disk.write(turn(number))
    disk.fill()
    with pytest.raises(StoreFailure, match="no space left"):
        Store.open(on_disk.path)
    disk.make_room()
    assert kept(on_disk.path) == list(range(1, 101))


def test_a_writer_waits_for_room_and_then_goes_on_in_order(disk, on_disk, monkeypatch):
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    reports = []
    changed = threading.Condition()

    def hear(news):
        with changed:
            reports.append(news)
            changed.notify_all()

    through = Writer(on_disk, hear, hear)
    disk.fill()
    batches = 500
    for number in range(1, batches + 1):
        through.submit(turn(number))
    with changed:
        assert changed.wait_for(lambda: through.failure is not None, TIMEOUT_S)
    assert through.failure.code == "no-space"
    assert through.durable < batches
    disk.make_room()
    with changed:
        assert changed.wait_for(lambda: through.failure is None, TIMEOUT_S)
    through.close()
    assert None in reports
    assert through.durable == batches
    assert kept(on_disk.path) == list(range(1, batches + 1))
