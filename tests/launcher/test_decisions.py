"""When a task is looked at, what is too much, and what is due first."""

import errno
import os
from typing import cast

import pytest

from iriai.launcher.containment.cgroups.controllers import Memory
from iriai.launcher.containment.cgroups.pool import TaskGroup
from iriai.launcher.containment.container import Use
from iriai.launcher.containment.process_tree import LiveProcesses, ProcessTrees
from iriai.launcher.contract.messages import StartOrder
from iriai.launcher.spawn.spawn import SpawnError, Stage, explain
from iriai.launcher.system.timers import STALE_MIN, Timers
from iriai.launcher.tasks.task import SAMPLE_S, crossed, is_polled, kernel_limits, next_sample_s
from iriai.model.ids import Account
from iriai.model.job import JobSpec
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.system.procfs import Process
from tests.launcher.harness import attempt


def spec(**more: object) -> JobSpec:
    fields = {"account": Account("staff", "ann"), "user": "ann", "name": "x"}
    fields |= {"command": ("tool",), "working_directory": "/home/ann", "output": "%j.out"}
    return JobSpec(**(fields | more))  # type: ignore[arg-type]


class Subject:
    is_over = False


def test_who_has_no_limit_is_never_looked_at():
    assert next_sample_s(spec(), 10.0, 0.0, 4, polled=False) is None


def test_processor_time_is_looked_at_when_it_could_be_used_up():
    limited = spec(cpu_limit_s=40.0)
    assert next_sample_s(limited, 100.0, 0.0, 4, polled=False) == 110.0
    assert next_sample_s(limited, 100.0, 39.99, 4, polled=False) == pytest.approx(100.1)


def test_all_tasks_are_sampled_at_the_same_moments():
    moments = {next_sample_s(spec(), now_s, 0.0, 4, polled=True) for now_s in (7.01, 7.2, 7.49)}
    assert moments == {7.0 + SAMPLE_S}
    assert next_sample_s(spec(), 7.5, 0.0, 4, polled=True) == 8.0


def test_only_what_the_kernel_does_not_limit_is_polled():
    large = spec(resources=Resources(memory_bytes=1 << 20))
    tree = ProcessTrees(os.getpid()).acquire()
    assert is_polled(large, tree)
    assert is_polled(spec(process_limit=5), tree)
    assert not is_polled(spec(), tree)
    group = TaskGroup(1, (), (), (), memory=cast("Memory", object()))
    assert not is_polled(large, group)
    assert is_polled(spec(process_limit=5), group)


def test_what_the_kernel_is_asked_for():
    limits = kernel_limits(spec(resources=Resources(cpus=2, memory_bytes=4096), process_limit=9))
    assert limits == (2, 4096, 9, ())
    assert kernel_limits(spec()) == (1, 0, 0, ())


@pytest.mark.parametrize(
    ("limits", "use", "cause"),
    [
        ({"cpu_limit_s": 2.0}, Use(2.0, 0, 1), EndCause.CPU_LIMIT),
        ({"cpu_limit_s": 2.0}, Use(1.9, 0, 1), None),
        ({"resources": Resources(memory_bytes=100)}, Use(0.0, 101, 1), EndCause.MEMORY_LIMIT),
        ({"resources": Resources(memory_bytes=100)}, Use(0.0, 100, 1), None),
        ({"process_limit": 3}, Use(0.0, 0, 4), EndCause.FAILED),
        ({"process_limit": 3}, Use(0.0, 0, 3), None),
        ({}, Use(1e9, 1 << 60, 10**6), None),
    ],
)
def test_what_is_too_much(limits: dict[str, object], use: Use, cause: EndCause | None):
    found = crossed(spec(**limits), use)
    assert (found.cause if found else None) is cause


@pytest.mark.parametrize(
    ("stage", "error", "code", "words"),
    [
        (Stage.EXEC, errno.ENOENT, 127, "tool: command not found"),
        (Stage.EXEC, errno.EACCES, 126, "tool could not be executed: Permission denied"),
        (Stage.DIRECTORY, errno.ENOENT, 126, "working directory /home/ann cannot be entered"),
        (Stage.STDOUT, errno.EISDIR, 126, "output file ume-5.out cannot be opened"),
        (Stage.USER, errno.EAGAIN, 126, "could not become user ann"),
        (Stage.LIMIT, errno.EPERM, 126, "the task could not be prepared (limit)"),
    ],
)
def test_a_failure_is_explained(stage: Stage, error: int, code: int, words: str):
    found_code, message = explain(SpawnError(1, stage, error), spec(), StartOrder(attempt(5), 0), 0)
    assert found_code == code
    assert words in message


def test_timers_run_in_order_of_their_moments():
    timers, ran = Timers(), []
    for moment in (3.0, 1.0, 2.0, 9.0):
        timers.add(moment, Subject(), ran.append)
    assert timers.next_s() == 1.0
    timers.run_due(4.0)
    assert len(ran) == 3
    assert timers.next_s() == 9.0


def test_a_timer_that_raises_keeps_no_other_from_its_moment():
    timers, ran, broken = Timers(), [], Subject()
    timers.add(1.0, broken, lambda _: 1 // 0)
    timers.add(2.0, Subject(), ran.append)
    [(about, error)] = timers.run_due(5.0)
    assert about is broken
    assert isinstance(error, ZeroDivisionError)
    assert ran == [5.0]


def test_timers_of_what_is_over_do_not_count():
    timers, ran, over = Timers(), [], Subject()
    timers.add(1.0, over, ran.append)
    timers.add(2.0, Subject(), ran.append)
    over.is_over = True
    assert timers.next_s() == 2.0
    timers.run_due(5.0)
    assert len(ran) == 1


def test_timers_of_what_is_over_do_not_pile_up():
    timers = Timers()
    for number in range(10 * STALE_MIN):
        subject = Subject()
        timers.add(3600.0 + number, subject, lambda _: None)
        subject.is_over = number > 0
        timers.drop_stale(1)
    assert len(timers) <= STALE_MIN + 8
    assert timers.next_s() == 3600.0


def test_a_timer_may_set_another():
    timers, ran = Timers(), []
    subject = Subject()
    timers.add(1.0, subject, lambda now_s: timers.add(now_s, subject, ran.append))
    timers.run_due(1.0)
    assert ran == [1.0]


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_session_is_the_tasks_as_long_as_its_number_is(is_ours: bool):
    """A number is given to others once a task's main process, and all of its session, is gone."""
    trees, pid = ProcessTrees(os.getpid()), 1 << 23
    tree = trees.acquire()
    tree.mains[pid] = 5
    snapshot = LiveProcesses()
    leader = Process(pid, "S", 1, pid, 5 if is_ours else 9, 0.0, 0)
    child = Process(pid + 1, "S", pid, pid, 10, 0.0, 0)
    snapshot.processes = {each.pid: each for each in (leader, child)}
    snapshot.sessions, snapshot.children = {pid: [leader, child]}, {pid: [child]}
    assert trees.processes_of(tree, snapshot) == ([leader, child] if is_ours else [])
