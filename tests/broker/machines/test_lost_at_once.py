"""A machine that loses tasks at once does not swallow the queue; a bad job takes no machine."""

from __future__ import annotations

from iriai.broker.machines.machine_view import (
    DOUBT_MACHINES_MAX,
    FIRST_S,
    STRUCK_JOBS_MAX,
    AccountReliability,
)
from iriai.model.ids import Account
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from tests.broker.many_machines import ManyMachines

THREE = Resources(3)


def room(machines: int, **section) -> ManyMachines:
    made = ManyMachines(*[THREE] * machines, **section)
    made.report_all()
    return made


def is_left_alone(machines: ManyMachines, name: str = "m0") -> bool:
    return machines.state.machines[name].back_off.until_s is not None


def of_three_users(machines: ManyMachines) -> list[int]:
    return [machines.submit(user) for user in ("ann", "bob", "eve")]


def test_a_machine_that_loses_everybodys_tasks_is_left_alone_for_longer_each_time():
    machines = room(1)
    [first, *_] = of_three_users(machines)
    for doublings in range(4):
        machines.lose("m0")
        assert is_left_alone(machines)
        assert not machines.nodes["m0"].running
        [reason] = machines.why(first)
        assert reason.rule is Rule.BACKED_OFF
        assert "tasks of 3 jobs in a row were lost there within moments" in reason.had
        until_s = machines.state.machines["m0"].back_off.until_s
        assert until_s - machines.broker.now_s >= FIRST_S * 2**doublings
        machines.broker.now_s = until_s
        machines.wake()
        assert len(machines.nodes["m0"].running) == 3


def test_a_task_that_ends_otherwise_clears_the_machine():
    machines = room(1)
    of_three_users(machines)
    running = machines.nodes["m0"].running
    machines.lose("m0")
    machines.broker.now_s += FIRST_S
    machines.wake()
    machines.end(machines.nodes["m0"], next(iter(running)))
    machines.lose("m0")
    assert not is_left_alone(machines)
    assert len(running) == 2


def test_one_job_that_is_lost_everywhere_takes_no_machine_from_others():
    machines = room(2)
    machines.submit("ann", count=6)
    for _ in range(4):
        machines.lose("m0", "m1")
    assert not is_left_alone(machines, "m0")
    assert not is_left_alone(machines, "m1")


def test_nor_do_many_jobs_of_an_account_of_which_nothing_ever_ran():
    machines = room(2)
    for _ in range(6):
        machines.submit("ann")
    for _ in range(4):
        machines.lose("m0", "m1")
    assert not is_left_alone(machines, "m0")


def test_an_account_whose_tasks_do_well_elsewhere_is_evidence_enough():
    machines = room(2, order="fifo")
    for _ in range(12):
        machines.submit("ann")
    machines.end(machines.nodes["m1"], next(iter(machines.nodes["m1"].running)))
    machines.lose("m0")
    assert is_left_alone(machines, "m0")
    assert not is_left_alone(machines, "m1")


def test_an_account_whose_tasks_are_lost_on_many_machines_is_no_evidence_until_one_does_well():
    credit, ann = AccountReliability(), Account("lab", "ann")
    for number in range(DOUBT_MACHINES_MAX):
        assert credit.is_evidence(ann, f"m{number}")
    assert not credit.is_evidence(ann, "m8")
    assert not credit.is_evidence(ann, "m9")
    credit.did_well(ann, "m7")
    assert credit.is_evidence(ann, "m8")
    assert credit.is_proven(ann, "m8")
    assert not credit.is_proven(ann, "m7")


def test_a_machine_remembers_few_of_the_jobs_that_it_lost():
    machines = ManyMachines(Resources(3 * STRUCK_JOBS_MAX))
    machines.report_all()
    for _ in range(STRUCK_JOBS_MAX):
        of_three_users(machines)
    machines.lose("m0")
    [reason] = machines.why(1)
    assert f"tasks of {STRUCK_JOBS_MAX} jobs" in reason.had
