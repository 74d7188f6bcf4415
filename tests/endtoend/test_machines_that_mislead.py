"""A machine that says it has twice its memory, and two on which no task comes to anything."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from iriai.host.hardware import measure
from iriai.model.ad import MIB
from iriai.model.units import format_size
from iriai.wire.changes import AskStory
from tests.endtoend.network import Network, Networked
from tests.support.waiting import until

pytestmark = pytest.mark.root

BOASTS, GOOD, FULL, LACKS = "take", "ume", "ana", "kara"
MEMORY_BYTES = measure().memory_bytes
MEMORY_MIB = MEMORY_BYTES // MIB
HIDDEN = ("unshare", "--mount", "sh", "-c")
"""A command that sees other file systems than this host."""
NO_ROOM = 'mount -t tmpfs -o nr_inodes=3 tmpfs {} && exec "$@"'
"""Three: its root, the launcher's directory, and that for what is to be removed."""
NO_TOOL = 'mount -t tmpfs tmpfs {} && exec "$@"'
TASKS = 40
SOLVED = 120
"""Of half a second where the program is: without it, most of them would fail before."""
KILLED = ("sh", "-c", "kill -9 $$")
"""What the kernel does to a task where memory runs out; for the kernel to do it, this host's would
have to."""


class Cluster(NamedTuple):
    machines: dict[str, Networked]
    home: Networked
    """Starts tasks well, and is not the broker."""
    tool: str
    """A program that is missing on `LACKS`."""


@pytest.fixture(scope="module")
def cluster(person):
    network = Network(person)
    try:
        boasts, good = (network.add(name, cpus=1) for name in (BOASTS, GOOD))
        full, lacks = (network.add(name, cpus=2) for name in (FULL, LACKS))
        _say(boasts, f'memory = "{2 * MEMORY_MIB}M"')
        room, tools = _directory(full, "room"), _directory(good, "tools")
        _say(full, f'tmp = "{room}"')
        tool = tools / "solve"
        tool.write_text("#!/bin/sh\nexit 0\n")
        tool.chmod(0o755)
        full.prefix += (*HIDDEN, NO_ROOM.format(room), "sh")
        lacks.prefix += (*HIDDEN, NO_TOOL.format(tools), "sh")
        network.start()
        is_broker = until(good.follows, "the broker's name") == GOOD
        yield Cluster(network.machines, boasts if is_broker else good, str(tool))
    finally:
        network.stop()


def test_twice_the_memory_is_shown_beside_what_there_is_and_what_tasks_met(cluster):
    home, boasts = cluster.home, cluster.machines[BOASTS]
    given = format_size(2 * MEMORY_MIB * MIB)
    words = f"it offers {given} of memory, and has {format_size(MEMORY_MIB * MIB)}"
    for machine in cluster.machines.values():
        until(lambda machine=machine: words in _shown(machine, BOASTS), words)
    troubles = _troubles(boasts)
    assert f"{given} of memory are given away, there are {format_size(MEMORY_BYTES)}" in troubles
    [ad] = _json(home, "ads", BOASTS)["rows"]
    told = ad["attributes"]
    assert (told["Memory"], told["DetectedMemory"]) == (2 * MEMORY_MIB, MEMORY_MIB)
    with home.client() as client:
        wants = _on(BOASTS, memory_bytes=MEMORY_MIB * MIB * 3 // 2)

        def is_noticed() -> bool:
            job = client.submit(home.draft(*KILLED, **wants)).id
            assert client.wait([job])[0].signal == 9
            return "tasks were killed there below the memory they had claimed" in shown()

        def shown() -> str:
            return _shown(home, BOASTS)

        until(is_noticed, f"what tasks meet on {BOASTS}")
        assert "it may have less than it reports" in shown()


def test_a_machine_that_starts_nothing_is_left_alone_and_named_while_an_array_goes_on(cluster):
    home, full = cluster.home, cluster.machines[FULL]
    words = f"no private directory can be created in {full.directory}/room: No space left on device"
    with home.client() as client:
        waits = client.submit(home.draft("true", **_on(FULL))).id

        def reasons() -> dict[str, str]:
            return {r.machine: r.had for r in client.why(waits).reasons if r.rule == "backed-off"}

        until(lambda: words in reasons().get(FULL, ""), f"'{words}' as the reason")
        array = home.draft("sleep", "0.2", output=os.devnull, array=((1, TASKS, 1),))
        job = client.submit(array).id
        assert client.wait([job])[0].cause == "completed"
        assert FULL not in {row.machine for row in client.show(job).attempts}
        tries = [row.text for row in client.ask(AskStory(job)).rows if f" {FULL}" in row.text]
        assert len(tries) < TASKS // 2
        until(lambda: words in _shown(home, FULL), f"'{words}' in the table of machines")
        until(lambda: any(words in text for text in _troubles(full)), f"'{words}' by doctor")
        client.cancel([waits])


def test_a_machine_on_which_all_fails_at_once_is_named_where_it_was_seen(cluster):
    """By the home of the tasks, that is: the broker could not compare it with other machines."""
    home = cluster.home
    with home.client() as client:

        def is_noticed() -> bool:
            draft = home.draft(cluster.tool, **_on(LACKS, array=((1, 5, 1),)))
            job = client.submit(draft).id
            assert client.wait([job])[0].exit_code == 127
            return "failed there within moments" in _shown(home, LACKS)

        until(is_noticed, f"what {LACKS} does to tasks")


def test_a_machine_without_the_program_swallows_few_tasks_of_an_array_and_is_named(cluster):
    """The others have it: there the same array's tasks do well."""
    home = cluster.home
    script = ("sh", "-c", f"{cluster.tool} || exit; sleep 0.5")
    with home.client() as client:
        job = client.submit(home.draft(*script, output=os.devnull, array=((1, SOLVED, 1),))).id
        words = "with exit code 127, and not on other machines"
        for machine in cluster.machines.values():
            until(lambda machine=machine: words in _shown(machine, LACKS), words)

        def is_kept_away() -> bool:
            there = client.submit(home.draft(cluster.tool, **_on(LACKS))).id
            return any(words in reason.had for reason in client.why(there).reasons)

        until(is_kept_away, "a job for that machine to wait")
        client.wait([job])
        failed = [row for row in client.show(job).attempts if row.exit_code == 127]
        assert {row.machine for row in failed} == {LACKS}
        assert len(failed) < SOLVED * 3 // 4  # how few it can be is shown in virtual time


def _say(machine: Networked, line: str) -> None:
    """In its owner's configuration of `[machine]`."""
    file = Path(machine.paths.configuration)
    file.write_text(file.read_text().replace("[machine]", f"[machine]\n{line}"))


def _directory(machine: Networked, name: str) -> Path:
    """Users may enter it."""
    made = machine.directory / name
    made.mkdir()
    made.chmod(0o755)
    return made


def _on(machine: str, **more: object) -> dict[str, object]:
    return {"output": os.devnull, "requirements": f'Machine == "{machine}"', **more}


def _shown(machine: Networked, name: str) -> str:
    """What `iriai nodes`, asked at one machine, finds odd about another."""
    rows = {row["name"]: row for row in _json(machine, "nodes")["rows"]}
    return "; ".join((rows[name]["reason"], *rows[name]["differs"]))


def _troubles(machine: Networked) -> list[str]:
    findings = _json(machine, "doctor")["findings"]
    return [each["message"] for each in findings if each["level"] == "trouble"]


def _json(machine: Networked, *words: str):
    said = machine.call(*words, "--json")
    assert said.returncode == 0, said.stdout + said.stderr
    return json.loads(said.stdout)
