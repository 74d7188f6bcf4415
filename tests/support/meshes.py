"""Machines of one cluster in one event loop, linked over the loopback, with real certificates."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from random import Random

from iriai.daemon.net.credentials import Credentials
from iriai.daemon.net.link import MachineLink
from iriai.daemon.net.mesh import Listener, Mesh
from iriai.jobs.payloads import PayloadStore
from iriai.links.address_book import AddressBook
from iriai.protocol.messages.effects import Delivered, LinkDown, LinkUp, Part, Send
from iriai.protocol.messages.gossip import Probe
from iriai.protocol.messages.members import Member, MemberState
from tests.support.loops import in_loop
from tests.support.trusted import Trusted, TrustedCluster


class Meshed:
    """One machine's links, and all that its cores would have been told."""

    def __init__(self, trusted: Trusted, *, is_outward_only: bool, instance: str) -> None:
        self.name = trusted.identity.name
        self.trusted = trusted
        self.is_outward_only = is_outward_only
        self.events: list[object] = []
        self.texts: list[tuple[str, object, bool]] = []
        self.sought: list[str] = []
        self.book = AddressBook(self.name)
        self.passport = Credentials.of(*trusted, instance)
        listener = Listener(
            self.events.append,
            lambda sender, part, message: True,
            lambda *told: self.texts.append(told),
            self.sought.append,
        )
        self.store: dict[str, bytes] = {}
        self.mesh = Mesh(
            self.passport,
            self.book,
            listener,
            PayloadStore(self.store.__getitem__),
            Random(self.name),
            is_outward_only=is_outward_only,
        )
        self.address = ""
        if not is_outward_only:
            door = socket.create_server(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{door.getsockname()[1]}"
            self.mesh.acceptor.open([door])

    @property
    def member(self) -> Member:
        """As membership would tell of it."""
        addresses = (self.address,) if self.address else ()
        return Member(
            self.name,
            1,
            MemberState.ALIVE,
            "lab",
            addresses,
            is_outward_only=self.is_outward_only,
        )

    def say(self, other: str, *numbers: int) -> None:
        """Messages with these numbers for another machine."""
        self.mesh.send([Send(other, Part.MEMBERSHIP, Probe(number)) for number in numbers])

    def heard(self, other: str = "") -> list[int]:
        """The numbers that came, from one machine or all."""
        return [
            event.message.number
            for event in self.events
            if isinstance(event, Delivered) and other in ("", event.sender)
        ]

    def told(self) -> list[tuple[str, str]]:
        """What its cores were told of links."""
        return [
            (type(event).__name__, event.machine)
            for event in self.events
            if isinstance(event, LinkUp | LinkDown)
        ]

    def link_with(self, other: str) -> MachineLink:
        """The link with another machine."""
        session = self.mesh.core.peers[other].link
        assert session is not None
        return self.mesh._links[session]

    def is_linked(self, *others: str) -> bool:
        """Whether there is a link with each of these."""
        peers = self.mesh.core.peers
        return all(other in peers and peers[other].link for other in others)


class Meshes:
    """Several of them that know of each other."""

    def __init__(self, directory: Path) -> None:
        self.cluster = TrustedCluster(directory)
        self.machines: dict[str, Meshed] = {}

    def add(self, *names: str, is_outward_only: bool = False) -> list[Meshed]:
        """Machines with these names, which begin at once."""
        added = []
        for name in names:
            trusted = self.cluster.machine(name)
            machine = Meshed(trusted, is_outward_only=is_outward_only, instance=f"{name}-1")
            self.machines[name] = machine
            machine.mesh.begin()
            added.append(machine)
        self.meet(self.machines.values())
        return added

    def meet(self, machines: Iterable[Meshed]) -> None:
        """All know of all."""
        members = [each.member for each in machines]
        for each in machines:
            each.book.update(members)

    def close(self) -> None:
        """End them all."""
        for machine in self.machines.values():
            machine.mesh.close()


def story(directory: Path, body: Callable[[Meshes], Awaitable[None]]) -> None:
    """Run `body(meshes)` in an event loop of its own."""

    async def run() -> None:
        meshes = Meshes(directory)
        failures: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context))
        try:
            await body(meshes)
        finally:
            meshes.close()
            await asyncio.sleep(0)
        assert failures == []

    in_loop(run)
