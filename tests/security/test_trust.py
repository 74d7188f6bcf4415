"""T8c, T8d: a machine runs tasks of whom its cluster trusts their home with, or who consented.

Machine oni was taken over: the tests are root there, and hand in as whomever they like.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from iriai.client import Client
from iriai.identity.cluster_state import ClusterState
from iriai.identity.documents.operator_key import Operator
from iriai.identity.documents.signed_document import DocumentKind, sign_document
from iriai.identity.enrolment.bootstrap import found_cluster
from iriai.identity.storage.cluster_files import TRUST_FILE
from iriai.identity.trust.trusted_home import trust_body
from iriai.model.admission_rules import ALL, OTHERS
from iriai.model.paths import StatePaths
from iriai.model.problem import Problem
from tests.endtoend.network import Network, Networked
from tests.support.people import TestPerson
from tests.support.waiting import until

pytestmark = pytest.mark.root

ON_TAKE = 'Machine == "take"'
TRUST = DocumentKind.TRUST


@pytest.fixture(scope="module")
def network(people):
    made = Network(people.ann, trusts_all=False)
    for name in ("ume", "take", "oni"):
        made.add(name, cpus=2)
    try:
        yield made.start()
    finally:
        made.stop()


def hand_in(machine: Networked, person: TestPerson, on: str = ON_TAKE) -> str:
    """A job of `person`, handed in at `machine`, that needs another one."""
    with machine.client(person) as client:
        fields = {"cwd": "/tmp", "output": os.devnull, "requirements": on}
        fields |= {"wait_for_resources": True}
        return client.submit(machine.draft("true", **fields)).id


def runs(machine: Networked, person: TestPerson, on: str = ON_TAKE) -> str:
    """Hand a job in and wait for its end; on which machine it ran."""
    job = hand_in(machine, person, on)
    with machine.client(person) as client:
        [outcome] = client.wait([job])
        assert outcome.cause == "completed", outcome
        [attempt] = client.show(job).attempts
    return attempt.machine


def refused(machine: Networked, person: TestPerson) -> str:
    """Hand a job in that take does not run; what it said."""
    job = hand_in(machine, person)
    with machine.client(person) as client:

        def words() -> str:
            rows = client.why(job).reasons
            return "".join(r.had for r in rows if r.rule == "user-not-allowed")

        said = until(words, "why the job is not run on take")
        client.cancel([job])
    return said


def command(machine: Networked, person: TestPerson, *words: str) -> dict:
    """What `iriai WORDS --json` prints as `person` on a machine."""
    said = machine.call(*words, "--json", person=person)
    assert said.returncode == 0, said.stdout + said.stderr
    return json.loads(said.stdout)


def test_nobody_runs_elsewhere_whom_nobody_trusted_their_home_with(network, people):
    """T8c: refused, with the commands that would change it; why names machine, home and user."""
    take, oni = network.machines["take"], network.machines["oni"]
    for person in (people.ann, people.bob):
        words = refused(oni, person)
        assert f"home oni is not trusted with {person.name}" in words
        assert f"'iriai trust oni --users {person.name}'" in words
        assert f"{person.name} can run 'iriai consent oni' on take" in words
    assert runs(oni, people.ann, 'Machine == "oni"') == "oni"
    assert runs(network.machines["ume"], people.ann) == "take"
    shown = json.loads(take.as_root("trust", "--json"))["trusted"]
    assert {row["home"]: row["users"] for row in shown} == {OTHERS: [], "ume": [ALL]}


def test_who_consents_where_their_tasks_run_is_run_there_and_nobody_else(network, people):
    """T8c: consent is given once, at the machine that runs the tasks; it can be taken back."""
    take, oni = network.machines["take"], network.machines["oni"]
    refused(oni, people.ann)
    [row] = command(take, people.ann, "consent", "oni")["rows"]
    assert (row["user"], row["home"]) == (people.ann.name, "oni")
    try:
        assert runs(oni, people.ann) == "take"
        assert people.bob.name in refused(oni, people.bob)
        assert command(take, people.bob, "consent", "--list")["rows"] == []
    finally:
        command(take, people.ann, "consent", "--withdraw", "oni")
    assert "home oni is not trusted" in refused(oni, people.ann)


def test_a_consent_ends_and_outlives_the_daemon_until_then(network, people):
    take, oni = network.machines["take"], network.machines["oni"]
    command(take, people.ann, "consent", "oni")
    take.kill("daemon")
    until(take.runs_tasks, "take to come back")
    assert runs(oni, people.ann) == "take"
    command(take, people.ann, "consent", "oni", "--for", "1s")
    until(lambda: not command(take, people.ann, "consent", "--list")["rows"], "its end")
    assert "home oni is not trusted" in refused(oni, people.ann)


def test_a_home_cannot_consent_in_anybodys_name(network, people, tmp_path):
    """T8c: not with its own key, an authority of its own, or a user's token that it found."""
    take, oni = network.machines["take"], network.machines["oni"]
    body = trust_body("oni", (ALL,), time.time())
    held = ClusterState(oni.paths.cluster)
    cluster = held.identity.cluster
    stranger = StatePaths(str(tmp_path / "stranger"))
    tmp_path.joinpath("stranger").mkdir()
    found_cluster(stranger, cluster=cluster, machine="oni", operator="root", now_wall_s=time.time())
    foreign = Operator.load(stranger.operator, lambda: "")
    forged = [
        sign_document(TRUST, body, held.identity._key, held.identity.certificate),
        sign_document(TRUST, body, foreign.key.signing, held.identity.certificate),
        foreign.sign(TRUST, body),
    ]
    for machine in (oni, take):
        with Client.connect(machine.state) as client:
            for document in forged:
                with pytest.raises(Problem):
                    client.publish(TRUST, document)
    token = command(take, people.ann, "token", "--user", "-")["text"]
    asked = {"person": people.ann, "IRIAI_STATE": "", "IRIAI_TOKEN": token}
    there = oni.call("status", "--json", **asked)
    assert json.loads(there.stdout)["home"] == "take", "the token is good"
    said = oni.call("consent", "oni", "--json", **asked)
    assert said.returncode != 0, said.stdout
    assert "home oni is not trusted" in refused(oni, people.ann)


