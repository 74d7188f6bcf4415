"""Two ends of a link in one event loop: what is said arrives once, in order, or not at all."""

import os
import socket

import pytest
from msgspec.structs import replace

from iriai.daemon.net import link as link_module
from iriai.daemon.net.link import MachineLink
from iriai.daemon.transport.socket_stream import FramedStream
from iriai.jobs.payloads import PayloadStore
from iriai.links import keepalive as keepalive_module
from iriai.links import session as session_module
from iriai.links.session import LinkSession
from iriai.model.ids import Account, AttemptId
from iriai.model.instant import SILENCE_S
from iriai.model.job import JobSpec
from iriai.model.text_digest import digest_of
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.scheduling import Acknowledge, Run
from iriai.system.clock import now as read_clocks
from iriai.system.frames import frame
from iriai.wire.links import PIECE_BYTES, Piece
from tests.support.loops import in_loop, until

SPEC = JobSpec(Account("lab", "ann"), "ann", "x", ("true",), "/")


class End:
    """One machine's end of the link, and all that it was told."""

    def __init__(self, connection: socket.socket, peer: str, silence_s: float = SILENCE_S) -> None:
        self.messages: list[tuple[Part, object]] = []
        self.texts_told: list[tuple[dict[str, bytes], bool]] = []
        self.over: list[str] = []
        self.circuits: list[object] = []
        self.byes: list[str] = []
        self.store: dict[str, bytes] = {}
        self.stream = FramedStream(connection, list, str)
        payloads = PayloadStore(self.store.__getitem__)
        session = LinkSession(peer, read_clocks("link").steady_s, silence_s=silence_s)
        self.link = MachineLink(self.stream, session, self, payloads)

    def delivered(self, link, part, message) -> None:
        self.messages.append((part, message))

    def texts(self, link, texts, *, forget) -> None:
        self.texts_told.append((dict(texts), forget))

    def circuit(self, link, frame) -> None:
        self.circuits.append(frame)

    def bye(self, link, reason) -> None:
        self.byes.append(reason)

    def link_over(self, link, reason) -> None:
        self.over.append(reason)


def story(body, silence_s: float = SILENCE_S) -> None:
    """Run `body(front, back)` with both ends of a fresh link."""

    async def run() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX)
        front, back = End(ours, "b1", silence_s), End(theirs, "front", silence_s)
        try:
            await body(front, back)
        finally:
            for end in (front, back):
                end.stream.close("the test is over")

    in_loop(run)


def run(number: int, **fields: object) -> Send:
    attempt = AttemptId("front", number, 0, 1)
    return Send("b1", Part.NODE, Run(attempt, replace(SPEC, **fields), None))


def test_a_batch_arrives_whole_and_in_order():
    async def body(front: End, back: End) -> None:
        sends = [run(number) for number in range(100)]
        acknowledge = Send("b1", Part.NODE, Acknowledge(AttemptId("front", 7, 0, 1)))
        front.link.send([*sends, acknowledge])
        await until(lambda: len(back.messages) == 101)
        assert back.messages == [(each.part, each.message) for each in (*sends, acknowledge)]

    story(body)


def test_a_text_travels_once_and_before_what_needs_it():
    async def body(front: End, back: End) -> None:
        front.store |= {"e": b"environment", "s": b"script"}
        front.link.send([run(1, environment="e"), run(2, environment="e", script="s")])
        front.link.send([run(3, environment="e")])
        await until(lambda: len(back.messages) == 3)
        assert back.texts_told == [({"e": b"environment", "s": b"script"}, False)]

    story(body)


def test_what_was_sent_long_ago_is_not_counted_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_module, "TEXTS_BYTES_MAX", 1000)

    async def body(front: End, back: End) -> None:
        front.store |= {"a": b"a" * 1500, "b": b"b"}
        for digest in ("a", "b", "a"):
            front.link.send([run(1, environment=digest)])
        await until(lambda: len(back.messages) == 3)
        # `a` was more than is kept: the second frame begins anew, and `a` travels again.
        told = [(sorted(texts), forget) for texts, forget in back.texts_told]
        assert told == [(["a"], False), (["b"], True), (["a"], False)]

    story(body)


