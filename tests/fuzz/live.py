"""Hostile input for a real daemon of root: its socket, its port, its links, its launcher."""

from __future__ import annotations

import os
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from iriai.identity.certificates.machine_identity import Enrolment, MachineIdentity
from iriai.identity.cluster_state import ClusterState
from iriai.identity.trust.tls import client_context
from iriai.identity.trust.trust import Trust
from iriai.launcher.contract.messages import (
    LAUNCHER_VERSION,
    Attach,
    Discard,
    Launch,
    Prolong,
    SampleAll,
    ShutDown,
    Terminate,
    ToLauncher,
)
from iriai.model.bounds import decoded
from iriai.model.problem import Problem
from iriai.model.token_text import TokenKind, parse_token
from iriai.protocol.messages.gossip import ToDirectory, ToMembership
from iriai.protocol.messages.rpc import ToInquiry
from iriai.protocol.messages.scheduling import (
    BetweenClusters,
    ToBroker,
    ToHome,
    ToNode,
    ToSuccession,
)
from iriai.protocol.messages.streams import ToStreams
from iriai.system.frames import FrameReader, frame
from iriai.wire.envelopes import Request
from iriai.wire.greetings import (
    LINK_VERSION,
    Begin,
    Greeting,
    GreetingFrame,
    greeting_frame,
)
from iriai.wire.joining import AskAuthority, Authenticate, Join, RenewCertificate
from iriai.wire.links import Carry, CarryOver, Credit, LinkFrame, Ping, link_frame
from iriai.wire.parts import PARTS_VERSION
from iriai.wire.requests import (
    PROTOCOL_VERSION,
    Hello,
)
from tests.endtoend.installation import Installation, become
from tests.endtoend.test_identity import machine, say
from tests.fuzz.messages import hostile
from tests.fuzz.mutation import encoded, mutated_bytes, mutated_tree
from tests.fuzz.values import value_of
from tests.fuzz.watcher import IDENTITY, SETTLE_S, Watcher
from tests.support.people import People, TestPerson, temporary_people
from tests.support.waiting import until

_HELLO = frame(msgspec.msgpack.encode(Request(1, Hello(PROTOCOL_VERSION))))
_TAKE = msgspec.msgpack.encode("take")
"""The name in made values that stands for the sender's own."""
_PONG, _BYE = 3, 7
"""Tags of a link's frames (`wire.links`)."""
_TO_LAUNCHER: msgspec.msgpack.Decoder[ToLauncher] = msgspec.msgpack.Decoder(ToLauncher)
_SILENCE_S = 0.05
"""A greeting that is waited for to go on is left alone after that."""
REST_S = 0.02
"""After a connection was cut: a daemon that is gone comes back meanwhile."""
WORKERS = 12
"""Connections that inputs come over at once, of each entrance."""
SHOWN = 5
"""Tracebacks of one entrance."""
TIMEOUT_S = 0.5
"""For an answer: who said goodbye gets none."""
MEMBERS = 100
"""Who keep no rule."""
CONFIGURATION = "[machine]\ncpus = 2\n[jobs]\nmax_array = 10\nkill_grace_s = 1\n"
_TO_PARTS: dict[str, Any] = {
    "node": ToNode,
    "home": ToHome,
    "broker": ToBroker | BetweenClusters,
    "membership": ToMembership,
    "directory": ToDirectory,
    "succession": ToSuccession,
    "inquiry": ToInquiry,
    "streams": ToStreams,
}
Session = Iterator[Callable[[bytes], None]]
"""Gives what sends one input on one connection, for as long as that lasts."""


class Target:
    """A real daemon that has founded a cluster, a user, and members that keep no rule."""

    def __init__(self, installation: Installation, people: People, directory: Path) -> None:
        self.installation = installation
        self.ann: TestPerson = people.ann
        say(installation, "cluster", "create", "lab")
        until(installation.runs_tasks, "the machine, in a cluster now")
        token = parse_token(say(installation, "token")["text"], TokenKind.JOIN)
        host, port = token.addresses[0].split(":")
        self.address = host, int(port)
        self._directory = directory
        self._numbers = count(1)
        self._making = threading.Lock()
        self._members: list[tuple[MachineIdentity, ssl.SSLContext]] = []

    def member(self) -> tuple[MachineIdentity, ssl.SSLContext]:
        """A machine that the cluster's issuer signed; a new one at first, then one after the other.

        One that has just been turned away is left alone for a while.
        """
        with self._making:
            number = next(self._numbers)
            if len(self._members) == MEMBERS:
                return self._members[number % MEMBERS]
            return self._make_member(number)

    def _make_member(self, number: int) -> tuple[MachineIdentity, ssl.SSLContext]:
        state = ClusterState(self.installation.paths.cluster)
        name = f"oni{number}"
        enrolment = Enrolment.begin(name)
        certificate = state.issuer.machine(enrolment.request(), name, time.time())
        place = self._directory / name
        identity = MachineIdentity.create(place, enrolment, certificate, state.trust.authority)
        self._members.append((identity, client_context(identity, Trust(identity.authority))))
        return self._members[-1]

    def unix(self, path: str) -> socket.socket:
        """A connection to a socket of the machine."""
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        found.settimeout(TIMEOUT_S)
        found.connect(path)
        return found

    def tcp(self) -> socket.socket:
        """A connection to the port, each from another address of this host."""
        number = next(self._numbers)
        source = f"127.{1 + number // 60_000 % 250}.{number // 240 % 250}.{1 + number % 240}"
        return socket.create_connection(self.address, TIMEOUT_S, (source, 0))


