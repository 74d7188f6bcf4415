"""Group commit: order, one transaction, lazy records, and what happens when the disk refuses."""

from __future__ import annotations

import threading

import pytest

from iriai.model.records import Incarnated
from iriai.store import StoreFailure, Writer, writer
from tests.store.records import accepted, event

TIMEOUT_S = 30.0
NO_SPACE = StoreFailure("no-space", "no space left under /x", "free some", passing=True)
DAMAGED = StoreFailure("state-damaged", "it is damaged", "", passing=False)


class Gate:
    """A store whose commits wait for the test, and fail as it says."""

    def __init__(self):
        self.path = "/x/iriai.db"
        self.commits = []
        self.failures = []
        self.checkpoints = 0
        self.tidied = threading.Semaphore(0)
        self.waits = []
        self.arrived = threading.Semaphore(0)
        self.open = threading.Semaphore(0)

    def write(self, records, *, waits=True):
        self.waits.append(waits)
        self.arrived.release()
        assert self.open.acquire(timeout=TIMEOUT_S)
        if self.failures:
            raise self.failures.pop(0)
        self.commits.append(list(records))

    def checkpoint(self):
        self.checkpoints += 1
        self.tidied.release()

    def let(self, commits=1):
        self.open.release(commits)

    def await_commit(self):
        assert self.arrived.acquire(timeout=TIMEOUT_S)


class Heard:
    """What the writer told, in order."""

    def __init__(self):
        self.durable = []
        self.failures = []
        self._changed = threading.Condition()

    def notify(self, sequence):
        with self._changed:
            self.durable.append(sequence)
            self._changed.notify_all()

    def report(self, failure):
        with self._changed:
            self.failures.append(failure)
            self._changed.notify_all()

    def await_durable(self, sequence):
        with self._changed:
            assert self._changed.wait_for(lambda: self.durable[-1:] == [sequence], TIMEOUT_S)

    def await_failures(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.failures) >= count, TIMEOUT_S)


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def gated(gate, heard):
    made = Writer(gate, heard.notify, heard.report)
    yield made
    gate.failures.clear()
    gate.let(1000)
    if made.failure is None or made.failure.passing:
        made.close()


def number(n):
    return [Incarnated(n)]


def test_batches_that_gather_during_a_commit_go_together(gated, gate, heard):
    assert gated.submit(number(1)) == 1
    gate.await_commit()
    assert [gated.submit(number(n)) for n in (2, 3, 4)] == [2, 3, 4]
    gate.let(2)
    heard.await_durable(4)
    assert heard.durable == [1, 4]
    assert gate.commits == [number(1), [Incarnated(2), Incarnated(3), Incarnated(4)]]


def test_nothing_is_durable_before_its_commit(gated, gate, heard):
    gated.submit(number(1))
    gate.await_commit()
    assert heard.durable == []
    assert gated.durable == 0


def test_a_lazy_batch_rides_with_the_next_urgent_one(gated, gate, heard, monkeypatch):
    monkeypatch.setattr(writer, "LAZY_S", 3600.0)
    gated.submit(number(1), urgent=False)
    gated.submit(number(2), urgent=True)
    gate.let()
    heard.await_durable(2)
    assert gate.commits == [[Incarnated(1), Incarnated(2)]]


def test_short_commits_are_made_at_once_for_who_may_wait(gated, gate, heard):
    gate.let(2)
    assert gated.submit(number(1), urgent=False, may_wait=True) == 1
    assert gated.durable == 0
    assert gated.submit(number(2), may_wait=True) == gated.durable == 2
    assert gated.submit(number(3), may_wait=True) == gated.durable == 3
    assert gate.commits == [[Incarnated(1), Incarnated(2)], number(3)]
    assert gate.waits == [False, False]
    assert heard.durable == []


def test_nobody_waits_for_a_slow_disk_or_for_many_records(gated, gate, heard, monkeypatch):
    gate.let(3)
    gated.submit(number(1) * (writer.HERE_RECORDS_MAX + 1), may_wait=True)
    heard.await_durable(1)
    monkeypatch.setattr(writer, "HERE_S", -1.0)
    gated.submit(number(2), may_wait=True)
    heard.await_durable(2)
    assert gate.waits == [True, True]


def test_what_could_not_be_written_at_once_is_tried_by_the_thread(gated, gate, heard):
    gate.failures.append(NO_SPACE)
    gate.let(2)
    gated.submit(number(1), may_wait=True)
    heard.await_durable(1)
    assert gate.waits == [False, True]
    assert heard.failures == []


def test_after_many_such_commits_the_log_is_checkpointed(gated, gate, heard, monkeypatch):
    monkeypatch.setattr(writer, "HERE_COMMITS_MAX", 3)
    monkeypatch.setattr(writer, "TIDY_AFTER_S", 3600.0)
    gate.let(3)
    for n in (1, 2, 3):
        gated.submit(number(n), may_wait=True)
    assert gated.durable == 3
    assert gate.tidied.acquire(timeout=TIMEOUT_S)


