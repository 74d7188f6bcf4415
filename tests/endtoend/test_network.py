"""Machines of a cluster over a network: some take no connections, and all reach all."""

import pytest

from tests.endtoend.network import Network
from tests.support.waiting import until

pytestmark = pytest.mark.root

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
