"""Orders to the launcher: in messages that both sides can hold."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from types import SimpleNamespace

import msgspec

from iriai.daemon.loop.routes import Routes
from iriai.daemon.tasks import launcher_client
from iriai.daemon.tasks.launcher_client import LauncherClient
from iriai.jobs.payloads import PayloadStore
from iriai.launcher.contract.messages import (
    LAUNCHER_VERSION,
    Attached,
    Defective,
    FromLauncher,
    Launch,
    ParallelSeat,
    SeatHost,
    StreamEnds,
    ToLauncher,
    VersionRefused,
)
from iriai.model.ids import Account, AttemptId
from iriai.model.job import JobSpec
from iriai.model.ranks import SeatPlace
from iriai.model.state import EndCause
from iriai.protocol.messages.effects import AttemptExited, LaunchAttempt, LauncherEvent
from iriai.system.frames import FrameReader, frame
from tests.support.loops import in_loop, until

WELCOME = Attached(LAUNCHER_VERSION, 1, "boot", (), (), ())
NO_STREAMS: dict[AttemptId, None] = {}
TEXTS = {"a": b"a" * 600, "b": b"b" * 600, "c": b"c" * 5_000, "d": b"d" * 100}


class FakeLauncher:
    """Listens where a launcher does, and keeps what it is told."""

    def __init__(self, path: str) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(path)
        self._listening.listen()
        self._reader = FrameReader()
        self.told: list[ToLauncher] = []

    def accept(self, said: FromLauncher = WELCOME) -> None:
        self._connection, _ = self._listening.accept()
        self._connection.setblocking(False)
        self.tell(said)

    def tell(self, message: FromLauncher, descriptors: Sequence[int] = ()) -> None:
        content = frame(msgspec.msgpack.encode(message))
        socket.send_fds(self._connection, [content], descriptors)

    def take(self) -> list[Launch]:
        """The orders so far."""
        try:
            frames = self._reader.feed(self._connection.recv(1 << 20))
        except BlockingIOError:
            frames = []
        self.told += [msgspec.msgpack.decode(each, type=ToLauncher) for each in frames]
        return [each for each in self.told if isinstance(each, Launch)]

    def hang_up(self) -> None:
        self._connection.close()

    def close(self) -> None:
        self.hang_up()
        self._listening.close()


def order(number: int, environment: str) -> LaunchAttempt:
    spec = JobSpec(Account("staff", "ann"), "ann", "job", ("true",), "/", environment=environment)
    return LaunchAttempt(AttemptId("ume", number, 0, 1), spec, ())


def client(path, streams=NO_STREAMS, on_event=lambda _: None):
    payloads = PayloadStore(TEXTS.__getitem__)
    return LauncherClient(path, 1000, payloads, streams, on_event, Routes())


def test_texts_that_are_large_together_go_in_several_messages(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher_client, "LAUNCH_BYTES_MAX", 1_000)
    monkeypatch.setattr(launcher_client, "TEMPLATE_BYTES_MAX", 4_000)
    path = str(tmp_path / "launcher.sock")
    launcher = FakeLauncher(path)
    heard: list[LauncherEvent] = []

    async def body() -> None:
        link = client(path, on_event=heard.append)
        link.connect()
        launcher.accept()
        await until(lambda: link.welcome is not None)
        link.perform([order(1, "a"), order(2, "b"), order(3, "c"), order(4, "d"), order(2, "b")])
        await until(lambda: sum(len(each.orders) for each in launcher.take()) == 4)
        link.close()

    in_loop(body)
    launches = launcher.take()
    launcher.close()
    sizes = [sum(len(each.environment) for each in launch.templates) for launch in launches]
    assert sizes == [600, 700]
    assert [[each.attempt.number for each in launch.orders] for launch in launches] == [
        [1],
        [2, 4, 2],
    ]
    [end] = [each for each in heard if isinstance(each, AttemptExited)]
    assert (end.attempt.number, end.cause, end.exit_code) == (3, EndCause.FAILED, 126)
    assert "5000 bytes" in end.message
    assert "TEMPLATE_BYTES_MAX" in end.message


def test_the_seats_of_an_attempt_are_ordered_with_the_addresses_of_their_machines(tmp_path):
    path = str(tmp_path / "launcher.sock")
    launcher = FakeLauncher(path)
    places = (SeatPlace("ume", 2), SeatPlace("take", 3))
    wanted = msgspec.structs.replace(order(1, "a"), ranks=2, seats=places, port=4711)

    async def body() -> None:
        payloads, hosts = PayloadStore(TEXTS.__getitem__), {"ume": "10.0.0.1", "take": "take"}
        link = LauncherClient(
            path, 1000, payloads, NO_STREAMS, lambda _: None, Routes(), hosts.__getitem__
        )
        link.connect()
        launcher.accept()
        await until(lambda: link.welcome is not None)
        link.perform([wanted])
        await until(launcher.take)
        link.close()

    in_loop(body)
    [told] = launcher.take()[0].orders
    launcher.close()
    hosts = (SeatHost("ume", "10.0.0.1", 2), SeatHost("take", "take", 3))
    assert told.parallel == ParallelSeat(2, hosts, 4711)


def test_descriptors_beside_a_message_become_the_streams_of_a_task(tmp_path):
    path, taken = str(tmp_path / "launcher.sock"), {}
    launcher = FakeLauncher(path)
    streams = SimpleNamespace(take=lambda attempt, ends: taken.update({attempt: ends}))
    attempts = [AttemptId("ume", number, 0, 1) for number in (1, 2)]

    async def body() -> None:
        link = client(path, streams)
        link.connect()
        launcher.accept()
        await until(lambda: link.welcome is not None)
        pipes = [os.pipe() for _ in range(2)]
        ends = StreamEnds(((attempts[0], ("in", "out")), (attempts[1], ("tty",))))
        launcher.tell(ends, [*pipes[0], pipes[1][0]])
        await until(lambda: len(taken) == 2)
        os.write(pipes[0][1], b"through")
        assert os.read(taken[attempts[0]]["in"], 100) == b"through"
        for fd in (*pipes[0], *pipes[1], *taken[attempts[0]].values(), taken[attempts[1]]["tty"]):
            os.close(fd)
        link.close()

    in_loop(body)
    assert [list(ends) for ends in taken.values()] == [["in", "out"], ["tty"]]
    launcher.close()


def test_errors_in_the_launcher_are_trouble_until_another_one_is_there(tmp_path):
    path = str(tmp_path / "launcher.sock")
    launcher = FakeLauncher(path)

    async def body() -> None:
        link = client(path)
        link.connect()
        launcher.accept()
        await until(lambda: link.welcome is not None)
        assert link.trouble() == []
        launcher.tell(Defective(3, "ValueError at x.py:1"))
        await until(lambda: bool(link.trouble()))
        [line] = link.trouble()
        assert "in the launcher affected an attempt or a message 3 times" in line
        assert "ValueError at x.py:1" in line
        assert "log/launcher.log" in line
        launcher.tell(WELCOME)
        await until(lambda: not link.trouble())
        launcher.tell(msgspec.structs.replace(WELCOME, defective=Defective(1, "KeyError")))
        await until(lambda: bool(link.trouble()))
        assert "once, the last: KeyError" in link.trouble()[0]
        link.close()

    in_loop(body)
    launcher.close()


def test_a_launcher_of_the_version_before_is_trouble_until_another_one_is_there(tmp_path):
    path = str(tmp_path / "launcher.sock")
    launcher = FakeLauncher(path)

    async def body() -> None:
        link = client(path)
        link.connect()
        launcher.accept(VersionRefused(LAUNCHER_VERSION - 1))
        await until(lambda: bool(link.trouble()))
        launcher.hang_up()
        [line] = link.trouble()
        assert f"the launcher uses version {LAUNCHER_VERSION - 1} of" in line
        assert f"this daemon version {LAUNCHER_VERSION}: its tasks go on" in line
        assert "'iriai down --kill'" in line
        await until(lambda: link._stream is None)
        await until(lambda: link._stream is not None)
        launcher.accept()
        await until(lambda: link.welcome is not None)
        assert link.trouble() == []
        link.close()

    in_loop(body)
    launcher.close()
