"""What only the broker knows, asked at machines that are not it."""

import json
import os
import re

import pytest

from iriai.model.problem import Problem
from iriai.wire.machines import AskMatch
from tests.endtoend.network import Network
from tests.support.waiting import until

pytestmark = pytest.mark.root

SHOWN = ("cluster", "broker", "news", "traffic", "claims", "clocks", "members")
FIND_WAIT_S = 180.0
"""Two daemons start meanwhile, on whatever else the machine does."""
LIKED = "\n[machine.attributes]\nHasMatlab = true\nSite = 2"


@pytest.fixture(scope="module")
def cluster(person):
    """Three machines, of which one has what the others lack; ume is their head."""
    network = Network(person)
    network.add("ume", broker="ume")
    network.add("kiku", broker="ume")
    network.add("ran", broker="ume", cpus=3, jobs=LIKED)
    network.start()
    until(lambda: _reported(network) == {"ume", "kiku", "ran"}, "the broker to hear of all")
    yield network
    network.stop()


def test_every_machine_shows_the_same_and_refuses_what_none_can_run(cluster):
    for name, machine in cluster.machines.items():
        rows = {row["name"]: row for row in _json(machine, "nodes")["rows"]}
        assert {name: row["cpus"] for name, row in rows.items()} == {"ume": 2, "kiku": 2, "ran": 3}
        assert {row["member"] for row in rows.values()} == {"alive"}
        assert [row["name"] for row in rows.values() if row["is_broker"]] == ["ume"]
        assert rows[name]["link"] == "here"
        assert {row["name"] for row in _json(machine, "ads")["rows"]} == set(cluster.machines)
        [alike] = _json(machine, "pools")["rows"]
        assert (alike["machines"], alike["available"]) == (["kiku", "ran", "ume"], 3)
        assert (alike["cpus"], alike["speed"]) == (7, 7.0)
        matches = _json(machine, "match", "HasMatlab")["rows"]
        assert [row["machine"] for row in matches if row["matches"]] == ["ran"]
        with machine.client() as client:
            for asked, clause in (
                ({"requirements": "Cpus > 3"}, "the job requires Cpus > 3, and Cpus is "),
                ({"cpus": 4}, "no machine has 4 cpus: "),
            ):
                with pytest.raises(Problem) as caught:
                    client.submit(machine.draft("true", **asked))
                assert clause in caught.value.message
            waits_for = client.dry_run(machine.draft("true", requirements="Cpus > 2")).waits_for
            assert waits_for == ()
            sight = client.status().cluster
        assert (sight.members["alive"], sight.brokers) == (3, ("ume",))
        assert sight.sent_bytes_per_s >= 0.0
    said = cluster.machines["kiku"].call("status").stdout
    assert all(re.search(rf"^{word} ", said, re.MULTILINE) for word in SHOWN), said


def test_rank_is_obeyed_and_an_altered_requirement_asked_again_from_elsewhere(cluster):
    home = cluster.machines["kiku"]
    with home.client() as client:
        draft = home.draft("true", output=os.devnull, rank="Site", array=((1, 3, 1),))
        job = client.submit(draft).id
        client.wait([job])
        assert {row.machine for row in client.show(job).attempts} == {"ran"}
        waits = client.submit(home.draft("true", output=os.devnull, requirements="LoadAvg < -1")).id
        until(
            lambda: "LoadAvg < -1" in [each.needed for each in client.why(waits).reasons],
            "the broker's reason",
        )
        wrong = home.call("alter", waits, "--requirements", "Cpus > 3")
        assert wrong.returncode == 3
        assert "the job requires Cpus > 3, and Cpus is" in wrong.stderr
        said = home.call("alter", waits, "--requirements", "HasMatlab", "--rank", "Mips").stdout
        assert "requirements LoadAvg < -1 -> HasMatlab" in said
        [outcome] = client.wait([waits])
        assert outcome.cause == "completed"
        assert {row.machine for row in client.show(waits).attempts} == {"ran"}


def test_without_a_broker_a_machine_says_what_it_knows_and_takes_jobs(cluster):
    kiku = cluster.machines["kiku"]
    with cluster.machines["ume"].stopped(), kiku.client() as client:
        silent = "the broker ume did not answer within 3 s"
        table = _json(kiku, "nodes")
        assert silent in table["note"]
        assert {row["name"] for row in table["rows"]} == set(cluster.machines)
        assert {row["name"] for row in table["rows"] if row["cpus"]} == {"kiku"}
        assert silent in _json(kiku, "shares")["note"]
        assert [row["name"] for row in _json(kiku, "ads")["rows"]] == ["kiku"]
        [own] = _json(kiku, "pools")["rows"]
        assert (own["machines"], own["available"], own["cpus"]) == (["kiku"], 1, 2)
        with pytest.raises(Problem) as caught:
            client.ask(AskMatch("HasMatlab"))
        assert caught.value.code == "broker-silent"
        job = client.submit(kiku.draft("true", requirements="Cpus > 4")).id
        client.cancel([job])
    until(lambda: _reported(cluster) == {"ume", "kiku", "ran"}, "the broker to hear of all again")


@pytest.mark.timeout(400)
def test_machines_that_restart_find_each_other_though_the_one_they_joined_is_gone(person):
    network = Network(person)
    try:
        first, take, sugi = (network.add(name) for name in ("matsu", "take", "sugi"))
        network.start()  # through matsu, the only one that the others were told of
        take.leave_launcher()
        sugi.leave_launcher()
        first.stop_processes()
        take.begin()
        sugi.begin()
        found = "the two to find each other"
        until(lambda: "take" in sugi.sees() and "sugi" in take.sees(), found, wait_s=FIND_WAIT_S)
    finally:
        network.stop()


def _reported(network: Network) -> set[str]:
    """The machines that have told the broker what they have."""
    with network.machines["kiku"].client() as client:
        return {row.name for row in client.nodes() if row.state == "up"}


def _json(machine, *words: str):
    said = machine.call(*words, "--json")
    assert said.returncode == 0, said.stdout + said.stderr
    return json.loads(said.stdout)
