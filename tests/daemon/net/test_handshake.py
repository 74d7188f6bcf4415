"""Frames of a link that come with the end of its handshake are kept, each once."""

from __future__ import annotations

from random import Random

from iriai.daemon.net.credentials import Credentials
from iriai.daemon.net.handshake import Handshake
from iriai.daemon.transport.socket_stream import ignore
from iriai.links.address_book import AddressBook
from iriai.links.core import LinkCore, OwnCard
from iriai.links.greeting import ClientGreeting
from iriai.system.frames import FrameReader
from iriai.wire.greetings import Agreed, greeting_frame
from tests.support.loops import in_loop
from tests.support.trusted import TrustedCluster


class Pipe:
    """A byte stream that goes nowhere."""

    is_closed = False
    unsent_bytes_max = 0

    def listen(self, on_data, on_close) -> None:
        """Nothing comes."""

    def write(self, data: bytes) -> None:
        """Nothing leaves."""

    def read_out(self) -> None:
        """Nothing waits."""

    def close(self, reason: str) -> None:
        self.is_closed = True


def test_frames_between_the_handshake_and_the_link_are_kept_once_and_in_order(tmp_path):
    async def body() -> None:
        passport = Credentials.of(*TrustedCluster(tmp_path).machine("ume"))
        core = LinkCore(OwnCard("ume", "ume-1", "1"), AddressBook("ume"), Random(1))
        greeting = ClientGreeting(core, "take")
        linked: list[Handshake] = []
        handshake = Handshake(Pipe(), passport, greeting, linked.append, ignore)
        greeting.machine = "take"
        handshake.stream.is_secure = True
        handshake.stream._tls = type("Plain", (), {"write": lambda _, data: len(data)})()
        [agreed] = FrameReader().feed(greeting_frame(Agreed("1", "take", "take-1")))
        handshake._frames([agreed, b"one", b"two"])
        handshake._frames([b"three"])
        assert linked == [handshake]
        assert handshake.rest == [b"one", b"two", b"three"]
        handshake.stream.close("the test is over")

    in_loop(body)
