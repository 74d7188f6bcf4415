"""Several clusters, one broker each: what one cannot serve another starts."""

from __future__ import annotations

from functools import partial

import pytest

from iriai.broker.federation.forwarding import HOPS_MAX
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from iriai.protocol.delivery.authorization import is_authorized, is_of_cluster
from iriai.protocol.messages.scheduling import Decline, Forward, Match, Message, Returned, Summary
from iriai.sim.faults.search import fails
from iriai.sim.world.network import NetworkPlan
from tests.machine.elected import has_ended
from tests.sim.cluster import run, submit
from tests.sim.electing import parted
from tests.sim.neighbouring import broker_of, clusters, overhear, started

pytestmark = pytest.mark.long

LOSSY = NetworkPlan(0.005, 0.02, 2.0, loss=0.1)
LARGE = {"capacity": Resources(8, 1 << 30)}


def test_each_cluster_has_a_broker_and_its_machines_follow_that_one():
    world = clusters("west", "east", machines=3)
    for name in ("west", "east"):
        broker = broker_of(world, name).plan.name
        theirs = [each for each in world.machines.values() if each.plan.cluster == name]
        assert {each.core.broker_at for each in theirs} == {broker}
        known = list(world.machines[broker].core.broker.state.machines)
        assert sorted(known) == sorted(each.plan.name for each in theirs)


def test_jobs_handed_in_at_one_cluster_keep_both_busy():
    world = clusters("west", "east")
    declined = overhear(world, Decline)
    jobs = [submit(world, "west0", run_s=5.0) for _ in range(8)]
    run(world, 1.0)
    assert (started(world, "west"), started(world, "east")) == (2, 2)
    run(world, 20.0)
    assert all(has_ended(world, job) for job in jobs)
    assert (started(world, "west"), started(world, "east")) == (4, 4)
    assert not declined


def test_an_array_is_split_in_proportion_to_the_room():
    world = clusters("west", "east", "north", west0=LARGE, east0=LARGE, north0={})
    job = submit(world, "west1", tasks=9 + 9 + 2, run_s=100.0)
    forwards = overhear(world, Forward)
    run(world, 1.0)
    assert started(world, "west") == 9
    passed = {each.number: each.want.count for each in forwards if each.want.job == job}
    assert sum(passed.values()) == 11
    assert (started(world, "east"), started(world, "north")) == (9, 2)


def test_own_jobs_come_first_where_there_is_room_and_nothing_is_passed_on():
    world = clusters("west", "east")
    forwards = overhear(world, Forward)
    jobs = [submit(world, f"west{number}", run_s=3.0) for number in range(2)]
    run(world, 5.0)
    assert all(has_ended(world, job) for job in jobs)
    assert not forwards


def test_what_no_machine_of_the_own_cluster_could_run_is_run_by_another():
    world = clusters("west", "east", east1=LARGE)
    job = submit(world, "west0", cpus=6, run_s=3.0)
    run(world, 10.0)
    assert has_ended(world, job)


def test_a_cluster_that_returns_a_job_is_not_asked_again_at_once():
    world = clusters("west", "east")
    forwards, returned = overhear(world, Forward), overhear(world, Returned)
    job = submit(world, "west0", requirements='Machine == "nobody"')
    run(world, 60.0)
    assert len(forwards) == 1
    assert returned[0].count == 1
    assert returned[0].reason is not None
    [told] = [
        reason
        for reason in broker_of(world, "west").core.broker.explain(job, now_of(world, "west"))
        if reason.rule is Rule.OTHER_CLUSTERS
    ]
    assert "requirements" in told.had
    assert "east" in told.needed


