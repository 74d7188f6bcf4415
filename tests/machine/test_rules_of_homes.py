"""Machines that run only some people's tasks, in a cluster that elects its broker."""

from __future__ import annotations

from iriai.broker.exclusions import REMEMBERED_S
from iriai.model.home_rules import OTHERS, HomeRules
from iriai.model.reason import Rule
from iriai.model.records import Ended
from tests.machine.elected import elected, has_ended
from tests.sim.cluster import run, submit

ANN_ALONE = {"rules": HomeRules("m1", {OTHERS: ("ann",)})}


def refusals(world, home: str = "m0") -> int:
    """How many tasks of a home were refused because of whose they were."""
    return sum(
        reason.rule is Rule.USER_NOT_ALLOWED
        for events in world.machines[home].store.events.values()
        for event in events
        if isinstance(event.change, Ended)
        for reason in event.change.refusals
    )


def where(world, jobs) -> set[str]:
    """The machines on which tasks of these jobs were started."""
    return {
        name
        for name, machine in world.machines.items()
        for attempt in machine.launcher.starts
        if attempt.task.job in jobs
    }


def test_a_machine_is_asked_once_whether_it_runs_a_users_tasks():
    world = elected(3, m1=ANN_ALONE)
    for_bob = [submit(world, "m0", user="bob", run_s=2.0) for _ in range(20)]
    for_ann = [submit(world, "m0", user="ann", run_s=2.0) for _ in range(20)]
    run(world, 90.0)
    assert all(has_ended(world, job) for job in for_bob + for_ann)
    assert where(world, for_bob) == {"m0", "m2"}
    assert "m1" in where(world, for_ann)
    assert 1 <= refusals(world) <= 2


def test_after_a_while_it_is_asked_again():
    world = elected(2, m0={"rules": HomeRules("m0", {OTHERS: ("ann",)})}, m1=ANN_ALONE)
    job = submit(world, "m0", user="bob", run_s=2.0)
    run(world, 60.0)
    assert has_ended(world, job)  # his own machine runs it, whatever others do
    submit(world, "m0", tasks=4, user="bob", run_s=REMEMBERED_S)
    run(world, 60.0)
    assert refusals(world) == 1
    run(world, 1.5 * REMEMBERED_S)
    assert refusals(world) == 2
