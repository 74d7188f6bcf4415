"""A copy of a machine's state directory that is started elsewhere, while the machine runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from iriai.identity.certificates.host_binding import DWELLING_FILE
from tests.endtoend.network import Network, Networked
from tests.support.waiting import until

pytestmark = pytest.mark.root

HOME, OTHER, ORIGINAL, COPY = "ume", "kiku", "take", "twin"


@pytest.fixture(scope="module")
def network(person):
    made = Network(person)
    try:
        for name in (HOME, OTHER, ORIGINAL):
            made.add(name)
        yield made.start()
    finally:
        made.stop()


def test_a_copy_is_refused_and_where_it_cannot_know_both_are_reported_and_work_goes_on(network):
    home, original = network.machines[HOME], network.machines[ORIGINAL]
    copy = _copied(network, original)
    _is_refused(copy, original)
    Path(copy.paths.cluster, DWELLING_FILE).unlink()  # so that it takes this for its first use
    copy.begin()
    until(copy.answers, "the copy to come up")
    reported = {
        home: "take: two machines, or two copies of one state directory, publish under this name",
        original: "take: another machine publishes under our name: a copy of our state directory",
    }
    for machine, words in reported.items():
        until(lambda m=machine, w=words: w in _troubles(m), f"{machine.name} to say '{words}'")
    with home.client() as client:
        wants = f'Machine == "{OTHER}"'
        task = home.draft("true", output=os.devnull, requirements=wants)
        job = client.submit(task).id
        assert client.wait([job])[0].cause == "completed"
        assert [row.machine for row in client.show(job).attempts] == [OTHER]


def _copied(network: Network, original: Networked) -> Networked:
    """A machine with the state directory of another, which was ended for it and runs again."""
    copy = network.add(COPY)
    own = Path(copy.paths.configuration).read_text()
    original.stop_processes()
    subprocess.run(["cp", "-a", f"{original.state}/.", copy.state], check=True, timeout=60)
    copy.configure(own)
    copy.options = original.options
    original.start()
    return copy


def _is_refused(copy: Networked, original: Networked) -> None:
    copy.begin()
    supervisor = copy.supervisor
    assert supervisor is not None
    assert supervisor.wait(60) != 0
    words = f"{copy.paths.cluster} is a copy: this identity was used in {original.paths.cluster}"
    assert words in copy.words()


def _troubles(machine: Networked) -> str:
    report = machine.status()
    return "\n".join(report.trouble) if report else ""
