import asyncio
import os
import socket

from iriai.daemon.transport import socket_stream as pipe_module
from iriai.daemon.transport.socket_stream import FramedStream
from iriai.system.frames import FRAME_BYTES_MAX, frame
from tests.support.loops import in_loop, until


class Ends:
    """A stream, the plain socket at its other end, and what the stream was told."""

    def __init__(self) -> None:
        ours, self.peer = socket.socketpair(socket.AF_UNIX)
        self.peer.setblocking(False)
        self.frames: list[bytes] = []
        self.closed: list[str] = []
        self.stream = FramedStream(ours, self.frames.extend, self.closed.append)


def story(body):
    async def run():
        ends = Ends()
        try:
            await body(ends)
        finally:
            ends.stream.close("the test is over")
            ends.peer.close()

    in_loop(run)


def test_frames_arrive_however_they_were_cut():
    async def body(ends):
        data = frame(b"one") + frame(b"") + frame(b"three")
        for byte in data:
            ends.peer.send(bytes([byte]))
        await until(lambda: len(ends.frames) == 3)
        assert ends.frames == [b"one", b"", b"three"]

    story(body)


def test_a_peer_that_reads_slowly_gets_everything():
    async def body(ends):
        payload = os.urandom(3_000_000)
        ends.stream.write(frame(payload))
        ends.stream.write(frame(b"after"))
        got = bytearray()
        loop = asyncio.get_running_loop()
        while len(got) < len(payload) + 4 + 9:
            got += await loop.sock_recv(ends.peer, 50_000)
        assert bytes(got) == frame(payload) + frame(b"after")

    story(body)


def test_a_descriptor_travels_beside_its_frame():
    async def body(ends):
        read_end, write_end = os.pipe()
        socket.send_fds(ends.peer, [frame(b"with a pipe")], [read_end])
        await until(lambda: ends.frames)
        [received] = ends.stream.descriptors
        ends.stream.descriptors.clear()
        os.write(write_end, b"through")
        assert os.read(received, 100) == b"through"
        for descriptor in (read_end, write_end, received):
            os.close(descriptor)

    story(body)


def test_descriptors_nobody_took_are_closed_with_the_stream():
    async def body(ends):
        read_end, write_end = os.pipe()
        socket.send_fds(ends.peer, [frame(b"x")], [read_end])
        await until(lambda: ends.frames)
        os.close(read_end)
        ends.stream.close("enough")
        try:
            os.write(write_end, b"nobody reads")
        except BrokenPipeError:
            return
        finally:
            os.close(write_end)
        raise AssertionError("the read end is still open somewhere")

    story(body)


def test_a_length_that_cannot_be_ends_the_connection():
    async def body(ends):
        ends.peer.send((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
        await until(lambda: ends.closed)
        assert "at most" in ends.closed[0]

    story(body)


def test_a_peer_that_never_reads_is_cut_off(monkeypatch):
    monkeypatch.setattr(pipe_module, "UNSENT_BYTES_MAX", 1_000_000)

    async def body(ends):
        while not ends.closed:
            ends.stream.write(b"x" * 500_000)
        assert ends.closed == ["it does not read the answers"]

    story(body)


def test_the_end_of_the_peer_is_told_once():
    async def body(ends):
        ends.peer.close()
        await until(lambda: ends.closed)
        ends.stream.write(b"into the void")
        assert len(ends.closed) == 1

    story(body)
