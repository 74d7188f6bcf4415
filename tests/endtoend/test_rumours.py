"""Paper 001's way of spreading, as real daemons: a cluster that tells rumours until all knew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.endtoend.network import Network, Networked
from tests.support.waiting import until

pytestmark = pytest.mark.root

RUMOURS = '[gossip]\nmode = "rumour"\nstop_after = 50\n'
"""So many that with a handful of machines none is missed."""


@pytest.fixture
def network(person):
    made = Network(person)
    yield made
    made.stop()


def test_a_cluster_that_tells_rumours_agrees_runs_jobs_and_lets_machines_in(
    network: Network, tmp_path: Path
):
    ume = network.add("ume", cpus=1)
    for name in ("take", "kiku"):
        network.add(name, cpus=1)
    network.start()
    edit(ume, tmp_path, RUMOURS)
    until(lambda: all(said_of(m, "gossip.mode") == "rumour" for m in machines(network)), "the mode")

    edit(ume, tmp_path, RUMOURS + "[jobs]\nmax_array = 77\n")
    until(lambda: all(said_of(m, "jobs.max_array") == "77" for m in machines(network)), "the next")
    until(network.is_whole, "all to see all again")
    with ume.client() as client:
        job = client.submit(ume.draft("sleep", "2", array=((1, 9, 1),))).id
        client.wait([job])
        assert {row.machine for row in client.show(job).attempts} == set(network.machines)

    late = network.add("ran", cpus=1)
    late.join_with(network.token(ume))
    late.begin()
    until(network.is_whole, "the newcomer to see all, and to be seen")
    until(lambda: said_of(late, "jobs.max_array") == "77", "the newcomer to go by the document")


def machines(network: Network) -> list[Networked]:
    return list(network.machines.values())


def edit(machine: Networked, directory: Path, text: str) -> None:
    """An operator says what the cluster agrees on."""
    path = directory / "cluster.toml"
    path.write_text(text)
    until(machine.answers, "the daemon, which may just have begun anew")
    machine.as_root("config", "edit", "--file", str(path))


def said_of(machine: Networked, key: str) -> object:
    """What a machine goes by; None while its daemon begins anew, as with each new document."""
    try:
        rows = json.loads(machine.as_root("config", "show", "--json"))["settings"]
    except AssertionError:
        return None
    return next(row["value"] for row in rows if row["key"] == key)
