"""A job's state is the replay of its events, folded or not: whatever happened."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iriai.home.job import JobState
from iriai.model.alteration import Alteration
from iriai.model.ids import AttemptId, ReservationId
from iriai.model.job import Condition, Dependency, JobSpec, task_indices
from iriai.model.ranks import SeatPlace
from iriai.model.records import (
    Altered,
    Attempted,
    AttemptResult,
    Cancelled,
    Change,
    Decided,
    DependencyFailed,
    DependencyMet,
    Ended,
    Held,
    Promised,
    Released,
    ReservationOver,
    SeatEnded,
    Started,
)
from iriai.model.reservation import ReservationEnd
from iriai.model.resources import Resources
from iriai.model.state import EndCause, TaskState
from iriai.model.usage import Usage
from tests.support.told import spec

STEPS = (
    *("attempt", "start", "end", "cancel", "hold", "promise", "fold"),
    *("alter", "await", "met", "unmet", "decide", "seat", "seat", "over"),
)
CAUSES = (
    EndCause.COMPLETED,
    EndCause.FAILED,
    EndCause.LOST,
    EndCause.EVICTED,
    EndCause.REFUSED,
    EndCause.CANCELLED,
)
arrays = st.sampled_from(
    [((0, 0, 1),), ((1, 6, 1),), ((0, 10, 5), (12, 13, 1)), ((3, 3, 1), (7, 20, 4))]
)
steps = st.lists(
    st.tuples(st.sampled_from(STEPS), st.integers(0, 9), st.sampled_from(CAUSES)), max_size=60
)


def change_for(job: JobState, step: str, choice: int, cause: EndCause) -> Change | None:
    """What `step` comes to in the job's present state; None: nothing."""
    active = [i for i, task in job.tasks.items() if task.state is not TaskState.QUEUED]
    claimed = [i for i in active if job.tasks[i].state is TaskState.CLAIMED]
    match step:
        case "attempt" if job.ready:
            index = job.first_waiting()
            places = tuple(SeatPlace(f"m{n}", 2) for n in range(choice))
            return Attempted(((index, job.next_attempt(index)),), "ume", places)
        case "decide" if claimed:
            index = claimed[choice % len(claimed)]
            task = job.tasks[index]
            return Decided(((index, task.attempt),)) if task.parallel else None
        case "seat" if active:
            index = active[choice % len(active)]
            task = job.tasks[index]
            if task.parallel is None or task.parallel.is_over:
                return None
            rank, machine = task.seats()[choice % len(task.seats())]
            seat = AttemptId("ume", 1, index, task.attempt, rank)
            times = (1.0, 2.0, float(choice))
            result = AttemptResult(seat, machine, cause, None, 9, Usage(), *times, 1.0)
            return SeatEnded(((result, 2),))
        case "start" if claimed:
            index = claimed[choice % len(claimed)]
            return Started(((index, job.tasks[index].attempt),))
        case "end" if active:
            index = active[choice % len(active)]
            code = choice if cause is EndCause.FAILED else None
            return Ended(((index, job.tasks[index].attempt, cause, code, None),))
        case "cancel":
            indices = tuple(i for i in task_indices(job.spec.array) if i % 4 == choice % 4)
            return Cancelled(indices if choice else (), "ann")
        case "hold" if job.waiting:
            return Released("ann") if job.held else Held("ann")
        case "alter" if job.waiting:
            wanted = Alteration(
                urgency=1.0 + choice,
                throttle=choice or None,
                resources=Resources(1 + choice % 3),
            )
            now = wanted.differing(job.spec)
            return Altered(now.undone(job.spec), now, "ann") if now.fields else None
        case "await" if job.waiting and choice:
            after = tuple(Dependency(Condition.ANY, "ume", 100 + n) for n in range(choice % 3))
            return Altered(Alteration(after=job.spec.after), Alteration(after=after), "ann")
        case "met" if job.open_after:
            return DependencyMet(((job.open_after[choice % len(job.open_after)], cause),))
        case "unmet" if job.open_after:
            return DependencyFailed(job.open_after[0], cause)
        case "over" if job.spec.reservation is not None:
            return ReservationOver(job.spec.reservation, ReservationEnd.ENDED)
        case "promise" if job.ready:
            return Promised(float(choice) if choice else None, "ume")
    return None


def replay(job: JobState, changes: list[Change], submitted: JobSpec | None = None) -> JobState:
    again = JobState(job.number, submitted or job.spec, job.submitted_wall_s)
    for change in changes:
        again.apply(change)
    again.sequence = job.sequence
    return again


@given(
    array=arrays, steps=steps, max_restarts=st.sampled_from([None, 0, 1]), or_queue=st.booleans()
)
def test_the_replay_of_its_events_is_the_job(array, steps, max_restarts, or_queue):
    inside = {"reservation": ReservationId("ume", 1), "or_queue": or_queue}
    submitted = spec(array=array, max_restarts=max_restarts, **inside)
    job = JobState(1, submitted, 0.0)
    changes: list[Change] = []
    for step, choice, cause in steps:
        if job.is_finished:
            break
        if step == "fold":
            changes = [job.folded()]
            continue
        change = change_for(job, step, choice, cause)
        if change is not None:
            job.apply(change)
            changes.append(change)
        job.check()
        again = replay(job, changes, submitted)
        assert again.equals(job)
        again.check()
        for index, task in job.tasks.items():
            assert again.tasks[index].seats() == task.seats()
            assert again.tasks[index] == task or task.parallel is not None
        if not job.is_finished:
            states = [job.task_state(index) for index in task_indices(array)]
            assert [again.task_state(index) for index in task_indices(array)] == states
            assert states.count(TaskState.HELD if job.held else TaskState.QUEUED) == job.waiting
            if job.waiting:
                assert again.first_waiting() == job.first_waiting()


def test_folded_when_all_were_handed_out_and_one_waits_again():
    """As after a long array: nothing that has finished comes back."""
    job = JobState(1, spec(array=((1, 3, 1),)), 0.0)
    for index in (1, 2, 3):
        job.attempted(index, 1, "ume")
    for index, cause in ((1, EndCause.LOST), (3, EndCause.COMPLETED)):
        job.ended(index, 1, cause, None, None)
    again = replay(job, [job.folded()])
    states = [again.task_state(index) for index in (1, 2, 3)]
    assert states == [TaskState.QUEUED, TaskState.CLAIMED, TaskState.FINISHED]
    assert again.first_waiting() == 1
    assert again.waiting == 1


def test_folded_after_all_was_cancelled():
    job = JobState(1, spec(array=((1, 5, 1),)), 0.0)
    job.attempted(1, 1, "ume")
    job.cancelled(())
    again = replay(job, [job.folded()])
    assert again.equals(job)
    assert again.waiting == 0
    assert again.active == 1


@given(array=arrays, steps=steps)
def test_the_states_of_all_tasks_add_up(array, steps):
    job = JobState(1, spec(array=array), 0.0)
    for step, choice, cause in steps:
        if job.is_finished:
            break
        if step != "fold" and (change := change_for(job, step, choice, cause)) is not None:
            job.apply(change)
        states = [job.task_state(index) for index in task_indices(array)]
        waiting = states.count(TaskState.QUEUED) + states.count(TaskState.HELD)
        assert waiting == job.waiting
        assert states.count(TaskState.FINISHED) == sum(job.counts.values())
        assert states.count(TaskState.CLAIMED) + states.count(TaskState.RUNNING) == job.active
