"""Six machines, of which oni was taken over: what it can do is what docs/spec/010, section 5 says.

The tests are root there: they hand in as whomever they like, and hold its keys.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from iriai.client import Client
from iriai.identity.cluster_state import ClusterState
from iriai.identity.documents.cluster_document import document_body
from iriai.identity.documents.revocation import Ejection
from iriai.identity.documents.signed_document import DocumentKind, sign_document
from iriai.identity.trust.trusted_home import trust_body
from iriai.model.admission_rules import ALL, OTHERS
from iriai.model.problem import Problem
from tests.endtoend.network import Network, Networked
from tests.support.people import TestPerson
from tests.support.waiting import until

pytestmark = pytest.mark.root

HONEST = ("ume", "take", "matsu", "kiri", "sugi")
ROOT = TestPerson("root", 0, 0, ())
OF_A_SERVICE = TestPerson("daemon", 1, 1, ())
SECRET = "the-word-of-ann"


@pytest.fixture(scope="module")
def network(people):
    made = Network(people.ann, trusts_all=False)
    for name in HONEST:
        made.add(name, cpus=1)
    made.add("oni", cpus=1, more="[identity]\nminimum_uid = 0\n")
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def shared():
    """Where everybody may write."""
    with TemporaryDirectory(dir="/var/tmp") as directory:
        Path(directory).chmod(0o777)
        yield Path(directory)


def hand_in(machine: Networked, person: TestPerson, on: str, *command: str, **fields) -> str:
    """A job of `person`, handed in at `machine`, for a machine where `on` holds."""
    fields = {"cwd": "/tmp", "output": os.devnull, "wait_for_resources": True} | fields
    with machine.client(person) as client:
        return client.submit(machine.draft(*command, requirements=on, **fields)).id


def why_not(machine: Networked, person: TestPerson, where: str) -> str:
    """Hand in a job that only `where` could run, which does not; what it said."""
    job = hand_in(machine, person, f'Machine == "{where}"', "true")
    with machine.client(person) as client:

        def words() -> str:
            rows = client.why(job).reasons
            return "".join(r.had for r in rows if r.rule == "user-not-allowed")

        said = until(words, f"why the job is not run on {where}")
        client.cancel([job])
    return said


def say(network: Network, *users: str) -> None:
    """An operator says for whom oni speaks; all have heard of it."""
    network.machines["ume"].as_root("trust", "oni", "--users", *users)

    def heard(name: str) -> bool:
        rows = json.loads(network.machines[name].as_root("trust", "--json"))["trusted"]
        known = {row["home"]: ",".join(row["users"]) or "none" for row in rows}
        return known.get("oni") == users[0]

    until(lambda: all(map(heard, HONEST)), "all to hear of it")


def test_as_a_home_it_runs_nothing_elsewhere_while_nobody_trusts_it(network, people):
    """T8c: neither as a user, nor as root, on any of the others."""
    oni = network.machines["oni"]
    for name in HONEST:
        assert f"home oni is not trusted with {people.ann.name}" in why_not(oni, people.ann, name)
        assert "runs as root" in why_not(oni, ROOT, name)


def test_as_a_home_that_is_trusted_it_is_those_users_and_nobody_else(network, people, shared):
    """T8c: as bob everywhere, once it is trusted with bob; as ann, root and services nowhere."""
    oni, take = network.machines["oni"], network.machines["take"]
    say(network, people.bob.name)
    try:
        who = shared / "who"
        job = hand_in(oni, people.bob, 'Machine == "take"', "id", "-u", output=str(who))
        with oni.client(people.bob) as client:
            [outcome] = client.wait([job])
            [attempt] = client.show(job).attempts
        assert (outcome.cause, attempt.machine) == ("completed", "take")
        assert int(who.read_text()) == people.bob.uid
        assert "home oni is not trusted" in why_not(oni, people.ann, "take")
        say(network, ALL)
        assert "runs as root" in why_not(oni, ROOT, "take")
        assert "below 1000" in why_not(oni, OF_A_SERVICE, "take")
    finally:
        say(network, "none")
    assert take.answers()


def test_as_a_node_it_reads_what_it_is_given_and_is_given_no_more(network, people):
    """T8d: the environment of a task that it runs; none of those whose owners kept away."""
    ume = network.machines["ume"]
    away = hand_in(ume, people.ann, 'Machine != "oni"', "sleep", "0.5", array=((1, 12, 1),))
    env = {"PATH": os.environ["PATH"], "WORD": SECRET}
    given = hand_in(ume, people.ann, 'Machine == "oni"', "sleep", "100", env=env)
    until(lambda: _environments_with(SECRET), "what runs on oni, as its root reads it")
    with ume.client(people.ann) as client:
        assert [each.machine for each in client.show(given).attempts] == ["oni"]
        client.cancel([given])
        [outcome] = client.wait([away])
        assert outcome.cause == "completed"
        where = {each.machine for each in client.show(away).attempts}
    assert where
    assert "oni" not in where


def _environments_with(word: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"WORD={word}".encode() in path.read_bytes():
                found.append(str(path))
        except OSError:  # it has ended
            continue
    return found


def test_as_a_member_it_says_nothing_for_operators_or_issuers(network, people):
    """T8c: what it signs is no document; it lets nobody in, throws nobody out, drains nobody."""
    take, oni = network.machines["take"], network.machines["oni"]
    held = ClusterState(oni.paths.cluster)
    key, certificate = held.identity._key, held.identity.certificate
    bodies = {
        DocumentKind.TRUST: trust_body(OTHERS, (ALL,), time.time()),
        DocumentKind.CONFIGURATION: document_body(99, time.time(), "[groups.oni]\nright = 9\n"),
        DocumentKind.EJECTION: msgspec.msgpack.encode(Ejection("take", time.time(), "")),
        DocumentKind.ROSTER: b"",
    }
    for machine in (oni, take):
        with Client.connect(machine.state) as client:
            for kind, body in bodies.items():
                with pytest.raises(Problem):
                    client.publish(kind, sign_document(kind, body, key, certificate))
    for words, code in (
        (("token", "--machine", "new"), "not-an-issuer"),
        (("trust", "oni", "--users", "all"), "no-operator"),
        (("eject", "take"), "no-operator"),
        (("drain", "take", "--reason", "oni says so"), "not-its-front-end"),
    ):
        assert refused(oni, *words) == code
    shown = json.loads(take.as_root("cluster", "show", "--json"))
    assert (shown["document_number"], shown["ejected"]) == (0, [])


def test_as_a_member_it_neither_sees_nor_ends_jobs_of_other_homes(network, people):
    ume, oni = network.machines["ume"], network.machines["oni"]
    job = hand_in(ume, people.ann, 'Machine == "ume"', "sleep", "100")
    for words in (("show", job), ("cancel", job), ("logs", job)):
        assert refused(oni, *words) in ("no-such-job", "other-home"), words
    with ume.client(people.ann) as client:
        until(lambda: client.show(job).row.state == "running", "the job to run on")
        client.cancel([job])


def refused(machine: Networked, *words: str) -> str:
    """The code with which `iriai WORDS` is refused to root of a machine."""
    said = machine.call(*words, "--json", person=ROOT)
    assert said.returncode != 0, said.stdout
    return json.loads(said.stdout)["error"]["code"]
