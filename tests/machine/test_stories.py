"""One machine, all parts: jobs from submission to result, through deaths of daemon and launcher."""

from __future__ import annotations

import pytest

from iriai.config.reader import Configuration
from iriai.config.sections import JobSection
from iriai.model.records import AttemptResult
from iriai.model.state import EndCause, TaskState
from iriai.policy.placement.calendar import END_SLACK_S
from iriai.protocol.messages.effects import Part, TerminateAttempt
from tests.support.virtual import VirtualMachine, Work

GRACE_S = 10.0
EVICTED = (EndCause.EVICTED, None, 15)


def causes(machine: VirtualMachine, job) -> list[EndCause]:
    """How each attempt of a job ended, in order."""
    results: list[AttemptResult] = list(machine.store.results.values())
    return [result.cause for result in results if result.attempt.number == job.number]


def test_jobs_run_as_many_at_once_as_fit():
    machine = VirtualMachine(4)
    job = machine.submit(tasks=6, run_s=10.0)
    machine.wait(1.0)
    assert len(machine.running()) == 4
    machine.finish()
    assert machine.now_s == 1000.0 + 20.0
    assert machine.cause(job) == EndCause.COMPLETED
    assert machine.settled == [job.number]


def test_a_job_is_wanted_in_the_turn_in_which_it_came_and_started_in_the_same():
    machine = VirtualMachine(4)
    job = machine.submit()
    machine.turn()
    assert machine.state(job) is TaskState.CLAIMED
    assert machine.running() == [job]


def test_each_running_task_has_gpus_of_its_own():
    machine = VirtualMachine(8, gpus=4)
    machine.submit(tasks=3, gpus=1)
    machine.submit(tasks=2, gpus=2)
    machine.wait(1.0)
    claims = machine.machine.node.claims()
    given = [gpu for claim in claims for gpu in claim.gpu_ids]
    assert len(set(given)) == len(given)


def test_a_time_limit_ends_a_task_and_is_its_cause():
    machine = VirtualMachine(1)
    job = machine.submit(run_s=100.0, limit_s=30.0)
    machine.finish()
    assert (machine.cause(job), machine.now_s) == (EndCause.TIME_LIMIT, 1030.0)


# --- the daemon dies -----------------------------------------------------------------------------


def test_running_tasks_go_on_without_the_daemon():
    machine = VirtualMachine(1)
    job = machine.submit(run_s=30.0)
    machine.wait(10.0)
    machine.restart()
    assert machine.state(job) is TaskState.RUNNING
    machine.finish()
    assert causes(machine, job) == [EndCause.COMPLETED]
    assert machine.now_s == 1030.0
    assert len(machine.starts(job)) == 1


def test_what_ended_while_there_was_no_daemon_has_its_end():
    machine = VirtualMachine(1)
    job = machine.submit(run_s=30.0)
    machine.wait(10.0)
    machine.now_s += 100.0
    machine.launcher.ends_until(machine.now_s)  # and nobody heard of it
    machine.restart()
    machine.wait(0.0)
    assert machine.cause(job) == EndCause.COMPLETED


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_daemon_that_dies_in_the_turn_of_a_start(is_durable):
    """Before: nobody was told an id, nothing happened. After: the start is ordered again."""
    machine = VirtualMachine(1)
    job = machine.submit(run_s=5.0)
    machine.crash(is_durable=is_durable)
    assert (job.number in machine.store.accepted) == is_durable
    machine.finish()
    assert len(machine.starts(job)) == is_durable


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_daemon_that_dies_in_the_turn_of_an_end(is_durable):
    machine = VirtualMachine(1)
    job = machine.submit(run_s=5.0)
    machine.wait(4.0)
    machine.now_s += 1.0
    machine.simulated.inbox.extend(machine.launcher.ends_until(machine.now_s))
    machine.crash(is_durable=is_durable)
    machine.wait(1.0)
    assert causes(machine, job) == [EndCause.COMPLETED]
    assert len(machine.starts(job)) == 1
    assert machine.launcher.exits == {}


def test_a_cancel_outlives_the_daemon():
    machine = VirtualMachine(1)
    job = machine.submit(work=Work(1000.0))
    machine.wait(1.0)
    machine.cancel(job)
    machine.crash(is_durable=True)
    machine.wait(0.0)
    assert machine.cause(job) == EndCause.CANCELLED


