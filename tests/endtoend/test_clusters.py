"""Two clusters of one site, as real daemons: each has a broker, and one helps the other out."""

from __future__ import annotations

import pytest

from tests.endtoend.installation import STOP_WAIT_S
from tests.endtoend.judge import Judge
from tests.endtoend.network import Network, Networked
from tests.support.waiting import until

pytestmark = pytest.mark.root

TASKS = 160
"""Of half a second: more than one cluster does before the other one has been told, however late."""


@pytest.fixture
def network(person):
    made = Network(person)
    yield made
    made.stop()


def test_what_fills_one_cluster_runs_in_the_other_whatever_becomes_of_its_broker(network):
    for name in ("ume", "take"):
        network.add(name, cpus=1, cluster="west")
    east = {name: network.add(name, cpus=1, cluster="east") for name in ("kiku", "ran")}
    network.start()
    home = network.machines["ume"]
    assert {row.name for row in home.status().members if row.cluster_name == "east"} == set(east)
    assert until(home.follows, "a broker") not in east

    judge = Judge(home)
    with home.client() as client:
        job = client.submit(home.draft(*judge.command(0.5), array=((1, TASKS, 1),))).id
    until(lambda: all(_ran_on(home, job, name) for name in network.machines), "work everywhere")

    broker = east.pop(until(east["kiku"].follows, "a broker there"))
    broker.kill("supervisor")
    broker.supervisor.wait(STOP_WAIT_S)
    broker.kill("daemon")
    [other] = east.values()
    until(lambda: other.follows() == other.name, "the other one to be broker")
    with home.client() as client:
        later = client.submit(home.draft("sleep", "1", array=((1, 200, 1),))).id
    until(lambda: _ran_on(home, later, other.name), "work to be passed on to it")
    broker.begin()
    with home.client() as client:
        client.cancel([later])
        client.wait([job])
        judge.decide(client, [job])
    until(network.is_whole, "all to be as before")


def _ran_on(home: Networked, job: str, machine: str) -> int:
    with home.client() as client:
        return sum(row.machine == machine for row in client.show(job).attempts)