def test_an_operator_trusts_a_home_with_some_and_takes_it_back(network, people):
    """T8c: what an operator says holds everywhere, without a new start of any daemon."""
    ume, take, oni = (network.machines[name] for name in ("ume", "take", "oni"))
    daemons = {machine: machine.pid("daemon") for machine in (ume, take, oni)}
    ume.as_root("trust", "oni", "--users", people.bob.name)
    try:
        until(lambda: "oni" in _trusted(take), "take to hear of it")
        assert runs(oni, people.bob) == "take"
        assert people.ann.name in refused(oni, people.ann)
        shown = json.loads(take.as_root("config", "show", "--json"))["settings"]
        assert [row["value"] for row in shown if row["key"] == "trust.oni"] == [people.bob.name]
    finally:
        ume.as_root("trust", "oni", "--users", "none")
    until(lambda: _trusted(take)["oni"] == [], "take to hear of it")
    assert "home oni is not trusted" in refused(oni, people.bob)
    assert {machine: machine.pid("daemon") for machine in daemons} == daemons


def _trusted(machine: Networked) -> dict[str, list[str]]:
    rows = json.loads(machine.as_root("trust", "--json"))["trusted"]
    return {row["home"]: row["users"] for row in rows}


# --- clusters that were there before --------------------------------------------------------------


class Older(Network):
    """A cluster that was made before there was trust."""

    def token(self, machine: Networked) -> str:
        made = super().token(machine)
        until(machine.answers, "the first machine, which began anew")
        Path(machine.paths.cluster, TRUST_FILE).unlink()
        machine.kill("daemon")
        until(machine.runs_tasks, "the first machine, of an older cluster now")
        return made


@pytest.fixture(scope="module")
def older(people):
    made = Older(people.ann, trusts_all=False)
    for name in ("kaki", "nashi"):
        made.add(name, cpus=2)
    try:
        yield made.start()
    finally:
        made.stop()


def test_an_older_cluster_keeps_its_rule_and_doctor_says_how_to_change_it(older, people):
    """T8c: until an operator says otherwise, of all homes that are not named."""
    kaki, nashi = older.machines["kaki"], older.machines["nashi"]
    assert _trusted(nashi) == {}
    assert runs(nashi, people.ann, 'Machine == "kaki"') == "kaki"
    found = [row for row in _findings(kaki) if row["subject"] == "trust"]
    assert [row["level"] for row in found] == ["note"]
    assert "iriai trust '*' --users none" in found[0]["hint"]
    kaki.as_root("trust", "*", "--users", "none")
    until(lambda: _trusted(nashi) == {OTHERS: []}, "nashi to hear of it")
    with nashi.client(people.ann) as client:
        fields = {"cwd": "/tmp", "output": os.devnull, "requirements": 'Machine == "kaki"'}
        job = client.submit(nashi.draft("true", **fields)).id
        until(lambda: "home nashi is not trusted" in str(client.why(job).reasons), "the refusal")
        client.cancel([job])
    [after] = [row for row in _findings(kaki) if row["subject"] == "trust"]
    assert after["level"] == "ok"


def _findings(machine: Networked) -> list[dict]:
    return json.loads(machine.call("doctor", "--json").stdout)["findings"]
