"""Whoever is killed, a parallel task runs whole or not at all, and one attempt at a time.

IRIAI_SEED repeats the moments of an earlier run, IRIAI_KILLS makes the long loop shorter.
"""

import os
import time
from random import Random

import pytest

from tests.endtoend.cluster import Cluster
from tests.endtoend.rank_judge import RankJudge
from tests.support.waiting import is_gone, until

KILLS = int(os.environ.get("IRIAI_KILLS") or 50)
BACK_ENDS = ("b1", "b2", "b3", "b4")
CPUS = 4
RANKS = "10"
"""More than two machines have cpus, so that each task has seats on three."""
PAUSE_S_MAX = 0.8
ENDS_WITHIN_S = 10.0
VICTIMS = (("front", "daemon"), ("back", "daemon"), ("back", "launcher"))


@pytest.fixture
def cluster(person):
    made = Cluster(person)
    for name in BACK_ENDS:
        made.add(name, cpus=CPUS)
    yield made.begin()
    made.stop()


@pytest.mark.parametrize("kills", [6, pytest.param(KILLS, marks=pytest.mark.soak)])
def test_every_task_runs_whole_and_once_whoever_is_killed(cluster, seed, kills, record_property):
    random, judge, jobs = Random(seed), RankJudge(cluster.front), []
    for number in range(kills):
        until(cluster.is_whole, "the return of all")
        jobs.append(submit(cluster, judge, 0.1, tasks=6))
        time.sleep(random.uniform(0.0, PAUSE_S_MAX))
        machine, part = VICTIMS[number % len(VICTIMS)]
        cluster.machine(random.choice(BACK_ENDS) if machine == "back" else "front").kill(part)
    until(cluster.is_whole, "the return of all")
    with cluster.front.client() as client:
        client.wait(jobs)
        record_property("counted", judge.decide(client, jobs))


def test_when_a_launcher_dies_the_other_seats_end_and_all_begins_again(cluster):
    judge = RankJudge(cluster.front)
    job = submit(cluster, judge, 600)
    until(lambda: len(judge.begun()) == 10, "all ranks")
    first = judge.begun()
    cluster.machine(_machine_of_a_seat(cluster, job)).kill("launcher")
    killed_s = time.monotonic()
    until(lambda: all(is_gone(line.pid) for line in first), "the end of the other seats")
    assert time.monotonic() - killed_s < ENDS_WITHIN_S
    until(lambda: len(judge.begun()) == 20, "all ranks of the next attempt")
    assert {line.attempt for line in judge.begun()[10:]} == {2}
    cancel(cluster, job)


def test_when_daemons_die_the_ranks_go_on(cluster):
    judge = RankJudge(cluster.front)
    job = submit(cluster, judge, 6)
    until(lambda: len(judge.begun()) == 10, "all ranks")
    for name in ("front", *BACK_ENDS):
        cluster.machine(name).kill("daemon")
    until(cluster.is_whole, "the return of all")
    with cluster.front.client() as client:
        client.wait([job])
        assert judge.decide(client, [job]) == {"tasks": 1, "attempts": 1, "lost": 0}


def test_with_its_home_and_a_launcher_gone_the_rest_ends_by_its_lease(cluster):
    judge = RankJudge(cluster.front)
    job = submit(cluster, judge, 600, lease_s=3.0)
    until(lambda: len(judge.begun()) == 10, "all ranks")
    victim = cluster.machine(_machine_of_a_seat(cluster, job))
    with cluster.stopped("front", "daemon"):
        victim.kill("launcher")
        until(lambda: all(is_gone(line.pid) for line in judge.begun()), "the end of all ranks")
    cancel(cluster, job)


def submit(cluster: Cluster, judge: RankJudge, sleep_s: float, tasks: int = 1, **fields) -> str:
    draft = cluster.front.draft(
        *judge.command(sleep_s),
        ranks=RANKS,
        array=((1, tasks, 1),),
        output=os.devnull,
        **fields,
    )
    with cluster.front.client() as client:
        return client.submit(draft).id


def cancel(cluster: Cluster, job: str) -> None:
    until(cluster.is_whole, "the return of all")
    with cluster.front.client() as client:
        client.cancel([job])
        client.wait([job])


def _machine_of_a_seat(cluster: Cluster, job: str) -> str:
    rows = cluster.nodes()
    return next(name for name in reversed(BACK_ENDS) if rows[name].tasks)
