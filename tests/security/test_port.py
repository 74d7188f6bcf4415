"""Whoever can reach the port of a machine: strangers, people with a token, members that do harm."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from iriai.client import Client
from iriai.config.limits import LimitsSection
from iriai.daemon.requests.cluster.unauthenticated import FRAME_BYTES_MAX, RATE_OF_SOURCE
from iriai.links.admission import UNAUTHENTICATED
from iriai.model.token_text import TokenKind, parse_token
from iriai.protocol.messages.entries import EntryKind
from iriai.wire.joining import (
    AskAuthority,
    Authenticate,
    Authenticated,
    AuthorityShown,
    Join,
    MakeToken,
)
from iriai.wire.links import Piece, link_frame
from iriai.wire.requests import Failure
from tests.endtoend.bad_peer import Lab, Peer, lab_of_two
from tests.security.bad_client import BadClient
from tests.support.people import People
from tests.support.waiting import until

pytestmark = pytest.mark.root
CLIENTS = 950
"""More than a daemon had room for."""
SOURCES = [f"127.0.1.{number}" for number in range(1, 65)]
"""Addresses that connections to this host may come from."""


@pytest.fixture(scope="module")
def lab(people: People, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab_of_two(people.ann, tmp_path_factory.mktemp("peers")) as lab:
        yield lab


@pytest.fixture(autouse=True)
def undisturbed(lab: Lab) -> Iterator[None]:
    """Afterwards it is the same daemon, runs a job, and is linked as before."""
    before = lab.ume.pid("daemon")
    yield
    with lab.ume.client() as client:
        [outcome] = client.wait([client.submit(lab.ume.draft("true")).id])
    assert outcome.cause == "completed"
    assert lab.ume.pid("daemon") == before
    until(lab.is_linked, "the honest machines to see each other still")


def connect(lab: Lab, source: str) -> socket.socket:
    """A connection to the port, over which nothing was said."""
    host, port = lab.address.split(":")
    return socket.create_connection((host, int(port)), 60.0, source_address=(source, 0))


@contextmanager
def stranger(lab: Lab, source: str) -> Iterator[BadClient]:
    """Somebody there who has no certificate, TLS done."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with connect(lab, source) as plain, context.wrap_socket(plain) as secured:
        yield BadClient(secured)


def test_silent_connections_keep_no_member_out(lab: Lab):
    """T9e: 64 of them, eight from each of eight addresses, had every member reset for 10 s."""
    with ExitStack() as stack:
        for source in SOURCES:
            for _ in range(UNAUTHENTICATED.of_source):
                stack.enter_context(connect(lab, source))
        new = Peer(lab.member("kiku"), lab.address)
        new.begin()
        lab.says("kiku", "up for")
        new.socket.close()


def test_silent_strangers_keep_neither_root_nor_users_out(lab: Lab):
    """T9d: those that had shaken hands were counted among the clients, 900 of them."""
    with ExitStack() as stack:
        for source in SOURCES * (1 + CLIENTS // len(SOURCES)):
            with suppress(OSError):  # that there is no room for most of them is what is wanted
                stack.enter_context(stranger(lab, source))
        with Client.connect(lab.ume.state, follow=False) as root, lab.ume.client() as ann:
            assert root.status().home == "ume"
            assert ann.status().home == "ume"


def test_strangers_at_one_address_ask_only_so_often(lab: Lab):
    """T9d: what they ask is looked at so many times a second, and then refused."""
    with stranger(lab, SOURCES[0]) as kiku:
        kiku.greet()
        answers = (kiku.ask(AskAuthority()) for _ in range(10 * int(RATE_OF_SOURCE.burst)))
        refused = next(each for each in answers if isinstance(each, Failure))
        assert refused.code == "too-many-requests"
    with stranger(lab, SOURCES[1]) as momo:
        momo.greet()
        assert isinstance(momo.ask(AskAuthority()).body, AuthorityShown)


def test_a_name_in_a_request_to_join_forges_no_line_of_the_log(lab: Lab):
    """T10a: a newline in it, and a time and a level behind that."""
    forged = "1999-01-01 daemon INFO oni joined"
    with stranger(lab, SOURCES[2]) as oni:
        oni.greet()
        refused = oni.ask(Join("00000000", bytes(16), f"oni\n{forged}\x1b[2J", b"", 0.0, "1"))
        assert isinstance(refused, Failure)
    lines = Path(lab.ume.paths.log_of("daemon")).read_text().splitlines()
    assert not [line for line in lines if line.startswith("1999-")]
    assert not [line for line in lines if "\x1b" in line]


def test_pieces_of_texts_with_long_names(lab: Lab):
    """T9j: 600 of them, each with a name of a megabyte, took 600 MiB."""
    oni = Peer(lab.member("oni"), lab.address)
    oni.begin()
    piece = link_frame(Piece("x" * (1 << 20), b"", is_last=False))
    with suppress(ConnectionError, ssl.SSLError):
        for _ in range(20):
            oni.socket.sendall(piece)
    oni.await_end()
    oni.socket.close()
    lab.says("oni", "violates the protocol", "length <= 128")


def test_wrong_signatures_cost_the_link_of_whoever_sends_them(lab: Lab):
    """T9k: 9,000 of them kept a member busy for 4.7 s, again and again."""
    oni = Peer(lab.member("oni-who-forges"), lab.address)
    oni.begin()
    forged = [
        oni.entry(EntryKind.AD, b"[]", version=version, of="take") for version in range(9_000)
    ]
    with suppress(ConnectionError, ssl.SSLError):
        for start in range(0, len(forged), 500):
            oni.publish(*forged[start : start + 500])
    oni.await_end()
    oni.socket.close()
    lab.says("oni-who-forges", "wrong signatures")
    again = Peer(oni.identity, lab.address)
    assert "invalid messages" in again.greet().message
    again.socket.close()


def test_unfinished_requests_of_somebody_with_a_token(lab: Lab, people: People):
    """T9g: ten of them, of 16 MiB each; they count with those of the same user on the machine."""
    with lab.ume.client(people.eve) as client:
        token = parse_token(client.ask(MakeToken("user", 600.0)).text, TokenKind.USER)
    most = LimitsSection().unfinished_bytes_per_user
    part = (FRAME_BYTES_MAX).to_bytes(4, "big") + bytes(FRAME_BYTES_MAX - 1)
    with ExitStack() as stack:
        eves = [
            stack.enter_context(stranger(lab, SOURCES[3])) for _ in range(most // len(part) + 1)
        ]
        for eve in eves:
            eve.greet()
            shown = eve.ask(Authenticate(token.id, token.secret)).body
            assert isinstance(shown, Authenticated)
        for eve in eves:
            eve.send(part)
        with suppress(ConnectionError, ssl.SSLError):  # else it is a `TimeoutError`
            while eves[-1].reply():
                pass
