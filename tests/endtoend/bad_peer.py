"""Two honest machines of a cluster, and peers who speak with them by other means than ours."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from iriai.client import Client
from iriai.identity.certificates.machine_identity import Enrolment, MachineIdentity
from iriai.identity.cluster_state import ClusterState
from iriai.identity.trust.tls import client_context
from iriai.identity.trust.trust import Trust
from iriai.model.token_text import TokenKind, parse_token
from iriai.protocol.messages.entries import Carried, Entry, EntryKind, signed_content
from iriai.protocol.messages.gossip import Entries
from iriai.protocol.messages.members import MemberState
from iriai.system.frames import FrameReader
from iriai.wire.greetings import LINK_VERSION, Begin, Greeting, decode_greeting, greeting_frame
from iriai.wire.links import Batch, link_frame
from iriai.wire.parts import PARTS_VERSION, pack
from tests.endtoend.installation import Installation
from tests.endtoend.test_identity import machine, say
from tests.support.people import TestPerson
from tests.support.waiting import until

HALF_HOUR_S = 1800.0


class Lab:
    """Two honest machines of a cluster, and what is needed to be a bad one."""

    def __init__(self, ume: Installation, take: Installation, directory: Path) -> None:
        self.ume, self.take = ume, take
        self.directory = directory
        self.address = parse_token(say(ume, "token")["text"], TokenKind.JOIN).addresses[0]

    def member(self, name: str) -> MachineIdentity:
        """A machine that the cluster's issuer signed, with a key that no daemon has."""
        state = ClusterState(self.ume.paths.cluster)
        enrolment = Enrolment.begin(name)
        certificate = state.issuer.machine(enrolment.request(), name, time.time())
        place = self.directory / f"{name}-{time.monotonic_ns()}"
        return MachineIdentity.create(place, enrolment, certificate, state.trust.authority)

    def is_linked(self) -> bool:
        """Whether the honest machines see each other."""
        return all(
            installation.answers() and taken_for(installation, other) is MemberState.ALIVE
            for installation, other in ((self.ume, "take"), (self.take, "ume"))
        )

    def told(self, installation: Installation | None = None) -> list[str]:
        """What an honest machine says is wrong, by sentences."""
        with Client.connect((installation or self.ume).state, follow=False) as client:
            report = client.status()
        return [*report.trouble, *(f"{row.machine}: {row.words}" for row in report.links)]

    def says(self, *words: str, installation: Installation | None = None) -> None:
        """Wait until an honest machine names all of this, in one sentence."""

        def is_said() -> bool:
            rows = self.told(installation)
            return any(all(word in row for word in words) for row in rows)

        try:
            until(is_said, " and ".join(words), 0.1)
        except AssertionError as error:
            rows = "\n".join(self.told(installation))
            raise AssertionError(f"{error}; told was:\n{rows}") from None


class Peer:
    """Somebody who speaks with `identity` to the daemon at `address`, and keeps no rule."""

    def __init__(self, identity: MachineIdentity, address: str) -> None:
        self.identity = identity
        host, port = address.split(":")
        context = client_context(identity, Trust(identity.authority))
        self.socket = context.wrap_socket(socket.create_connection((host, int(port)), 30.0))
        self._reader = FrameReader()

    def greeting(self) -> Greeting:
        """What an honest machine of that name says first."""
        return Greeting(LINK_VERSION, PARTS_VERSION, "9.9", self.identity.name, "", "an-instance")

    def greet(self, **changes: object) -> object:
        """The first answer, to a greeting with these changes."""
        self.socket.sendall(greeting_frame(msgspec.structs.replace(self.greeting(), **changes)))
        frames: list[bytes] = []
        while not frames:
            data = self.socket.recv(1 << 16)
            assert data, "it was cut off without an answer"
            frames = self._reader.feed(data)
        return decode_greeting(frames[0])

    def begin(self) -> None:
        """Be linked, and known by certificate."""
        self.greet()
        self.socket.sendall(greeting_frame(Begin()))
        certificate = self.entry(EntryKind.CERTIFICATE, self.identity.certificate.der)
        self.publish(certificate)

    def say(self, *messages: object, part: str = "directory") -> None:
        """Messages for a part."""
        envelopes = tuple(pack(part, message) for message in messages)
        self.socket.sendall(link_frame(Batch(envelopes)))

    def publish(self, *entries: Entry) -> None:
        """Entries, as from an exchange."""
        self.say(Entries(tuple(Carried(each, 0.0) for each in entries)))

    def entry(self, kind: EntryKind, body: bytes, *, version: int = 1, of: str = "") -> Entry:
        """An entry, in one's own name or that of another; with one's own signature."""
        identity = self.identity
        incarnation = int(time.time()) + version
        owner, lifetime_s = of or identity.name, HALF_HOUR_S
        entry = Entry(owner, kind, identity.cluster, incarnation, version, lifetime_s, body, b"")
        return msgspec.structs.replace(entry, signature=identity.sign(signed_content(entry)))

    def await_end(self) -> None:
        """Return when the other end has closed the connection; else it is a `TimeoutError`."""
        with suppress(ssl.SSLError, ConnectionError):
            while self.socket.recv(1 << 16):
                pass


@contextmanager
def lab_of_two(person: TestPerson | None, directory: Path) -> Iterator[Lab]:
    """Both are up and see each other; ended afterwards."""
    with ExitStack() as stack:
        ume, take = (stack.enter_context(machine(name, person=person)) for name in ("ume", "take"))
        say(ume, "cluster", "create", "lab")
        until(ume.runs_tasks, "the first machine, in a cluster now")
        say(take, "join", "--token", say(ume, "token")["text"])
        lab = Lab(ume, take, directory)
        until(lab.is_linked, "both to see each other")
        yield lab


def taken_for(installation: Installation, other: str) -> MemberState | None:
    """How it stands with a member, as a machine sees it."""
    with Client.connect(installation.state, follow=False) as client:
        states = {member.name: MemberState(member.state) for member in client.status().members}
    return states.get(other)