def test_large_batches_are_cut_into_frames(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_module, "BATCH_BYTES_MAX", 100_000)

    async def body(front: End, back: End) -> None:
        front.store |= {str(number): bytes(60_000) for number in range(50)}
        front.link.send([run(number, stdin=str(number)) for number in range(50)])
        await until(lambda: len(back.messages) == 50)
        assert len(back.texts_told) == 25
        assert [message.attempt.number for _, message in back.messages] == list(range(50))

    story(body)


def test_a_long_text_goes_in_pieces_over_a_network():
    text = os.urandom(3 * PIECE_BYTES + 5)
    digest = digest_of(text)

    async def body(front: End, back: End) -> None:
        front.store[digest] = text
        front.link.send([run(1, script=digest)])
        await until(lambda: back.messages)
        assert back.texts_told == [({digest: text}, False)]

    story(body)


def test_a_text_that_is_not_what_it_is_called_ends_the_link():
    async def body(front: End, back: End) -> None:
        front.link.send_frame(Piece(digest_of(b"the real one"), b"another", is_last=True))
        await until(lambda: back.over)
        assert "does not match its digest" in back.over[0]
        assert back.texts_told == []
        await until(lambda: front.byes)
        assert "does not match its digest" in front.byes[0]

    story(body)


def test_a_flood_ends_the_link(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_module, "MESSAGES_PER_S_MAX", 100)

    async def body(front: End, back: End) -> None:
        front.link.send([run(number) for number in range(10)])
        await until(lambda: len(back.messages) == 10)
        front.link.send([run(number) for number in range(10_000)])
        await until(lambda: back.over)
        assert "a flood" in back.over[0]
        assert len(back.messages) == 10

    story(body)


def test_the_clocks_of_both_ends_are_compared(monkeypatch: pytest.MonkeyPatch):
    async def body(front: End, back: End) -> None:
        await until(lambda: front.link.session.offset.best() and back.link.session.offset.best())
        for end in (front, back):
            estimate = end.link.session.offset.best()
            assert abs(estimate.offset_s) <= estimate.error_s + 0.001

    story(body)


def test_a_link_is_kept_up_by_pings_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(keepalive_module, "QUIET_S", 0.01)

    async def body(front: End, back: End) -> None:
        for end in (front, back):
            heard_s = end.link.session.keepalive.received_s
            await until(lambda e=end, h=heard_s: e.link.session.keepalive.received_s > h)
        assert not front.over

    story(body, 0.05)


def test_who_says_nothing_is_taken_for_away():
    async def body() -> None:
        ours, silent = socket.socketpair(socket.AF_UNIX)
        front = End(ours, "b1", 0.2)
        await until(lambda: front.over)
        assert "has not answered" in front.over[0]
        front.link.send([run(1)])  # into the void
        silent.close()

    in_loop(body)


def test_what_arrived_is_told_before_the_link_is_over():
    async def body(front: End, back: End) -> None:
        await until(lambda: front.link.session.offset.best() and back.link.session.offset.best())
        front.link.send([run(1)])
        front.stream.close("gone")
        back.link.close("replaced")  # it was not read yet
        assert len(back.messages) == 1
        assert back.over

    story(body)


@pytest.mark.parametrize(
    "content",
    [
        b"\xc1",
        b"\x92\x01\x91\x93\xa4node\xa4Idle\x90",
        b"\x92\x01\x91\x93\xa4node\xa3Run\x90",
        b"\x92\x01\x91\x93\xa3cat\xa3Run\x90",
    ],
    ids=["no message", "not for this part", "not whole", "no part"],
)
def test_who_does_not_keep_to_the_protocol_is_cut_off(content: bytes):
    async def body(front: End, back: End) -> None:
        front.stream.write(frame(content))
        await until(lambda: back.over)
        assert "violates the protocol" in back.over[0]
        assert not back.messages

    story(body)


def test_a_machine_that_reads_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(link_module, "UNSENT_BYTES_MAX", 1_000_000)

    async def body() -> None:
        ours, deaf = socket.socketpair(socket.AF_UNIX)
        front = End(ours, "b1")
        front.store["big"] = bytes(400_000)
        while not front.over:
            front.link.session._known_texts.clear()
            front.link.send([run(1, stdin="big")])
        assert "does not read" in front.over[0]
        deaf.close()

    in_loop(body)