def test_a_machine_charges_the_same_whether_or_not_its_daemon_died():
    def usage(restarts: bool) -> float:
        machine = VirtualMachine(2)
        machine.submit(run_s=100.0)
        for _ in range(9):
            machine.wait(10.0)
            if restarts:
                machine.restart()
        machine.finish()
        [row] = machine.store.ledger.values()
        return row.counter

    assert usage(restarts=True) == pytest.approx(usage(restarts=False), rel=1e-3)


def test_a_promise_outlives_the_daemon():
    machine = VirtualMachine(4)
    machine.submit(tasks=2, run_s=300.0, limit_s=300.0)
    machine.turn()
    head = machine.submit("bob", cpus=4, run_s=100.0)
    machine.turn()
    promised = machine.job(head).promised_wall_s
    stay_s = 300.0 + GRACE_S + END_SLACK_S
    assert promised == machine.now.wall_s + stay_s
    for _ in range(5):
        machine.wait(30.0)
        machine.restart()
        machine.submit("eve", cpus=2)  # which would be drawn first if the place were lost
        machine.turn()
        assert machine.job(head).promised_wall_s == pytest.approx(promised)
    machine.wait(160.0)
    assert machine.state(head) is TaskState.RUNNING


def test_a_promise_comes_without_the_slack_where_the_configuration_has_none():
    jobs = JobSection(end_slack_s=0.0)
    machine = VirtualMachine(4, configuration=Configuration(jobs=jobs))
    machine.submit(tasks=2, run_s=300.0, limit_s=300.0, kill_grace_s=0.0)
    machine.turn()
    head = machine.submit("bob", cpus=4, run_s=100.0)
    machine.turn()
    assert machine.job(head).promised_wall_s == machine.now.wall_s + 300.0


# --- the launcher dies ---------------------------------------------------------------------------


def test_tasks_that_die_with_the_launcher_are_run_again_first():
    machine = VirtualMachine(1)
    lost = machine.submit(run_s=50.0)
    machine.wait(10.0)
    waiting = machine.submit(run_s=1.0, urgency=5.0)
    machine.kill_launcher()
    machine.wait(3.0)
    assert len(machine.starts(lost)) == 1
    machine.start_launcher()
    machine.finish()
    assert causes(machine, lost) == [EndCause.LOST, EndCause.COMPLETED]
    assert machine.launcher.starts[1].number == lost.number
    assert causes(machine, waiting) == [EndCause.COMPLETED]


def test_one_that_must_not_be_repeated_is_lost():
    machine = VirtualMachine(1)
    job = machine.submit(run_s=50.0, max_restarts=0)
    machine.wait(10.0)
    machine.kill_launcher()
    machine.start_launcher()
    assert machine.cause(job) == EndCause.LOST


def test_without_a_launcher_jobs_are_accepted_and_wait():
    machine = VirtualMachine(1)
    machine.kill_launcher()
    job = machine.submit()
    machine.wait(5.0)
    assert machine.state(job) is TaskState.QUEUED
    machine.start_launcher()
    machine.wait(0.0)
    assert machine.state(job) is TaskState.RUNNING


def test_both_die():
    machine = VirtualMachine(2)
    running = machine.submit(run_s=50.0)
    machine.wait(10.0)
    machine.launcher.die(machine.now_s)
    machine.restart()
    waiting = machine.submit(run_s=1.0)
    machine.start_launcher()
    machine.finish()
    assert causes(machine, running) == [EndCause.LOST, EndCause.COMPLETED]
    assert causes(machine, waiting) == [EndCause.COMPLETED]


def test_a_launcher_that_shuts_down_evicts_and_nothing_is_lost():
    """`iriai down --kill`: tasks end evicted, and what was about to start is refused."""
    machine = VirtualMachine(2)
    jobs = [machine.submit(run_s=50.0, max_restarts=0) for _ in range(5)]
    machine.wait(10.0)
    machine.launcher.refuses = "the launcher is shutting down"
    for attempt in list(machine.launcher.running):
        machine.launcher.order(TerminateAttempt(attempt, EndCause.EVICTED, 0.0), machine.now_s)
    machine.wait(0.0)
    assert [machine.state(job) for job in jobs] == [TaskState.QUEUED] * 5
    machine.launcher.refuses = ""
    machine.restart()
    machine.finish()
    assert {machine.cause(job) for job in jobs} == {EndCause.COMPLETED}


def test_while_the_launcher_can_start_nothing_it_is_hardly_asked():
    machine = VirtualMachine(64)
    job = machine.submit(tasks=1000, run_s=1.0)
    machine.launcher.refuses = "no space left on device"
    machine.wait(60.0)
    attempts = [event.change for event in machine.store.events[job.number]]
    assert len(attempts) < 40
    machine.launcher.refuses = ""
    machine.finish()
    assert machine.cause(job) == EndCause.COMPLETED