@contextmanager
def before_hello(target: Target, _rng: Random) -> Session:
    """E1: any user, before Hello."""
    with IDENTITY, become(target.ann):
        connected = target.unix(target.installation.paths.daemon_socket)
    with connected as found:
        yield partial(_last_word, found)


@contextmanager
def after_hello(target: Target, _rng: Random) -> Session:
    """E2: a user's requests."""
    with IDENTITY, become(target.ann):
        connected = target.unix(target.installation.paths.daemon_socket)
    with connected as found:
        yield partial(_exchange, found, FrameReader(), _HELLO)


@contextmanager
def launcher(target: Target, _rng: Random) -> Session:
    """E3: what calls itself the daemon; as root."""
    with target.unix(target.installation.paths.launcher_socket) as found:
        found.sendall(frame(msgspec.msgpack.encode(Attach(LAUNCHER_VERSION))))
        reader = FrameReader()
        last = frame(msgspec.msgpack.encode(SampleAll()))
        exchange = partial(_exchange, found, reader, last)
        yield lambda content: None if _ends_launcher(content) else exchange(content)


def _ends_launcher(content: bytes) -> bool:
    """Whether this says `ShutDown`, in whichever encoding: root may, and it is no fault."""
    try:
        return isinstance(decoded(_TO_LAUNCHER, content), ShutDown)
    except msgspec.MsgspecError:
        return False


@contextmanager
def before_tls(target: Target, _rng: Random) -> Session:
    """E4: bytes at the port."""
    with target.tcp() as found:
        yield partial(_last_word, found)


