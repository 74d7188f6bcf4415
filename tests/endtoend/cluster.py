"""A front end and back ends on this host, as real processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from iriai.client import Client
from iriai.model.instant import SILENCE_S
from iriai.model.problem import Unreachable
from iriai.wire.machines import NodeRow
from tests.endtoend.installation import Installation
from tests.support.people import TestPerson
from tests.support.waiting import until

BACK_END = """
[machine]
cpus = {cpus}
load_file = "{load_file}"
{more}
[jobs]
kill_grace_s = 1
[cluster]
silence_s = {silence_s}
"""
IDLE = "0.00 0.00 0.00 1/100 1\n"


def _is_linked(back: Installation) -> bool:
    """Whether a back end has a launcher and a link with the front end.

    Links with other back ends pass through the front end, and are dialled later and later where
    that breaks again and again: no task needs them.
    """
    try:
        with Client.connect(back.state, follow=False) as client:
            status = client.status()
    except Unreachable:
        return False
    is_up = any(link.is_up for link in status.links if link.machine == "front")
    return is_up and status.launcher_pid is not None


class Cluster:
    """`front` has home and broker, `backs` the others by name. Ended after the test."""

    def __init__(self, person: TestPerson | None) -> None:
        self.person = person
        self.front = Installation(person, "--name", "front", "--parts", "home,broker")
        self.backs: dict[str, Installation] = {}
        self.silence_s = SILENCE_S
        """After which who says nothing is taken for away; less where a story waits for that."""

    def start(self, names: str = "b1 b2 b3 b4", *, jobs: str = "") -> Cluster:
        """Bring up the front end and back ends of two cpus each; all are linked on return.

        `jobs` are more lines of the front end's `[jobs]`.
        """
        for name in names.split():
            self.add(name)
        return self.begin(jobs)

    def begin(self, configuration: str = "") -> Cluster:
        """Bring up everything that was added, all at once; all are linked on return."""
        self.front.configure(
            f"[cluster]\nsilence_s = {self.silence_s}\n[jobs]\nkill_grace_s = 1\n{configuration}"
        )
        for machine in (self.front, *self.backs.values()):
            machine.begin()
        until(self.front.answers, "the front end")
        until(self.is_whole, "all links")
        return self

    def add(self, name: str, *, cpus: int = 2, more: str = "") -> Installation:
        """One more back end, not started."""
        front = self.front.paths.daemon_socket
        options = ("--name", name, "--parts", "node", "--home", front)
        back = self.backs[name] = Installation(self.person, *options)
        self.set_load(name, IDLE)
        back.configure(
            BACK_END.format(
                cpus=cpus, load_file=self.load_file(name), more=more, silence_s=self.silence_s
            )
        )
        return back

    def load_file(self, name: str) -> str:
        """Where a back end reads its load."""
        return str(self.backs[name].directory / "loadavg")

    def set_load(self, name: str, text: str) -> None:
        """What a back end will read as its load."""
        with open(self.load_file(name), "w") as file:
            file.write(text)

    def nodes(self) -> dict[str, NodeRow]:
        """What the front end says of its machines."""
        with Client.connect(self.front.state) as client:
            return {row.name: row for row in client.nodes()}

    def linked(self) -> list[str]:
        """The back ends that the front end can reach and has heard of."""
        return [name for name, row in self.nodes().items() if row.link == "up" and row.cpus]

    def is_whole(self) -> bool:
        """Whether every process is there and every link up."""
        is_there = self.front.answers() and all(map(_is_linked, self.backs.values()))
        return is_there and len(self.linked()) == len(self.backs)

    @contextmanager
    def stopped(self, name: str, part: str) -> Iterator[None]:
        """Meanwhile a part of a machine is stopped (SIGSTOP)."""
        pid = self.machine(name).pid(part)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def machine(self, name: str) -> Installation:
        """The front end or a back end."""
        return self.front if name == "front" else self.backs[name]

    def stop(self) -> None:
        """End everything; raises where something was left over or crashed."""
        with ExitStack() as stack:
            for machine in (self.front, *self.backs.values()):
                stack.callback(machine.stop)
