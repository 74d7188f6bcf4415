"""Whoever is killed or stopped, every task ends, and none runs twice unless it was lost.

IRIAI_SEED repeats the moments of an earlier run, IRIAI_KILLS makes the long loops shorter.
"""

import os

import pytest

from tests.endtoend.cluster import Cluster
from tests.endtoend.cluster_crashes import VICTIMS, ClusterCrashLoop

CRASHES = int(os.environ.get("IRIAI_KILLS") or 50)
QUEUED = 200


@pytest.fixture
def cluster(person):
    made = Cluster(person)
    yield made
    made.stop()


def test_every_task_ends_once_whoever_is_hurt(cluster, seed, record_property):
    loop = ClusterCrashLoop(cluster, seed, sleep_s=1)
    loop.load(300)
    for victim in VICTIMS:
        loop.crash(victim)
    record_property("counted", loop.finish())


@pytest.mark.soak
@pytest.mark.parametrize("victim", VICTIMS)
def test_every_task_ends_once_through_many_crashes(cluster, seed, record_property, victim):
    loop = ClusterCrashLoop(cluster, seed, sleep_s=1)
    loop.load(QUEUED)
    for _ in range(CRASHES):
        loop.crash(victim, queued=QUEUED)
    counted = loop.finish()
    record_property("counted", counted)
    if VICTIMS[victim].part == "daemon":
        # Tasks belong to the launcher, and their leases are long.
        assert counted["lost"] == 0
        assert counted["began"] == counted["tasks"]
