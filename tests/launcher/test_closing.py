"""Closing what users passed: whoever passed it has nobody wait."""

import os
import socket
import threading

from iriai.daemon.pipe import SocketPipe
from iriai.launcher.closing import CLOSING
from tests.support.lingering import lingering
from tests.support.loops import in_loop, until


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
        pipe = SocketPipe(ours, lambda _: None, closed.append)
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