def test_why_names_clusters_that_have_nothing_free():
    world = clusters("west", "east")
    for name in ("east0", "east1", "west0", "west1"):
        submit(world, name, run_s=1000.0)
    job = submit(world, "west1", run_s=1.0)
    run(world, 40.0)
    reasons = broker_of(world, "west").core.broker.explain(job, now_of(world, "west"))
    assert Rule.MACHINE_BUSY in {reason.rule for reason in reasons}
    assert reasons[-1].rule is Rule.OTHER_CLUSTERS
    assert "it had none" in reasons[-1].had


def now_of(world, cluster: str):
    return broker_of(world, cluster).clock.at(world.now_s)


def test_a_machine_that_becomes_free_elsewhere_takes_what_waits():
    world = clusters("west", "east")
    for name in ("east0", "east1"):
        submit(world, name, run_s=50.0)
    run(world, 2.0)
    jobs = [submit(world, "west0", run_s=200.0) for _ in range(4)]
    run(world, 45.0)
    assert started(world, "east") == 2
    run(world, 10.0)
    assert (started(world, "west"), started(world, "east")) == (2, 4)
    run(world, 200.0)
    assert all(has_ended(world, job) for job in jobs)


@pytest.mark.parametrize("seed", range(1, 3))
def test_losses_between_brokers_cost_time_alone(seed):
    world = clusters("west", "east", "north", network=LOSSY, seed=seed)
    jobs = [submit(world, "west0", run_s=4.0, tasks=3) for _ in range(8)]
    run(world, 200.0)
    assert all(has_ended(world, job) for job in jobs)
    assert sum(started(world, name) for name in ("west", "east", "north")) == 24
    assert started(world, "east") + started(world, "north") > 0


def test_the_broker_of_the_other_cluster_dies_and_its_successor_goes_on():
    world = clusters("west", "east", machines=3)
    jobs = [submit(world, "west0", run_s=5.0) for _ in range(24)]
    run(world, 7.0)
    first = broker_of(world, "east")
    world.go_down(first)
    begun = started(world, "east")
    run(world, 25.0)
    assert broker_of(world, "east") is not first
    assert started(world, "east") > begun
    world.start_machine(first)
    run(world, 120.0)
    assert all(has_ended(world, job) for job in jobs)


def test_a_match_that_is_told_again_names_its_broker_as_the_first_did():
    world = clusters("west", "east", machines=1)
    matches: list[Match] = []
    for machine in world.machines.values():
        machine.on_send = partial(_without_matches, matches, machine.on_send)
    submit(world, "west0", run_s=100.0)
    submit(world, "west0", run_s=5.0)
    run(world, 5.0)
    assert len(matches) > 1
    assert {match.broker for match in matches} == {"east0"}


def _without_matches(matches, send, sender, each) -> None:
    if isinstance(each.message, Match):
        matches.append(each.message)
    else:
        send(sender, each)


def test_what_was_passed_on_to_a_broker_that_dies_comes_back():
    world = clusters("west", "east", machines=1)
    submit(world, "west0", run_s=30.0)
    run(world, 1.0)
    for machine in world.machines.values():
        machine.on_send = partial(_without_answers, machine.on_send)
    job = submit(world, "west0", run_s=5.0)
    run(world, 1.0)
    assert Rule.PASSED_ON in {
        each.rule
        for each in broker_of(world, "west").core.broker.explain(job, now_of(world, "west"))
    }
    world.power_off(world.machines["east0"])
    run(world, 60.0)
    assert has_ended(world, job)


def _without_answers(send, sender, each) -> None:
    if sender.plan.name != "east0":
        send(sender, each)


def test_no_herd_runs_to_the_one_cluster_with_room():
    names = [f"c{number}" for number in range(10)]
    world = clusters(*names, machines=1, c90=LARGE)
    for name in names[:9]:
        submit(world, f"{name}0", run_s=1000.0)
    run(world, 40.0)  # they have told each other
    forwards = overhear(world, Forward)
    jobs = [submit(world, f"{name}0", run_s=60.0) for name in names[:9] for _ in range(2)]
    run(world, 3.0)
    assert started(world, "c9") == 8
    assert len(forwards) <= len(jobs)  # none is passed on to where it was returned
    run(world, 300.0)
    assert all(has_ended(world, job) for job in jobs)
    assert len(forwards) <= 3 * len(jobs)