# --- people change their minds -------------------------------------------------------------------


def test_a_claimed_task_can_be_cancelled_before_it_is_seen_to_run():
    machine = VirtualMachine(1)
    job = machine.submit(work=Work(1000.0))
    machine.turn()
    assert machine.state(job) is TaskState.CLAIMED
    machine.cancel(job)
    machine.wait(0.0)
    assert machine.cause(job) == EndCause.CANCELLED


def test_a_job_that_is_cancelled_in_the_turn_in_which_it_came_never_starts():
    machine = VirtualMachine(1)
    job = machine.submit()
    machine.cancel(job)
    machine.turn()
    assert machine.cause(job) == EndCause.CANCELLED
    assert machine.starts(job) == []


def test_a_stubborn_task_has_its_grace():
    machine = VirtualMachine(1)
    job = machine.submit(work=Work(1000.0, stubborn=True), kill_grace_s=7.0)
    machine.wait(1.0)
    machine.cancel(job)
    machine.finish()
    assert machine.now_s == 1008.0


def test_a_cancel_while_the_launcher_is_away_is_carried_out_when_it_is_back():
    """It only lost its connection: the tasks still run."""
    machine = VirtualMachine(1)
    job = machine.submit(work=Work(1000.0))
    machine.wait(1.0)
    machine.launcher.is_up = False
    machine.cancel(job)
    machine.wait(5.0)
    assert machine.state(job) is TaskState.RUNNING
    machine.start_launcher()
    machine.wait(0.0)
    assert machine.cause(job) == EndCause.CANCELLED


def test_a_held_array_finishes_what_runs_and_starts_nothing():
    machine = VirtualMachine(2)
    job = machine.submit(tasks=6, run_s=10.0)
    machine.wait(5.0)
    machine.machine.home.hold(job.number, "ann")
    machine.wait(50.0)
    assert len(machine.starts(job)) == 2
    machine.machine.home.release(job.number, "ann")
    machine.finish()
    assert len(machine.starts(job)) == 6


def test_a_reserved_head_that_is_cancelled_frees_its_place():
    machine = VirtualMachine(4)
    machine.submit(tasks=2, run_s=300.0)
    machine.turn()
    head = machine.submit("bob", cpus=4)
    machine.turn()
    waiting = machine.submit("eve", cpus=2)
    machine.wait(1.0)
    assert machine.state(waiting) is TaskState.QUEUED
    machine.cancel(head)
    machine.wait(0.0)
    assert machine.state(waiting) is TaskState.RUNNING


def test_a_reserved_head_starts_by_its_promise_whatever_else_comes():
    machine = VirtualMachine(4)
    machine.submit(tasks=3, work=Work(500.0, stubborn=True), limit_s=100.0)
    machine.turn()
    head = machine.submit("bob", cpus=4, run_s=10.0)
    machine.turn()
    by_s = machine.job(head).promised_wall_s - machine.now.wall_s + machine.now_s
    for second in range(100):
        limit_s = [None, 5.0, 50.0, 80.0][second % 4]
        machine.submit("eve", limit_s=limit_s, work=Work(500.0, stubborn=True))
        machine.wait(1.0)
    while machine.state(head) is TaskState.QUEUED:
        machine.wait(0.5)
    assert machine.now_s <= by_s


# --- at rest -------------------------------------------------------------------------------------


def test_a_machine_with_nothing_to_do_sets_no_alarm():
    machine = VirtualMachine(4)
    machine.submit(tasks=9)
    machine.finish()
    machine.wait(100.0)
    assert Part.NODE not in machine.simulated.alarms
    assert Part.BROKER not in machine.simulated.alarms


def test_nothing_adds_up_where_all_has_finished():
    """Memory is bounded by what waits and runs, and by named limits."""
    machine = VirtualMachine(4)
    for number in range(300):
        machine.submit(f"user{number % 7}", limit_s=1.0 + number, run_s=1.0)
    machine.finish()
    parts = machine.machine
    home, queues = parts.home, parts.broker.state.queues
    posts = home.requests
    assert (home.jobs, posts._counts, posts._due, posts._stamps) == ({}, {}, {}, {})
    assert (posts._bound, home._log._folded_at) == ({}, {})
    assert (queues.entries, queues.accounts, list(queues.classes)) == ({}, {}, [])
    assert parts.broker.state.usage._runs == {}
    assert parts.node.claims() == []
    assert len(parts.node._report.capabilities) == 4
    assert len(parts.broker.state.machines["ume"].capabilities) == 4
