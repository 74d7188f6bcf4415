"""Closing what users passed: whoever passed it has nobody wait."""

import asyncio
import os
import socket
import threading
from contextlib import ExitStack

import pytest

from iriai.daemon.transport.socket_stream import CROWDED_S, SocketStream
from iriai.system.closing import CLOSING, OF_USER_MAX, THREADS_MAX, THREADS_OF_USER_MAX, Closing
from tests.support.lingering import lingering
from tests.support.loops import in_loop, until
from tests.support.waiting import until as until_soon

pytestmark = pytest.mark.long


def test_a_connection_that_lingers_is_closed_meanwhile():
    descriptor, other = lingering()
    CLOSING.close(descriptor)  # as a plain close, it would not come back
    while other.recv(1 << 20):
        pass
    other.close()


def test_what_was_passed_and_not_read_goes_without_waiting():
    descriptor, other = lingering()
    spare, spare_other = lingering()

    async def story() -> None:
        ours, peer = socket.socketpair(socket.AF_UNIX)
        closed: list[str] = []
        pipe = SocketStream(ours, lambda _: None, closed.append)
        socket.send_fds(peer, [b"x"], [descriptor])
        os.close(descriptor)
        await until(lambda: bool(pipe.descriptors))
        pipe.pause()
        socket.send_fds(peer, [b"y"], [spare])
        os.close(spare)
        pipe.close("enough")
        assert closed == ["enough"]
        peer.close()

    in_loop(story)
    for end in (other, spare_other):
        while end.recv(1 << 20):
            pass
        end.close()


def test_a_connection_over_which_nothing_was_passed_is_closed_at_once():
    threads = threading.active_count()
    for sent in (b"", b"some words"):
        ours, peer = socket.socketpair()
        peer.send(sent)
        CLOSING.close_connection(ours)
        assert ours.fileno() == -1
        assert threading.active_count() <= threads
        peer.close()


def test_a_connection_is_closed_meanwhile_where_something_was_passed_behind_other_bytes():
    descriptor, other = lingering()
    ours, peer = socket.socketpair()
    peer.send(b"first")
    socket.send_fds(peer, [b"x"], [descriptor])
    os.close(descriptor)
    CLOSING.close_connection(ours)  # as a plain close, it would not come back
    while other.recv(1 << 20):
        pass
    other.close()
    peer.close()


def test_a_pipe_is_closed_at_once():
    read_end, write_end = os.pipe()
    CLOSING.close(write_end)
    assert os.read(read_end, 1) == b""
    os.close(read_end)


def test_many_are_closed():
    pairs = [socket.socketpair() for _ in range(200)]
    for ours, _ in pairs:
        CLOSING.close(ours.detach())
    for _, other in pairs:
        assert other.recv(1) == b""
        other.close()


def test_more_that_linger_than_there_are_threads_are_all_closed():
    """Nobody reads at their other ends; half of them lie in connections that were passed."""
    closing = Closing()
    with ExitStack() as stack:
        for number in range(3 * THREADS_MAX):
            descriptor, other = lingering()
            stack.enter_context(other)
            if number % 2:
                outer, inner = socket.socketpair()
                socket.send_fds(inner, [b"x"], [descriptor])
                os.close(descriptor)
                inner.close()
                descriptor = outer.detach()
            closing.close(descriptor, user_id=7)
        until_soon(lambda: not closing.is_busy, "the end of all")


class Blocked(Closing):
    """In which closing a descriptor waits until the test says so, whatever signal comes."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.begun: list[int] = []

    def _close(self, descriptor: int) -> None:
        self.begun.append(descriptor)
        self.go.wait()
        os.close(descriptor)


def test_whoever_has_too_many_has_a_share_of_the_threads_and_is_not_read_from():
    closing = Blocked()
    pairs = [socket.socketpair() for _ in range(THREADS_OF_USER_MAX + OF_USER_MAX + 1)]
    for ours, _ in pairs[:-1]:
        closing.close(ours.detach(), user_id=7)
    until_soon(lambda: len(closing.begun) == THREADS_OF_USER_MAX, "all threads of one user")
    assert closing.crowded == {7}
    others = pairs[-1][0].detach()
    closing.close(others, user_id=8)
    until_soon(lambda: others in closing.begun, "another's turn")
    closing.go.set()
    for _, other in pairs:
        assert other.recv(1) == b""
        other.close()
    assert not closing.crowded


def test_whoever_is_crowded_is_read_from_once_that_is_over(monkeypatch: pytest.MonkeyPatch):
    async def story() -> None:
        ours, peer = socket.socketpair()
        heard: list[bytes] = []
        monkeypatch.setattr(CLOSING, "crowded", frozenset([os.geteuid()]))
        pipe = SocketStream(ours, heard.append, lambda _: None)
        peer.send(b"x")
        for _ in range(3):
            await asyncio.sleep(CROWDED_S)
        assert heard == []
        monkeypatch.setattr(CLOSING, "crowded", frozenset())
        await until(lambda: heard == [b"x"])
        pipe.close("enough")
        peer.close()

    in_loop(story)
