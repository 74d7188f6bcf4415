"""A machine on which tasks fail at once is left alone; a script that fails everywhere is not."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iriai.broker.health.failure_attribution import FIRST_S, SURVIVED_S
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from tests.broker.many_machines import ManyMachines

QUICK_S = 0.05
"""Between the begin of a task and its failure."""


def room(machines: int, cpus: int = 1, **section) -> ManyMachines:
    made = ManyMachines(*[Resources(cpus)] * machines, **section)
    made.report_all()
    return made


def tasks_on(machines: ManyMachines, name: str) -> int:
    return sum(machine == name for _, machine in machines.started)


def fall(machines: ManyMachines, *names: str, times: int = 1) -> None:
    """What runs on these fails at once, and what is started there instead, so often."""
    for _ in range(times):
        machines.broker.now_s += QUICK_S
        machines.fail(*names)


def survive(machines: ManyMachines) -> None:
    """What runs goes on for so long that it did not fail at once."""
    machines.broker.now_s += SURVIVED_S


def is_left_alone(machines: ManyMachines, name: str) -> bool:
    """By everybody."""
    return machines.state.machines[name].back_off.until_s is not None


def test_a_machine_that_ends_each_task_of_an_array_swallows_a_handful_of_them():
    machines = room(11)
    job = machines.submit("ann", count=1000)
    survive(machines)
    fall(machines, "m0", times=100)
    assert tasks_on(machines, "m0") < 10
    [reason] = [each for each in machines.why(job) if each.rule is Rule.BACKED_OFF]
    assert (
        "tasks of lab/ann failed there within a moment, the last with exit code 127" in reason.had
    )
    assert machines.broker.broker.failing_on("m0")
    assert not machines.broker.broker.failing_on("m1")


def test_it_is_tried_again_half_as_often_each_time():
    machines = room(11)
    machines.submit("ann", count=1000)
    survive(machines)
    fall(machines, "m0", times=20)
    pauses_s = []
    for _ in range(6):
        before = tasks_on(machines, "m0")
        machines.broker.now_s = machines.wake_s
        machines.wake()
        assert tasks_on(machines, "m0") == before + 1
        fall(machines, "m0")
        pauses_s.append(machines.wake_s - machines.broker.now_s)
        fall(machines, "m0", times=4)
        assert tasks_on(machines, "m0") == before + 1
    assert pauses_s == pytest.approx([FIRST_S * 2.0**each for each in range(1, 7)])


def test_others_go_on_there_until_a_second_user_has_met_it():
    machines = room(11)
    machines.submit("ann", count=1000)
    survive(machines)
    fall(machines, "m0", times=20)
    machines.submit("bob", count=1)
    assert len(machines.nodes["m0"].running) == 1
    assert not is_left_alone(machines, "m0")


def test_a_machine_that_fails_two_users_is_left_alone_by_all():
    machines = room(11, cpus=2)
    for user in ("ann", "bob"):
        machines.submit(user, count=1000)
    survive(machines)
    fall(machines, "m0", times=30)
    assert is_left_alone(machines, "m0")
    job = machines.submit("eve")
    [reason] = [each for each in machines.why(job) if each.rule is Rule.BACKED_OFF]
    assert "tasks of 2 users fail there within moments, and not elsewhere" in reason.had


def test_a_task_that_does_well_there_ends_it():
    machines = room(11)
    machines.submit("ann", count=1000)
    survive(machines)
    fall(machines, "m0", times=20)
    machines.broker.now_s = machines.wake_s
    machines.wake()
    node = machines.nodes["m0"]
    machines.end(node, next(iter(node.running)))
    assert not machines.broker.broker.failing_on("m0")
    assert len(node.running) == 1


@settings(max_examples=60, deadline=None)
@given(
    machines=st.integers(2, 6),
    cpus=st.integers(1, 3),
    jobs=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    rounds=st.lists(st.integers(0, 63), min_size=1, max_size=40),
)
def test_a_user_whose_jobs_all_fail_takes_no_machine_from_anybody(machines, cpus, jobs, rounds):
    """Whichever machines tell of it first, and though another user's tasks do well everywhere."""
    made = room(machines, cpus + 1)
    good = made.submit("bob", count=machines)
    survive(made)
    for count in jobs:
        made.submit("ann", count=count)
    for turn, which in enumerate(rounds):
        made.broker.now_s += QUICK_S
        is_for_all = turn % 8 == 7  # those that are slow to fail do so within 0.4 s
        names = [n for number, n in enumerate(made.nodes) if is_for_all or which >> number & 1]
        made.fail(*names, spare=good)
        for name in made.nodes:
            assert not is_left_alone(made, name)
            assert not made.broker.broker.failing_on(name)


@pytest.mark.parametrize("seed", range(3))
def test_a_job_of_which_each_second_task_fails_takes_no_machine_from_others(seed):
    """From its own user it may keep one for a moment: fourteen failures in a row are rare."""
    made, dice = room(4), Random(seed)
    made.submit("ann", count=1000)
    for _ in range(60):
        made.broker.now_s += QUICK_S
        for node in made.nodes.values():
            if node.running and dice.random() < 0.5:
                made.fail(node.name)
            elif node.running:
                made.end(node, next(iter(node.running)))
        assert not any(is_left_alone(made, name) for name in made.nodes)
