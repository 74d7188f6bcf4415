"""The states of a job's tasks: what starts next, what waits again, what a cancel leaves."""

from __future__ import annotations

import pytest

from iriai.home.job import JobState
from iriai.home.task_end import TaskEnd
from iriai.model.records import Held, Promised, Released
from iriai.model.state import EndCause, IllegalTransition, TaskState
from tests.support.told import spec

COMPLETED, FAILED, LOST = EndCause.COMPLETED, EndCause.FAILED, EndCause.LOST
QUEUED, HELD, CLAIMED, RUNNING, FINISHED = (
    TaskState.QUEUED,
    TaskState.HELD,
    TaskState.CLAIMED,
    TaskState.RUNNING,
    TaskState.FINISHED,
)


def single(**changes) -> JobState:
    return JobState(1, spec(**changes), 0.0)


def array(*ranges, **changes) -> JobState:
    return JobState(1, spec(array=ranges, is_array=True, **changes), 0.0)


def start(job: JobState, *, process: bool = True) -> int:
    """Start the next task; returns its index."""
    index = job.first_waiting()
    attempt = job.next_attempt(index)
    job.attempted(index, attempt, "ume")
    if process:
        job.started(index, attempt)
    return index


def end(job: JobState, index: int = 0, cause: EndCause = COMPLETED, code: int | None = None):
    job.ended(index, job.tasks[index].attempt, cause, code, None)
    job.check()


def test_a_task_goes_from_queued_to_finished():
    job = single()
    states = [job.task_state(0)]
    job.attempted(0, 1, "ume")
    states.append(job.task_state(0))
    job.started(0, 1)
    states.append(job.task_state(0))
    job.ended(0, 1, COMPLETED, 0, None)
    states.append(job.task_state(0))
    assert states == [QUEUED, CLAIMED, RUNNING, FINISHED]
    assert job.is_finished
    assert job.worst == TaskEnd(COMPLETED, 0, None)


def test_a_task_may_end_before_its_process_was_seen():
    job = single()
    start(job, process=False)
    end(job, cause=FAILED, code=127)
    assert job.worst == TaskEnd(FAILED, 127, None)


def test_an_array_starts_in_the_order_of_its_indices():
    job = array((2, 6, 2), (10, 11, 1))
    assert job.total == 5
    assert [start(job) for _ in range(5)] == [2, 4, 6, 10, 11]
    assert (job.waiting, job.active) == (0, 5)


def test_it_knows_its_own_indices():
    job = array((2, 6, 2), (10, 11, 1))
    assert [i for i in range(14) if job.has_index(i)] == [2, 4, 6, 10, 11]


def test_holes_that_were_cancelled_are_passed_over():
    job = array((1, 6, 1))
    assert job.cancelled((2, 3, 5)) == 3
    assert [start(job) for _ in range(3)] == [1, 4, 6]
    assert job.counts == {EndCause.CANCELLED: 3}
    job.check()


def test_the_first_of_an_array_may_be_a_hole_also_in_the_middle_of_work():
    job = array((1, 4, 1))
    job.cancelled((1,))
    assert start(job) == 2
    job.cancelled((3,))
    assert start(job) == 4
    assert job.waiting == 0
    job.check()


def test_a_hole_cannot_be_cancelled_again():
    job = array((1, 4, 1))
    assert job.cancelled((2, 2, 3)) == 2
    assert job.cancelled((2, 3)) == 0
    assert job.task_state(2) is FINISHED
    job.check()


def test_what_waits_again_goes_first():
    job = array((1, 4, 1))
    first = start(job)
    start(job)
    end(job, first, LOST)
    assert job.requeued == 1
    assert job.task_state(first) is QUEUED
    assert job.first_waiting() == first
    assert job.next_attempt(first) == 2
    assert [job.task_state(index) for index in (1, 2, 3, 4)] == [QUEUED, RUNNING, QUEUED, QUEUED]
    assert job.waiting == 3


def test_lost_attempts_are_repeated_as_often_as_allowed():
    job = single(max_restarts=2)
    for _ in range(3):
        assert not job.is_finished
        start(job)
        end(job, cause=LOST)
    assert job.is_finished
    assert job.worst == TaskEnd(LOST, None, None)


def test_without_a_bound_they_are_always_repeated():
    job = single(max_restarts=None)
    for _ in range(50):
        start(job)
        end(job, cause=LOST)
    assert job.waiting == 1


