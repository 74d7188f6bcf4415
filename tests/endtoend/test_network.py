"""Machines of a cluster over a network: some take no connections, and all reach all."""

import time

import pytest

from tests.endtoend.judge import Judge
from tests.endtoend.network import Network
from tests.support.waiting import until

pytestmark = pytest.mark.root

SHORT_LEASE = "lease_s = 20"
"""So that what a dead machine ran is repeated within the test."""
MARKER = "the-secret-of-kiku-7261"


@pytest.fixture
def network(person):
    made = Network(person)
    yield made
    made.stop()


def test_machines_behind_a_firewall_take_part_and_the_relay_reads_nothing(network):
    network.add("ume", cpus=1)
    kiku = network.add("kiku", outward_only=True)
    network.add("ran", outward_only=True)
    network.switch.captured["ume"] = bytearray()
    network.start()
    with kiku.client() as client:
        job = client.submit(
            kiku.draft("sh", "-c", f"echo {MARKER}; sleep 1", array=((1, 12, 1),), output="%t")
        ).id
        [outcome] = client.wait([job])
        assert outcome.cause == "completed"
        machines = {row.machine for row in client.show(job).attempts}
    assert machines == {"ume", "kiku", "ran"}
    captured = network.switch.captured["ume"]
    assert len(captured) > 10_000
    assert MARKER.encode() not in captured
    until(lambda: any(link.way == "relay" for link in kiku.status().links), "the relayed link")


@pytest.mark.soak
def test_six_machines_work_on_while_the_broker_dies_a_home_restarts_and_the_network_splits(network):
    names = ["ume", "take", "matsu", "sugi"]
    for name in names:
        network.add(name, cpus=3, jobs=SHORT_LEASE)
    for name in ("kiku", "ran"):
        network.add(name, outward_only=True, cpus=3, jobs=SHORT_LEASE)
    network.start()
    network.switch.delay_s, network.switch.loss = 0.05, 0.01
    homes = {name: network.machines[name] for name in ("take", "kiku")}
    judges = {name: Judge(home) for name, home in homes.items()}
    jobs = {name: _submit(home, judges[name], 40) for name, home in homes.items()}
    until(lambda: all(judge.begun() >= 4 for judge in judges.values()), "work to begin")

    broker = until(network.machines["take"].follows, "a broker")
    network.machines[broker].kill("daemon")
    begun = _begun(judges)
    until(lambda: _begun(judges) >= begun + 8, "work to go on without the broker")

    broker = until(network.machines["kiku"].follows, "a broker again")
    with network.machines[broker].stopped():
        others = [each for name, each in network.machines.items() if name != broker]
        until(lambda: all(other.follows() not in ("", broker) for other in others), "another one")
    homes["kiku"].kill("daemon")  # it is started again by its supervisor
    begun = judges["take"].begun()
    until(lambda: judges["take"].begun() >= min(40, begun + 2), "the other home's work to go on")

    network.switch.separate(
        ["sugi", "matsu"], [name for name in network.machines if name not in ("sugi", "matsu")]
    )
    time.sleep(10.0)  # longer than a link stays silent, and than a broker may
    network.switch.heal()

    for name, home in homes.items():
        until(home.answers, f"{name} to answer")
        with home.client() as client:
            client.wait([jobs[name]])
            judges[name].decide(client, [jobs[name]])
    until(network.is_whole, "all to see all again")


def test_an_ejected_machine_is_refused_by_all(network):
    ume, take, _ = (network.add(name, cpus=1) for name in ("ume", "take", "oni"))
    network.start()
    ume.as_root("eject", "oni", "--reason", "stolen")
    until(
        lambda: all("oni" not in _linked(each) for each in (ume, take)), "all links with it to end"
    )
    until(
        lambda: all("stolen" in " ".join(each.status().trouble) for each in (ume, take)),
        "its connections to be refused",
    )
    assert "take" in ume.sees()


def _linked(machine) -> list[str]:
    return [link.machine for link in machine.status().links if link.is_up]


def _submit(home, judge, tasks: int) -> str:
    with home.client() as client:
        return client.submit(home.draft(*judge.command(1.0), array=((1, tasks, 1),))).id


def _begun(judges: dict[str, Judge]) -> int:
    return sum(judge.begun() for judge in judges.values())