@contextmanager
def stranger(target: Target, _rng: Random) -> Session:
    """E5: TLS without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with target.tcp() as plain, context.wrap_socket(plain) as found:
        yield partial(_exchange, found, FrameReader(), _HELLO)


@contextmanager
def greeter(target: Target, rng: Random) -> Session:
    """E5: a member that greets."""
    with _tls(target) as (found, _):
        yield lambda content: _last_word(found, frame(content))


@contextmanager
def linked(target: Target, rng: Random) -> Session:
    """E6 to E8: a member with a link."""
    with _tls(target) as (found, name):
        greeting = Greeting(LINK_VERSION, PARTS_VERSION, "9.9", name, "", f"i{rng.random()}")
        found.sendall(greeting_frame(greeting))
        if not found.recv(1 << 16):
            raise ConnectionResetError("it was turned away")
        found.sendall(greeting_frame(Begin()))
        ping = link_frame(Ping(1.0))
        exchange = partial(_exchange, found, FrameReader(), ping, is_link=True)
        mine = msgspec.msgpack.encode(name)
        yield lambda content: exchange(content.replace(_TAKE, mine))


@contextmanager
def _tls(target: Target) -> Iterator[tuple[ssl.SSLSocket, str]]:
    identity, context = target.member()
    with target.tcp() as plain, context.wrap_socket(plain) as found:
        yield found, identity.name


def _exchange(
    found: socket.socket,
    reader: FrameReader,
    last: bytes,
    content: bytes,
    *,
    is_link: bool = False,
) -> None:
    """Send one input and `last`, which is answered: what came before it was taken in then.

    On a link only a `Pong` is the answer, and a `Bye` the end.
    """
    found.sendall(frame(content) + last)
    while True:
        data = found.recv(1 << 18)
        if not data:
            raise ConnectionResetError("it was closed")
        for payload in reader.feed(data):
            kind = payload[1] if payload[:1] > b"\x90" else 0
            if is_link and kind == _BYE:
                raise ConnectionResetError("it was said goodbye to")
            if not is_link or kind == _PONG:
                return


def _last_word(found: socket.socket, content: bytes) -> None:
    """Send one input and nothing after it, and wait until the other end has closed."""
    found.sendall(content)
    if isinstance(found, ssl.SSLSocket):
        found.settimeout(_SILENCE_S)
    else:
        found.shutdown(socket.SHUT_WR)
    while found.recv(1 << 18):
        pass
    raise ConnectionResetError("it was closed")


def _first_words(rng: Random) -> bytes:
    content = encoded([1, {"type": "hello", "version": 1}])
    return frame(mutated_bytes(content, rng)) if rng.random() < 0.7 else rng.randbytes(64)


def _hello_of_tls(rng: Random) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return mutated_bytes(outgoing.read(), rng)


def _envelopes(rng: Random, parts: tuple[str, ...] = tuple(_TO_PARTS)) -> bytes:
    envelopes = []
    for _ in range(rng.choice((1, 1, 5))):
        part = rng.choice(parts)
        kind = rng.choice(_TO_PARTS[part].__args__)
        tree = value_of(kind, rng)
        if rng.random() < 0.3:
            tree = mutated_tree(tree, rng)
        envelopes.append([part, kind.__name__, msgspec.Raw(encoded(tree))])
    return encoded([1, envelopes])


ENTRANCES: tuple[tuple[str, str, Any, Any], ...] = (
    ("E1", "socket before Hello", before_hello, _first_words),
    ("E2", "socket after Hello", after_hello, hostile(Request)),
    ("E4", "port before TLS", before_tls, _hello_of_tls),
    (
        "E5",
        "strangers",
        stranger,
        hostile(Join | RenewCertificate | Authenticate | AskAuthority | Hello),
    ),
    ("E5", "greetings of members", greeter, hostile(GreetingFrame)),
    ("E6", "links", linked, hostile(LinkFrame, 0.3, 0.02)),
    ("E7", "what links carry", linked, _envelopes),
    ("E7", "inquiries", linked, partial(_envelopes, parts=("inquiry", "streams"))),
    ("E8", "circuits", linked, hostile(Carry | Credit | CarryOver, 0.3, 0.02)),
    (
        "E3",
        "launcher socket",
        launcher,
        hostile(Attach | Launch | Terminate | Discard | SampleAll | Prolong),
    ),
)


ALONE = (before_hello, after_hello, launcher)
"""Over one connection at a time: the first are answered at once, the last hears whoever came last.
"""


def feed(
    target: Target, open_session: Any, make: Any, rng: Random, inputs: int, until_s: float
) -> int:
    """Feed so many inputs over as many connections as it takes; returns how many were sent."""
    sent = 0
    while sent < inputs and time.monotonic() < until_s:
        try:
            with open_session(target, rng) as send:
                while sent < inputs and time.monotonic() < until_s:
                    sent += 1
                    send(make(rng))
        except (OSError, ssl.SSLError, Problem):
            if not sent % 50:
                time.sleep(REST_S)
    return sent


def feed_at_once(
    target: Target, open_session: Any, make: Any, seed: str, inputs: int, until_s: float
) -> int:
    """The same, on several connections at once: most of the time of each is waiting."""
    workers = 1 if open_session in ALONE else WORKERS
    shares = [inputs // workers + (each < inputs % workers) for each in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        sent = [
            pool.submit(
                feed, target, open_session, make, Random(f"{seed}-{worker}"), share, until_s
            )
            for worker, share in enumerate(shares)
        ]
        return sum(each.result() for each in sent)


def run(
    inputs: int, seed: int, until_s: float, wanted: set[str], settle_s: float = SETTLE_S
) -> dict[str, Any]:
    """Feed a real daemon; what was sent by entrance, and what the watcher saw."""
    chosen = [each for each in ENTRANCES if not wanted or wanted & {each[0], each[1]}]
    if not chosen or os.geteuid() != 0:
        return {"rows": []}
    rows = []
    with suppress(AssertionError), ExitStack() as stack:  # of the end, after tracebacks
        people = stack.enter_context(temporary_people())
        installation = stack.enter_context(machine("ume", CONFIGURATION, people.ann))
        place = stack.enter_context(tempfile.TemporaryDirectory())
        target = Target(installation, people, Path(place))
        for number, name, session, make in chosen:
            watcher = Watcher(installation, settle_s)
            watcher.begin()
            began_s = time.monotonic()
            sent = feed_at_once(target, session, make, f"{seed}-{name}", inputs, until_s)
            rate = sent / (time.monotonic() - began_s)
            row = {"number": number, "name": name, "inputs": sent, **watcher.end()}
            rows.append(row)
            show_tracebacks(watcher)
            print(
                f"{number:4} {name:24} {sent:9,} inputs  {rate:8,.0f}/s  live: {row}",
                file=sys.stderr,
                flush=True,
            )
    return {
        "rows": rows,
        "ends": sum(row["ends"] for row in rows),
        "tracebacks": max(row["tracebacks"] for row in rows),
        "slow_turns": sum(row["slow_turns"] for row in rows),
        "memory_left_mb": max(row["memory_left_mb"] for row in rows),
    }


def show_tracebacks(watcher: Watcher) -> None:
    """Of what was logged since it began, some that differ."""
    for text in sorted(watcher.new_tracebacks())[:SHOWN]:
        print(f"--- {text}", file=sys.stderr)


def is_bad(watched: dict[str, Any]) -> bool:
    """Whether something was seen that must not be."""
    return bool(watched.get("ends") or watched.get("tracebacks"))