@pytest.mark.parametrize("cause", [EndCause.EVICTED, EndCause.REFUSED])
def test_neither_an_eviction_nor_a_refusal_uses_up_a_restart(cause):
    job = single(max_restarts=0)
    for _ in range(5):
        start(job, process=cause is EndCause.EVICTED)
        end(job, cause=cause)
    assert (job.waiting, job.next_attempt(0)) == (1, 6)
    start(job)
    end(job, cause=LOST)
    assert job.worst == TaskEnd(LOST, None, None)


def test_the_worst_end_stands_for_an_array():
    job = array((1, 5, 1))
    for cause, code in ((COMPLETED, 0), (FAILED, 7), (FAILED, 3), (EndCause.TIME_LIMIT, None)):
        end(job, start(job), cause, code)
    job.cancelled(())
    assert job.worst == TaskEnd(EndCause.TIME_LIMIT, None, None)
    assert job.counts == {COMPLETED: 1, FAILED: 2, EndCause.TIME_LIMIT: 1, EndCause.CANCELLED: 1}


# --- cancelling, in each state -------------------------------------------------------------------


def test_a_queued_task_that_is_cancelled_is_over():
    job = single()
    assert job.cancelled(()) == 1
    assert job.worst == TaskEnd(EndCause.CANCELLED, None, None)


def test_a_held_task_that_is_cancelled_is_over():
    job = single(held=True)
    assert job.task_state(0) is HELD
    assert job.cancelled(()) == 1
    assert job.is_finished


@pytest.mark.parametrize("process", [False, True])
def test_a_task_under_way_ends_as_it_does(process):
    job = single()
    start(job, process=process)
    assert job.cancelled(()) == 1
    assert job.cancelled(()) == 0  # it is being stopped already
    assert job.tasks[0].stopping
    end(job, cause=EndCause.CANCELLED)
    assert job.worst == TaskEnd(EndCause.CANCELLED, None, None)


@pytest.mark.parametrize("cause", [LOST, EndCause.EVICTED, EndCause.REFUSED])
def test_a_cancelled_task_is_not_repeated(cause):
    job = single()
    start(job)
    job.cancelled(())
    end(job, cause=cause)
    assert job.worst == TaskEnd(EndCause.CANCELLED, None, None)


def test_a_task_that_was_faster_than_its_cancel_keeps_its_end():
    job = single()
    start(job)
    job.cancelled(())
    end(job, cause=COMPLETED, code=0)
    assert job.worst == TaskEnd(COMPLETED, 0, None)


def test_a_task_that_waits_again_is_cancelled_like_one_that_waits():
    job = array((1, 3, 1))
    first = start(job)
    end(job, first, LOST)
    assert job.cancelled((first,)) == 1
    assert job.requeued == 0
    assert start(job) == 2


def test_what_waits_again_keeps_its_order_when_one_of_it_is_cancelled():
    job = array((1, 5, 1))
    for _ in range(3):
        start(job)
    for index in (1, 3, 2):
        end(job, index, LOST)
    job.cancelled((1,))
    assert [start(job) for _ in range(4)] == [2, 3, 4, 5]


def test_cancelling_all_of_an_array_leaves_what_runs():
    job = array((1, 10, 1))
    running = start(job)
    lost = start(job)
    end(job, lost, LOST)
    assert job.cancelled(()) == 10
    assert (job.waiting, job.active) == (0, 1)
    job.check()
    end(job, running, EndCause.CANCELLED)
    assert job.is_finished


# --- hold and promise ----------------------------------------------------------------------------


def test_a_held_job_has_nothing_ready_and_goes_on_where_it_was():
    job = array((1, 3, 1))
    running = start(job)
    job.apply(Held("ann"))
    assert (job.ready, job.waiting) == (0, 2)
    assert [job.task_state(i) for i in (1, 2)] == [RUNNING, HELD]
    end(job, running, LOST)
    assert job.task_state(1) is HELD
    job.apply(Released("ann"))
    assert job.ready == 3
    assert job.first_waiting() == 1


def test_a_promise_is_for_one_start():
    job = array((1, 2, 1))
    job.apply(Promised(50.0, "ume"))
    start(job)
    assert job.promised_wall_s is None


def test_who_holds_a_job_gives_its_promise_back():
    job = single()
    job.apply(Promised(50.0, "ume"))
    job.apply(Held("ann"))
    job.apply(Released("ann"))
    assert job.promised_wall_s is None


# --- what cannot happen --------------------------------------------------------------------------


def test_what_the_table_does_not_have_raises():
    job = single()
    start(job)
    with pytest.raises(IllegalTransition):
        job.started(0, 1)


def test_tasks_that_got_lost_are_found():
    job = array((1, 3, 1))
    job.waiting -= 1
    with pytest.raises(AssertionError, match="tasks lost"):
        job.check()
