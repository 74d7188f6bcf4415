"""Input, output and terminals of `run`: from laptops, as a proxy, and for those who misuse them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.client import Client
from iriai.model.problem import NotAllowed, Refused, UsageProblem
from iriai.model.submission import INPUT_BYTES_MAX, Interaction
from iriai.wire.requests import InputWritten, WriteInput
from tests.endtoend.installation import IRIAI, Installation
from tests.endtoend.network import Network
from tests.endtoend.terminal import CTRL_C, CTRL_Z, Terminal
from tests.support.people import People, TestPerson
from tests.support.waiting import until

pytestmark = pytest.mark.root

ON_TAKE = ("--requirements", 'Machine == "take"')
MEBIBYTE = 1 << 20
GROWTH_BYTES_MAX = 24 * MEBIBYTE
"""Of a daemon that gets 64 MiB which nobody asked for: some pieces are under way."""


@pytest.fixture(scope="module")
def network(person: TestPerson) -> Iterator[Network]:
    made = Network(person)
    made.add("ume")
    made.add("take")
    try:
        made.start()
        yield made
    finally:
        made.stop()


def started(machine: Installation, client: Client, *command: str, **more: object) -> str:
    """A job of `run` that takes input, and runs."""
    draft = machine.draft(*command, interaction=Interaction.STREAM, output="", **more)
    job = client.submit(draft, takes_input=True).id
    until(lambda: client.show(job).row.state == "running", "the start")
    return job


def daemons_bytes(network: Network) -> dict[str, int]:
    """The memory of each machine's daemon."""
    pages = {
        name: int(Path(f"/proc/{each.pid('daemon')}/statm").read_text().split()[1])
        for name, each in network.machines.items()
    }
    return {name: count * os.sysconf("SC_PAGE_SIZE") for name, count in pages.items()}


# --- from a laptop --------------------------------------------------------------------------------


@pytest.fixture
def laptop(network: Network) -> dict[str, str]:
    """The environment of a person whose computer is in no cluster, and who has a token."""
    ume = network.machines["ume"]
    token = json.loads(ume.as_root("token", "--user", network.person.name, "--json"))["text"]
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "IRIAI_TOKEN": token}


def test_a_session_from_a_laptop(network: Network, laptop: dict[str, str]):
    words = [*network.machines["take"].prefix, IRIAI, "run", *ON_TAKE, "--chdir", "/tmp"]
    words += ["--pty", "--", "python3", "-q"]
    terminal = Terminal(words, laptop | {"TERM": "dumb"}, Path("/tmp"))
    try:
        terminal.expect(">>> ")
        terminal.type("import os; os.uname() and 6 * 7\n")
        terminal.expect("42\r\n")
        terminal.resize(50, 132)
        terminal.type("os.get_terminal_size()\n")
        terminal.expect("columns=132, lines=50")
        terminal.type("import time; [print('g' 'o') or time.sleep(0.1) for _ in range(10_000)]\n")
        terminal.expect("\r\ngo\r\n")
        terminal.type(CTRL_C)
        terminal.expect("KeyboardInterrupt\r\n>>> ")
        terminal.type("os.system('echo g''o; exec sleep 1000')\n")
        terminal.expect("\r\ngo\r\n")
        terminal.type(CTRL_Z)  # nobody is there to continue it: the kernel does not stop it
        terminal.type(CTRL_C)
        terminal.expect(">>> ")
        terminal.type("exit(3)\n")
        assert terminal.wait() == 3
    finally:
        terminal.close()


# --- as a proxy -----------------------------------------------------------------------------------


