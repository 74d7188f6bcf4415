"""A cluster where some machines have the extra `classads`, and some have not (ADR 0097)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.client import Client
from iriai.model.problem import Refused
from tests.endtoend.network import Network
from tests.endtoend.test_extras import INSTALL_CLASSADS
from tests.support.environments import closure, make_environment, needed_by_iriai
from tests.support.people import TestPerson
from tests.support.trusted_place import trusted_place
from tests.support.waiting import until

pytestmark = pytest.mark.root

ON_BARE = 'Machine == "bare"'


@pytest.fixture
def network(person: TestPerson) -> Iterator[Network]:
    """`bare` has no extra, and is the broker; the owner of `full` requires something."""
    made = Network(person)
    with trusted_place() as place:
        python = make_environment(place / "bare", closure(needed_by_iriai()))
        made.add("bare", broker="bare").program = str(python.with_name("iriai"))
        full = made.add("full", broker="bare")
        text = Path(full.paths.configuration).read_text()
        owner = "[machine]\nrequirements = 'TARGET.RequestCpus < 3'"
        full.configure(text.replace("[machine]", owner))
        try:
            yield made.start()
        finally:
            made.stop()


def follow(network: Network, broker: str) -> None:
    """Make another machine the broker of all."""
    for machine in network.machines.values():
        text = Path(machine.paths.configuration).read_text()
        machine.configure(text.replace('broker = "bare"', f'broker = "{broker}"'))
        machine.kill("daemon")
    until(lambda: all(m.follows() == broker for m in network.machines.values()), "the new broker")


def machine_of(client: Client, job: str) -> str:
    """Where a job runs, once it does."""
    [file] = until(lambda: client.logs(job), f"the start of {job}")
    return file.machine or client.welcome.home


def test_who_lacks_the_extra_takes_part_and_says_what_it_cannot_do(network: Network):
    bare, full = network.machines["bare"], network.machines["full"]
    with bare.client() as client, pytest.raises(Refused, match="--requirements needs classad2"):
        client.submit(bare.draft("true", requirements=ON_BARE))
    with full.client() as client:
        with pytest.raises(
            Refused, match="the broker cannot read requirements: classad2"
        ) as caught:
            client.submit(full.draft("true", requirements=ON_BARE))
        assert caught.value.code == "extra-missing"
        assert INSTALL_CLASSADS in str(caught.value)
        picky = full.draft("true", requirements=ON_BARE, wait_for_resources=True)
        waiting = client.submit(picky).id
        ranked = client.submit(full.draft("sleep", "600", cpus=2, rank="Memory")).id
        assert machine_of(client, ranked) == "bare"
        plain = client.submit(full.draft("sleep", "600", cpus=2)).id
        said = str(until(lambda: client.why(plain).reasons, "its reasons"))
        assert "a broker that can read the owner's requirements" in said
        assert "a broker that can read requirements" in str(client.why(waiting).reasons)
    follow(network, "full")
    with full.client() as client:
        assert machine_of(client, plain) == "full"
        client.cancel([ranked])
        [outcome] = client.wait([waiting])
        assert outcome.cause == "completed"
        [attempt] = client.show(waiting).attempts
        assert attempt.machine == "bare"
        client.cancel([plain])
        client.wait([plain, ranked])