def test_each_machine_says_what_it_may_and_speaks_for_no_other_cluster():
    world = clusters("west", "east", "north", machines=2)
    said: list[Message] = []
    for machine in world.machines.values():
        machine.on_send = partial(_only_what_it_may, said, machine.on_send)
    jobs = [submit(world, "west0", run_s=5.0, tasks=4) for _ in range(4)]
    run(world, 60.0)
    assert all(has_ended(world, job) for job in jobs)
    assert {Summary, Forward, Returned, Match} <= {type(each) for each in said}


def _only_what_it_may(said, send, sender, each) -> None:
    said.append(each.message)
    assert is_authorized(sender.plan.name, each.machine, each.message)
    assert is_of_cluster(sender.plan.cluster, each.message)
    send(sender, each)


def test_rooms_that_are_all_out_of_date_cost_a_message_or_two_for_each():
    names = [f"c{number}" for number in range(10)]
    world = clusters(*names, machines=1)
    forwards = overhear(world, Forward)
    for name in names:
        submit(world, f"{name}0", tasks=3, run_s=60.0)
    run(world, 5.0)
    asked = len(forwards)
    assert asked <= 2 * 10 * 9
    run(world, 15.0)
    assert len(forwards) <= asked + 10


def test_a_task_is_passed_on_twice_at_most():
    world = clusters("west", "east", "north", "south", machines=1)
    forwards = overhear(world, Forward)
    for name in ("west0", "east0", "south0"):
        submit(world, name, run_s=20.0, tasks=6)
    run(world, 200.0)
    assert {forward.hops for forward in forwards} == set(range(1, HOPS_MAX + 1))
    assert not any(machine.core.home.jobs for machine in world.machines.values())


def test_what_starts_at_the_second_hop_is_answered_for_at_once():
    world = clusters("west", "east", "north", machines=1)
    run(world, 1.0)  # what was said of north is heard, and forgotten
    broker_of(world, "west").core.broker.federation.peers.known["north"].capacities.clear()
    heard: list[Forward] = []
    for machine in world.machines.values():
        machine.on_send = partial(_to_north_through_east, heard, machine.on_send)
    submit(world, "east0", run_s=100.0)
    submit(world, "west0", run_s=100.0, tasks=3)
    run(world, 15.0)
    assert (started(world, "west"), started(world, "east"), started(world, "north")) == (1, 1, 1)
    assert [(forward.cluster, forward.hops) for forward in heard][:2] == [("west", 1), ("east", 2)]
    assert len({forward.number for forward in heard}) == len(heard)  # none was said again


def _to_north_through_east(heard, send, sender, each) -> None:
    """West knows of east alone, and east does not say that it is busy."""
    between = (sender.plan.cluster, each.machine.rstrip("0"))
    if isinstance(each.message, Summary) and between in {("north", "west"), ("east", "west")}:
        return
    if isinstance(each.message, Forward):
        heard.append(each.message)
    send(sender, each)


def test_a_quiet_site_says_little():
    world = clusters("west", "east", "north", machines=3)
    summaries = overhear(world, Summary)
    run(world, 120.0)
    assert len(summaries) <= 3 * 2 * 5  # each 30 s to two others


@pytest.mark.parametrize("seed", [*range(1, 10), 114, 61413, 62364])
def test_whatever_breaks_in_several_clusters_the_work_is_done(seed):
    assert fails(parted(seed)) is None


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_the_work_is_done_in_several_clusters_through_a_thousand_seeds(part):
    seeds = range(1 + part * 100, 1 + (part + 1) * 100)
    found = {seed: fails(parted(seed)) for seed in seeds}
    assert {seed: message for seed, message in found.items() if message} == {}
