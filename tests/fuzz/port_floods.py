"""Floods at the port of a member; see `floods`."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import ExitStack, suppress

import msgspec

from iriai.links.text_pieces import pieces
from iriai.model.problem import Problem
from iriai.model.text_digest import digest_of
from iriai.protocol.messages.entries import EntryKind
from iriai.system.frames import frame
from iriai.wire.joining import AskAuthority, GrantConsent, MakeToken
from iriai.wire.links import Batch, Piece, Pong, link_frame
from iriai.wire.requests import Failure
from tests.endtoend.bad_peer import Peer
from tests.fuzz.scene import (
    MIB,
    NESTED,
    WAIT_S,
    Complaints,
    Flood,
    Scene,
    is_closed,
    refused,
)
from tests.security.bad_client import BadClient, nested
from tests.security.test_port import stranger


def nested_values_at_the_port(scene: Scene) -> Complaints:
    """T3b: before anything is authenticated."""
    with stranger(scene.lab, "127.0.3.1") as kiku:
        kiku.send(frame(NESTED))
        try:
            yield from refused(kiku.reply(), "nested too deeply")
        except ConnectionError:
            yield "it was cut off without a word"


def nested_values_over_links(scene: Scene) -> Complaints:
    """T3c, T3d: in a frame of a link."""
    batch = msgspec.msgpack.encode(Batch(()))
    oni = Peer(scene.lab.member("oni"), scene.lab.address)
    oni.begin()
    with oni.socket:
        # A field more than are known, which is read over.
        oni.socket.sendall(frame(bytes([batch[0] + 1]) + batch[1:] + nested(3_000)))
        with suppress(TimeoutError):
            oni.socket.settimeout(WAIT_S)
            oni.await_end()
            return
    yield "the link goes on"


def many_tokens(scene: Scene) -> Complaints:
    """T9m: of one user."""
    with scene.client() as client:
        try:
            for _ in range(60):
                client.ask(MakeToken("user", 600.0))
            yield "too-many-tokens: what is beyond is not refused"
        except Problem as problem:
            if problem.code != "too-many-tokens":
                yield str(problem)


def _plain(scene: Scene, source: str) -> socket.socket:
    host, port = scene.lab.address.split(":")
    return socket.create_connection((host, int(port)), 10.0, source_address=(source, 0))


def _is_open(connection: socket.socket) -> bool:
    connection.settimeout(0.0)
    try:
        return bool(connection.recv(1))
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False


def silent_strangers(scene: Scene) -> Complaints:
    """T9d: who have shaken hands, from one address."""
    with ExitStack() as stack:
        opened = []
        for _ in range(30):
            with suppress(OSError):
                opened.append(stack.enter_context(stranger(scene.lab, "127.0.5.1")).socket)
        time.sleep(1.0)
        left = sum(map(_is_open, opened))
    if left > 8:
        yield f"{left} silent strangers of one address may stay"


def silent_connections(scene: Scene) -> Complaints:
    """T9e: from many addresses; and a newcomer gets in all the same."""
    with ExitStack() as stack:
        opened = []
        for number in range(36):
            for _ in range(8):
                with suppress(OSError):
                    connection = stack.enter_context(_plain(scene, f"127.0.6.{1 + number}"))
                    opened.append(connection)
        time.sleep(1.0)
        left = sum(map(_is_open, opened))
        if left > 256:
            yield f"{left} silent connections may stay"
        try:
            with stranger(scene.lab, "127.0.7.1") as kiku:
                kiku.greet()
        except OSError as error:
            yield f"a newcomer does not get in beside silent ones: {error}"


def requests_of_strangers(scene: Scene) -> Complaints:
    """T9d: from one address."""
    with stranger(scene.lab, "127.0.8.1") as kiku:
        kiku.greet()
        for _ in range(600):
            reply = kiku.ask(AskAuthority())
            if isinstance(reply, Failure):
                yield from refused(reply, "too-many-requests")
                return
    yield "strangers ask as often as they like"


def long_names_of_texts(scene: Scene) -> Complaints:
    """T9j: in pieces of texts for tasks."""
    oni = Peer(scene.lab.member("oni-of-names"), scene.lab.address)
    oni.begin()
    piece = link_frame(Piece("x" * MIB, b"x", is_last=False))
    with oni.socket:
        with suppress(ConnectionError, ssl.SSLError):
            for _ in range(20):
                oni.socket.sendall(piece)
        if not is_closed(_client(oni)):
            yield "a text may be called anything"


def wrong_signatures(scene: Scene) -> Complaints:
    """T9k: many of one member."""
    oni = Peer(scene.lab.member("oni-of-signatures"), scene.lab.address)
    oni.begin()
    forged = [oni.entry(EntryKind.AD, b"[]", version=each, of="ume") for each in range(2_000)]
    with oni.socket:
        with suppress(ConnectionError, ssl.SSLError):
            for start in range(0, len(forged), 500):
                oni.publish(*forged[start : start + 500])
        if not is_closed(_client(oni)):
            yield "who sends wrong signatures may stay"


def unfinished_frames_of_links(scene: Scene) -> Complaints:
    """T9g: of a member: a frame, and a text in pieces, whose rest does not come."""
    frames = [(8 * MIB).to_bytes(4, "big") + bytes(6 * MIB)]
    texts = [link_frame(Piece("0" * 32, bytes(MIB), is_last=False))] * 6
    for name, sent in (("oni-of-frames", frames), ("oni-of-pieces", texts)):
        oni = Peer(scene.lab.member(name), scene.lab.address)
        oni.begin()
        with oni.socket:
            with suppress(ConnectionError, ssl.SSLError):
                for each in sent:
                    oni.socket.sendall(each)
            if not is_closed(_client(oni)):
                yield f"{name} may keep a daemon waiting for the rest"


def texts_of_a_member(scene: Scene) -> Complaints:
    """T9j: more of them than one sender may have kept."""
    oni = Peer(scene.lab.member("oni-of-texts"), scene.lab.address)
    oni.begin()
    with oni.socket:
        with suppress(ConnectionError, ssl.SSLError):
            for number in range(8):
                text = bytes([number]) * MIB
                for piece in pieces(digest_of(text), text):
                    oni.socket.sendall(link_frame(piece))
        if not is_closed(_client(oni)):
            yield "a member may have any number of texts kept"


def messages_of_a_member(scene: Scene) -> Complaints:
    """T9k: more a second than are handled."""
    oni = Peer(scene.lab.member("oni-of-messages"), scene.lab.address)
    oni.begin()
    pings = link_frame(Pong(1.0, 1.0)) * 10_000
    with oni.socket:
        with suppress(ConnectionError, ssl.SSLError):
            for _ in range(20):
                oni.socket.sendall(pings)
        if not is_closed(_client(oni)):
            yield "a member may say as much as it likes"


SLOWED = "more signatures than", "messages a period"
"""Either of these holds alone."""


def right_signatures(scene: Scene) -> Complaints:
    """T9k: more of one member than are checked."""
    oni = Peer(scene.lab.member("oni-of-checks"), scene.lab.address)
    oni.begin()
    entries = [oni.entry(EntryKind.AD, b"[]", version=each) for each in range(9_000)]
    with oni.socket:
        for start in range(0, len(entries), 500):
            oni.publish(*entries[start : start + 500])
        until_s = time.monotonic() + 2 * WAIT_S
        while not any(words in each for words in SLOWED for each in scene.lab.told()):
            if time.monotonic() > until_s:
                yield "any number of signatures is checked"
                return
            time.sleep(0.2)


def consents_without_number(scene: Scene) -> Complaints:
    """T8c: of one user."""
    scene.lab  # noqa: B018 - without a cluster there is none
    given: list[str] = []
    with scene.client() as client:
        try:
            for number in range(40):
                client.ask(GrantConsent(f"home{number}", 600.0))
                given.append(f"home{number}")
            yield "too-many-consents: what is beyond is not refused"
        except Problem as problem:
            if problem.code != "too-many-consents":
                yield str(problem)
        for home in given:
            client.ask(GrantConsent(home, 0.0))


def consents_without_end(scene: Scene) -> Complaints:
    """T8c: longer than they may hold."""
    scene.lab  # noqa: B018 - as above
    with scene.client() as client:
        try:
            client.ask(GrantConsent("home", 1e9))
            client.ask(GrantConsent("home", 0.0))
            yield "bad-lifetime: what is beyond is not refused"
        except Problem as problem:
            if problem.code != "bad-lifetime":
                yield str(problem)


def _client(peer: Peer) -> BadClient:
    return BadClient(peer.socket)


AT_PORT: tuple[Flood, ...] = (
    nested_values_at_the_port, nested_values_over_links, many_tokens, silent_strangers,
    silent_connections, requests_of_strangers, long_names_of_texts, wrong_signatures,
    unfinished_frames_of_links, texts_of_a_member, messages_of_a_member, right_signatures,
    consents_without_number, consents_without_end,
)  # fmt: skip
"""Of a machine of a cluster."""
