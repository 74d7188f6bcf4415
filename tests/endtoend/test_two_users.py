"""Two users of a cluster, and a machine that is none of it: nobody gets at what is another's."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from iriai.model.problem import ExitCode
from tests.endtoend.installation import MARK, PATH
from tests.endtoend.intruder import Intruder, ejected_one, foreign_one
from tests.endtoend.network import PORT, Network, Networked
from tests.endtoend.trespass import becoming, words_about
from tests.support.people import People
from tests.support.waiting import until

pytestmark = pytest.mark.root

SECRET = "the-secret-of-ann-5190"
SCRIPT = f'echo {SECRET}; touch begun; until [ -e go ]; do sleep 0.1; done; id -un > "$1"'
AT_THE_HOME = ("show", "logs", "cancel", "alter")
"""The others are tried there in test_isolation.py."""
LISTINGS = ("jobs", "shares", "nodes")
REFUSED_S_MAX = 10.0
"""From an ejection until every member that can be reached refuses the machine."""


@pytest.fixture(scope="module")
def network(people: People) -> Iterator[Network]:
    made = Network(people.ann)
    for name in ("ume", "take", "oni"):
        made.add(name)
    made.add("kiku", outward_only=True)
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def running(network: Network) -> Iterator[str]:
    """A job of ann's that was handed in at ume and runs on take."""
    ume = network.machines["ume"]
    with ume.client() as client:
        job = client.submit(
            ume.draft("sh", "-c", SCRIPT, SECRET, "who", name=SECRET, requirements=on("take"))
        ).id
        until((ume.work / "begun").exists, "the task on take")
        yield job
        (ume.work / "go").touch()
        [outcome] = client.wait([job])
        assert outcome.cause == "completed"
        assert client.show(job).row.name == SECRET
        assert client.show(job).attempts[0].machine == "take"
    assert (ume.work / "who").read_text() == f"{network.person.name}\n"


def on(machine: str) -> str:
    return f'Machine == "{machine}"'


def test_nobody_reads_or_touches_the_job_of_another_at_its_home_or_where_it_runs(
    network: Network, people: People, running: str
):
    of_the_home = [words for words in words_about(running) if words[0] in AT_THE_HOME]
    for name, tried in (("ume", of_the_home), ("take", words_about(running))):
        machine = network.machines[name]
        for words in tried:
            done = machine.call(*words, person=people.bob, cwd=machine.directory)
            assert done.returncode != 0, (name, words, done.stdout)
            assert SECRET not in done.stdout + done.stderr, (name, words)
        for listing in LISTINGS:
            done = machine.call(listing, "--json", person=people.bob, cwd=machine.directory)
            assert done.returncode == 0, (name, listing, done.stderr)
            assert SECRET not in done.stdout, (name, listing)
        assert files_that_tell(machine, becoming(people.bob)) == ""
    assert files_that_tell(network.machines["ume"], []), "root finds nothing: nobody could"


def files_that_tell(machine: Networked, becoming_them: list[str]) -> str:
    """Where in what a machine keeps they can read the secret: not where the job itself writes."""
    looked = subprocess.run(
        [*becoming_them, "grep", "-r", "--text", "--files-with-matches", SECRET, machine.state],
        capture_output=True,
        text=True,
        check=False,
    )
    return looked.stdout


def test_nobody_runs_anything_as_another_from_another_home(network: Network, people: People):
    """Bob at take, where ann is a user too, tries to be her on ume."""
    ann, bob, take = people.ann, people.bob, network.machines["take"]
    shared = network.machines["ume"].directory / "of-bob"
    shared.touch()
    shared.chmod(0o666)
    told = f'echo "$(id -un)" > {shared}'
    words = ("submit", "--chdir", "/tmp", "--no-check", "--requirements", on("ume"))
    words += ("--account", ann.name, "--", "sh", "-c", told)
    done = take.call(*words, person=bob, cwd=take.directory)
    assert done.returncode == ExitCode.NOT_ALLOWED, done.stdout + done.stderr
    pretends = {"PATH": PATH, MARK: str(take.directory), "USER": ann.name, "LOGNAME": ann.name}
    with take.client(bob) as client:
        where = {"cwd": "/tmp", "output": os.devnull, "requirements": on("ume")}
        job = client.submit(take.draft("sh", "-c", told, env=pretends, **where)).id
        [outcome] = client.wait([job])
        assert outcome.cause == "completed"
        assert client.show(job).row.user == bob.name
    assert shared.read_text() == f"{bob.name}\n"
    token = take.call("token", "--user", ann.name, person=bob, cwd=take.directory)
    assert token.returncode == ExitCode.NOT_ALLOWED, token.stdout + token.stderr


def test_a_certificate_of_another_authority_is_refused_by_all(network: Network, tmp_path):
    began_s = time.monotonic()
    intruder = foreign_one(tmp_path, network.machines["oni"].namespace, reachable(network))
    assert_refused_by_all(network, intruder, began_s)
    assert intruder.believed == set()
    for name in reachable(network):
        trouble = " ".join(network.machines[name].status().trouble)
        assert "certificate" in trouble, (name, trouble)
    assert network.is_whole()


def reachable(network: Network) -> dict[str, str]:
    """Where each member that accepts connections is found."""
    return {
        name: f"{machine.host}:{PORT}"
        for name, machine in network.machines.items()
        if not machine.is_outward_only and name != "oni"
    }


def assert_refused_by_all(network: Network, intruder: Intruder, began_s: float) -> None:
    refused_s = intruder.await_refusal()
    late = {name: moment_s - began_s for name, moment_s in refused_s.items()}
    assert late.keys() == reachable(network).keys()
    assert max(late.values()) <= REFUSED_S_MAX, late


def test_whoever_has_the_identity_of_an_ejected_machine_is_refused_by_all(network: Network):
    """The last of these stories: oni does not come back."""
    oni = network.machines["oni"]
    oni.leave_launcher()
    intruder = ejected_one(oni, reachable(network))
    intruder.await_belief()
    began_s = time.monotonic()
    network.machines["ume"].as_root("eject", "oni", "--reason", "stolen")
    assert_refused_by_all(network, intruder, began_s)
