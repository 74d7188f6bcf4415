"""Two clusters of one site, as real daemons: each has a broker, and one helps the other out."""

from __future__ import annotations

import pytest

from iriai.protocol.messages.candidates import BrokerCandidate, ranked
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


def test_a_task_runs_on_a_machine_of_another_cluster_that_is_none_of_its_gateways(network):
    network.add("ume", cpus=1, cluster="west")
    names = ("kiku", "ran", "matsu", "sugi")
    *first, last = ranked("east", map(BrokerCandidate, names))
    for name in first:
        network.add(name, cpus=1, cluster="east")
    home = network.start().machines["ume"]
    hidden = network.add(last, cpus=1, cluster="east")
    hidden.join_with(network.token(home))
    hidden.begin()
    until(lambda: set(hidden.sees()) == {"ume", *first}, "all of the own cluster, and the other")

    judge = Judge(home)
    with home.client() as client:
        job = client.submit(home.draft(*judge.command(0.5), array=((1, TASKS, 1),))).id
    until(lambda: _ran_on(home, job, last), "work on the machine that is not known")
    assert set(home.sees()) == set(first)
    with home.client() as client:
        client.wait([job])
        judge.decide(client, [job])
