"""What no machine of a site's two clusters could run is refused, and whose machines are shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iriai.model.problem import ExitCode, Problem
from iriai.model.submission import Interaction
from iriai.wire.requests import Submit
from tests.endtoend.network import Network
from tests.support.waiting import until

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def site(person):
    made = Network(person)
    try:
        made.add("ume", cpus=1, cluster="west")
        made.add("take", cpus=1, cluster="west")
        made.add("kiku", cpus=1, cluster="east", more='[machine.attributes]\nShelf = "east"\n')
        made.start()
        for name in made.machines:
            until(lambda name=name: len(_matches(made, name, "Cpus > 0")) == 3, "all to be known")
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("name", ["ume", "take"])
def test_requirements_that_no_cluster_meets_are_refused_with_the_clause_and_where(site, name):
    """The broker of the job's own cluster is one of the two, and the other one asks it."""
    home = site.machines[name]
    with home.client() as client:
        draft = home.draft("true", requirements='Shelf == "south"')
        with pytest.raises(Problem) as caught:
            client.submit(draft)
        assert caught.value.exit_code is ExitCode.REFUSED
        here, there = caught.value.message.split("; in cluster east: ")
        assert 'the job requires Shelf == "south"' in here
        assert 'on kiku the job requires Shelf == "south", and Shelf is "east"' in there
        with pytest.raises(Problem, match="in cluster east: no machine matches: on kiku"):
            client.dry_run(draft)
        waits = home.draft("true", requirements='Shelf == "south"', wait_for_resources=True)
        client.cancel([client.submit(waits).id])


def test_what_the_other_cluster_alone_could_run_is_accepted_and_runs_there(site):
    home = site.machines["ume"]
    with home.client() as client:
        job = client.submit(home.draft("true", requirements='Shelf == "east"')).id
        assert client.wait([job])[0].exit_code == 0
        assert {row.machine for row in client.show(job).attempts} == {"kiku"}


def test_machines_of_both_clusters_are_shown(site):
    assert _matches(site, "take", 'Shelf == "east"') == {
        "ume": ("west", False),
        "take": ("west", False),
        "kiku": ("east", True),
    }
    rows = {row["name"]: row for row in _json(site, "take", "nodes")["rows"]}
    assert (rows["kiku"]["state"], rows["kiku"]["cpus"]) == ("up", 1)
    assert (rows["kiku"]["cluster"], rows["kiku"]["is_broker"]) == ("east", True)


def test_what_machines_of_both_clusters_say_of_themselves_is_told(site):
    rows = {row["name"]: row for row in _json(site, "take", "ads")["rows"]}
    assert {name: row["cluster"] for name, row in rows.items()} == {
        "ume": "west",
        "take": "west",
        "kiku": "east",
    }
    assert rows["kiku"]["attributes"]["Shelf"] == "east"
    [there] = _json(site, "ume", "ads", "kiku")["rows"]
    assert (there["name"], there["cluster"]) == ("kiku", "east")
    refused = site.machines["ume"].call("ads", "nobody")
    assert refused.returncode == ExitCode.NOT_FOUND
    assert "nobody is not a machine with attributes" in refused.stderr


def test_a_cluster_that_does_not_answer_keeps_no_job_from_being_accepted(site):
    home = site.machines["ume"]
    with silenced(site, "kiku"), home.client() as client:
        job = client.submit(home.draft("true", requirements='Shelf == "north"')).id
        assert "east" in " ".join(f"{r.needed} {r.had}" for r in client.why(job).reasons)
        note = _json(site, "ume", "match", "Cpus > 0")["note"]
        assert note.startswith("cluster east: ")
        assert _json(site, "ume", "ads")["note"].startswith("cluster east: ")
        silent = site.machines["ume"].call("ads", "kiku")
        assert silent.returncode == ExitCode.UNREACHABLE
        assert "cluster east: " in silent.stderr
        client.cancel([job])


def test_a_job_whose_client_leaves_before_it_is_accepted_never_was(site):
    """While the other cluster is asked, that is."""
    home = site.machines["take"]
    log = Path(home.paths.log_of("daemon"))
    with silenced(site, "kiku"), home.client() as client:
        draft = home.draft(
            "true", name="orphan", requirements='Shelf == "up"', interaction=Interaction.STREAM
        )
        with home.client() as leaves:
            leaves._connection.channel.begin(Submit(draft))
        until(lambda: "a job is not accepted: its client is gone" in log.read_text(), "its refusal")
        assert "orphan" not in [row.name for row in client.jobs()]


@contextmanager
def silenced(site: Network, name: str) -> Iterator[None]:
    """Meanwhile a machine's daemon is stopped; afterwards it answers again."""
    with site.machines[name].stopped():
        yield
    for each in site.machines:
        until(lambda each=each: len(_matches(site, each, "Cpus > 0")) == 3, "it to answer again")


def _matches(site: Network, name: str, expression: str) -> dict[str, tuple[str, bool]]:
    table = _json(site, name, "match", expression)
    return {row["machine"]: (row["cluster"], row["matches"]) for row in table["rows"]}


def _json(site: Network, name: str, *words: str):
    said = site.machines[name].call(*words, "--json")
    assert said.returncode == 0, said.stdout + said.stderr
    return json.loads(said.stdout)