def test_a_lazy_batch_goes_alone_when_none_comes(gated, gate, heard, monkeypatch):
    monkeypatch.setattr(writer, "LAZY_S", 0.01)
    gated.submit(number(1), urgent=False)
    gate.let()
    heard.await_durable(1)


def test_an_empty_batch_has_the_number_of_the_one_before(gated, gate, heard, monkeypatch):
    monkeypatch.setattr(writer, "LAZY_S", 3600.0)
    assert gated.submit([]) == 0
    assert gated.submit(number(1), urgent=False) == 1
    assert gated.submit([]) == 1
    gate.let()
    heard.await_durable(1)


def test_a_group_is_bounded_and_no_batch_is_split(gated, gate, heard, monkeypatch):
    monkeypatch.setattr(writer, "GROUP_RECORDS_MAX", 3)
    gated.submit(number(0))
    gate.await_commit()
    for _ in range(3):
        gated.submit(number(1) * 2)
    gate.let(4)
    heard.await_durable(4)
    assert [len(commit) for commit in gate.commits] == [1, 2, 2, 2]


def test_while_the_disk_is_full_batches_are_kept_and_tried_again(gated, gate, heard, monkeypatch):
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    gate.failures = [NO_SPACE] * 3
    gated.submit(number(1))
    gate.let(1)
    heard.await_failures(1)
    assert gated.failure is NO_SPACE
    gated.submit(number(2))
    gate.let(3)
    heard.await_durable(2)
    assert heard.failures == [NO_SPACE, None]
    assert heard.durable == [2]
    assert gate.commits == [[Incarnated(1), Incarnated(2)]]
    assert gated.failure is None


def test_a_full_queue_refuses_with_the_reason_of_the_failure(gated, gate, heard, monkeypatch):
    monkeypatch.setattr(writer, "QUEUE_RECORDS_MAX", 2)
    gate.failures = [NO_SPACE]
    gated.submit(number(1) * 2)
    gate.let(1)
    heard.await_failures(1)
    with pytest.raises(StoreFailure, match="no space left"):
        gated.submit(number(2))


def test_a_full_queue_of_a_slow_disk_says_so(gated, gate, monkeypatch):
    monkeypatch.setattr(writer, "QUEUE_RECORDS_MAX", 2)
    gated.submit(number(1) * 2)
    with pytest.raises(StoreFailure, match="2 records wait for the disk"):
        gated.submit(number(2))


def test_damage_ends_the_writer(gated, gate, heard):
    gate.failures = [DAMAGED]
    gated.submit(number(1))
    gate.let(1)
    heard.await_failures(1)
    with pytest.raises(StoreFailure, match="damaged"):
        gated.submit(number(2))
    with pytest.raises(StoreFailure, match="damaged"):
        gated.close()
    assert heard.durable == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_mistake_of_ours_ends_the_writer_and_is_told(gated, gate, heard):
    gate.failures = [ValueError("impossible")]
    gated.submit(number(1))
    gate.let(1)
    heard.await_failures(1)
    with pytest.raises(StoreFailure, match="ValueError: impossible"):
        gated.close()
    with pytest.raises(StoreFailure, match="impossible"):
        gated.submit(number(2))


def test_closing_writes_what_is_queued(gated, gate, heard, monkeypatch):
    monkeypatch.setattr(writer, "LAZY_S", 3600.0)
    gated.submit(number(1), urgent=False)
    gate.let(1)
    gated.close()
    assert heard.durable == [1]


def test_closing_on_a_full_disk_tries_once_more_and_then_says_so(gated, gate, heard):
    gate.failures = [NO_SPACE] * 2
    gated.submit(number(1))
    gate.let(2)
    heard.await_failures(1)
    with pytest.raises(StoreFailure, match="no space left"):
        gated.close()
    assert heard.durable == []


def test_a_pause_is_used_to_tidy_up(gated, gate, heard, monkeypatch):
    monkeypatch.setattr(writer, "TIDY_AFTER_S", 0.0)
    gated.submit(number(1))
    gate.let(2)
    heard.await_durable(1)
    gated.submit(number(2))
    heard.await_durable(2)
    gated.close()
    assert gate.checkpoints >= 1


def test_many_batches_are_there_in_order_for_the_next_daemon(store, reopened, heard):
    through = Writer(store, heard.notify)
    through.submit([accepted(1)])
    for sequence in range(1, 501):
        last = through.submit([event(1, sequence)], urgent=sequence % 3 == 0)
    through.close()
    assert heard.durable[-1] == last
    assert heard.durable == sorted(heard.durable)
    (job,) = reopened().load().jobs
    assert [each.sequence for each in job.events] == list(range(1, 501))
