"""Machines that run only some people's tasks, in a cluster that elects its broker."""

from __future__ import annotations

from iriai.broker.machines.matchmaking import REMEMBERED_S
from iriai.model.admission_rules import OTHERS, HomeRules
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


def rules_change(world, name: str) -> None:
    """The daemon of a machine tells its node that it runs tasks of others than before."""
    machine = world.machines[name]
    machine.core.node.rules_changed()
    machine.asked()
    world.touch(machine)


def test_who_consents_or_is_trusted_later_is_run_at_once_and_nobody_before():
    """T8c: the broker is told, and does not wait until it would ask again."""
    plans = {name: {"rules": HomeRules(name)} for name in ("m0", "m1")}
    world = elected(2, **plans)
    for machine in world.machines.values():
        machine.trusted[OTHERS] = (0.0, ())
    jobs = [submit(world, "m0", user=user, run_s=60.0) for user in ("ann", "ann", "bob")]
    run(world, 30.0)
    assert where(world, jobs) == {"m0"}
    m1 = world.machines["m1"]
    m1.consents["m0", "ann"] = m1.clock.at(world.now_s).wall_s + 60.0
    rules_change(world, "m1")
    run(world, 5.0)
    assert where(world, jobs[:2]) == {"m0", "m1"}
    assert where(world, jobs[2:]) <= {"m0"}
    later = [submit(world, "m0", user="ann", run_s=60.0) for _ in range(2)]
    run(world, 90.0)
    assert where(world, later) == {"m0"}, "the consent is over"