def test_ssh_through_a_task(network: Network):
    """As `ProxyCommand iriai run -- sshd -i`: OpenSSH's server may write no file in its sandbox."""
    ume, place = network.machines["ume"], network.machines["ume"].work / "ssh"
    place.mkdir(mode=0o700)
    for name in ("host", "own"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)]
        subprocess.run(key, check=True)
    (place / "config").write_text(
        f"HostKey {place}/host\nAuthorizedKeysFile {place}/own.pub\nStrictModes no\nUsePAM no\n"
    )
    for path in (place, *place.iterdir()):
        os.chown(path, network.person.uid, network.person.gid)
    server = ume.command("run", *ON_TAKE, "--", "/usr/sbin/sshd", "-i", "-f", f"{place}/config")
    proxy = place / "proxy"
    proxy.write_text(f"#!/bin/sh\nexec {shlex.join(server)}\n")
    proxy.chmod(0o755)
    done = subprocess.run(
        [
            *("ssh", "-F", "none", "-i", str(place / "own"), "-o", f"ProxyCommand={proxy}"),
            *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"),
            *("-o", "BatchMode=yes", f"{network.person.name}@there", "echo through; exit 4"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=ume.environment(),
        cwd=ume.work,
    )
    assert (done.stdout, done.returncode) == ("through\n", 4), done.stderr


# --- bad input ------------------------------------------------------------------------------------


def test_input_that_nobody_may_send(network: Network, people: People):
    ume = network.machines["ume"]
    with ume.client() as client:
        job = started(ume, client, "cat")
        with pytest.raises(UsageProblem, match="content"):
            client.ask(WriteInput(job, 0, bytes(INPUT_BYTES_MAX + 1)))
        client.cancel([job])
        client.wait([job])
        with pytest.raises(Refused, match="takes no input"):
            client.ask(WriteInput(job, 0, b"late"))
        without = client.submit(ume.draft("sleep", "60")).id
        with pytest.raises(Refused, match="takes no input"):
            client.ask(WriteInput(without, 0, b"x"))
        client.cancel([without])
    with ume.client(people.bob) as stranger, ume.client() as client:
        job = started(ume, client, "cat")
        with pytest.raises(NotAllowed, match="belongs to"):
            stranger.ask(WriteInput(job, 0, b"of a stranger"))
        client.cancel([job])


@pytest.mark.parametrize("where", ["ume", "take"])
def test_more_than_may_wait_costs_no_memory(network: Network, where: str):
    """Many pieces that nobody asked for, to a task that does not read."""
    ume = network.machines["ume"]
    with ume.client() as client:
        requirements = f'Machine == "{where}"'
        job = started(ume, client, "sleep", "600", requirements=requirements)
        before = daemons_bytes(network)
        fills = [0, MEBIBYTE]  # the pipe, and what may wait
        nobody_asked = [place * step for step in (2**40, MEBIBYTE) for place in range(64)]
        numbers = [
            client.channel.begin(WriteInput(job, offset, bytes(MEBIBYTE)))
            for offset in fills + nobody_asked
        ]
        with pytest.raises(Refused, match="has not read the input"):
            client.channel.finish(numbers[-1], InputWritten)
        assert client.show(job).row.state == "running"
        after = daemons_bytes(network)
        client.cancel([job])
        client.wait([job])
    assert max(after[name] - before[name] for name in before) < GROWTH_BYTES_MAX


def test_a_terminal_that_changes_its_size_without_end(network: Network):
    ume = network.machines["ume"]
    with ume.client() as client:
        draft = ume.draft("sleep", "600", interaction=Interaction.TERMINAL, output="")
        job = client.submit(draft, takes_input=True).id
        until(lambda: client.show(job).row.state == "running", "the start")
        for size in range(3000):
            client.channel.begin(WriteInput(job, 0, b"", window=(size % 65535, 2**31)))
        assert client.show(job).row.state == "running"
        client.cancel([job])
        client.wait([job])


def test_what_came_is_kept_when_the_machine_dies(network: Network):
    ume, take = network.machines["ume"], network.machines["take"]
    words = ume.command("run", *ON_TAKE, "--", "sh", "-c", "echo before; sleep 1000; echo after")
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.PIPE, cwd=ume.work, env=ume.environment(),
    ) as running:  # fmt: skip
        assert running.stdout.readline() == "before\n"
        with ume.client() as client:
            row = client.jobs()[-1]
        take.kill("launcher")
        rest, words_of_end = running.communicate()
    assert (rest, running.returncode) == ("", 125)
    assert "lost" in words_of_end
    assert ume.call("logs", row.id).stdout == "before\n"
