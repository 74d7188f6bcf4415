"""Streams of tasks here: what passes, what the next daemon finds, what a full disk costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from iriai.daemon.loop.routes import LauncherOrder, OutputGrown, Routes
from iriai.daemon.tasks import task_streams
from iriai.daemon.tasks.spool import Spool
from iriai.daemon.tasks.task_streams import TaskStreams
from iriai.launcher.contract.messages import EndInput, Terminate
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.protocol.messages.streams import Input, InputTaken
from tests.support.loops import in_loop, until

ATTEMPT = AttemptId("ume", 1, 0, 1)


class Ends:
    """A task's side of its streams, and all that the daemon tells of them."""

    def __init__(self, spool: Path) -> None:
        routes, self.told, self.taken = Routes(), list[object](), list[InputTaken]()
        for kind in (LauncherOrder, OutputGrown):
            routes.take(kind, self.told.append)
        self.spool = Spool(str(spool))
        self.streams = TaskStreams(self.spool, routes)
        self.reads, self._writes = os.pipe()
        out, self.prints = os.pipe()
        for fd in (self._writes, out):
            os.set_blocking(fd, False)
        self._kept = {"in": os.dup(self._writes), "out": os.dup(out)}
        """As a launcher keeps them for the next daemon."""
        self.streams.take(ATTEMPT, {"in": self._writes, "out": out})

    def again(self) -> None:
        """Another daemon takes over."""
        self.streams.close()
        routes = Routes()
        routes.take(LauncherOrder, self.told.append)
        self.streams = TaskStreams(self.spool, routes)
        self.streams.take(ATTEMPT, {kind: os.dup(fd) for kind, fd in self._kept.items()})

    def send(self, offset: int, content: bytes, *, is_end: bool = False) -> None:
        self.streams.input(Input(ATTEMPT, offset, content, is_end), self.taken.append)

    @property
    def orders(self) -> list[object]:
        return [each.message for each in self.told if isinstance(each, LauncherOrder)]

    def close(self) -> None:
        self.streams.close()
        for fd in (self.reads, self.prints, *self._kept.values()):
            os.close(fd)


def story(spool: Path, body: Callable[[Ends], Coroutine[None, None, None]]) -> None:
    async def told() -> None:
        ends = Ends(spool)
        try:
            await body(ends)
        finally:
            ends.close()

    in_loop(told)


def test_input_goes_to_the_task_and_its_end_to_the_launcher(tmp_path):
    async def body(ends: Ends) -> None:
        ends.send(0, b"one ")
        ends.send(4, b"two", is_end=True)
        assert os.read(ends.reads, 100) == b"one two"
        assert [each.offset for each in ends.taken] == [4, 7]
        assert not ends.taken[-1].is_open
        assert ends.orders == [EndInput(ATTEMPT)]

    story(tmp_path, body)


def test_what_does_not_follow_is_answered_with_where_to_go_on(tmp_path):
    async def body(ends: Ends) -> None:
        ends.send(0, b"one")
        ends.send(10, b"gap")
        ends.send(0, b"one")
        assert os.read(ends.reads, 100) == b"one"
        assert ends.taken == [InputTaken(ATTEMPT, 3, is_open=True)] * 3

    story(tmp_path, body)


def test_the_next_daemon_goes_on_where_the_last_one_was(tmp_path):
    async def body(ends: Ends) -> None:
        ends.send(0, b"one ")
        os.write(ends.prints, b"first ")
        await until(lambda: ends.spool.size_bytes(ATTEMPT, "out") == 6)
        ends.again()
        os.write(ends.prints, b"second")
        ends.send(0, b"one ")
        assert ends.taken[-1].offset == 4
        ends.send(4, b"two")
        assert os.read(ends.reads, 100) == b"one two"
        await until(lambda: ends.spool.size_bytes(ATTEMPT, "out") == 12)
        assert ends.spool.read(ATTEMPT, "out", 0, 100) == b"first second"

    story(tmp_path, body)


def test_a_task_is_lost_when_nobody_knows_how_much_it_has_read(tmp_path):
    async def body(ends: Ends) -> None:
        ends.send(0, b"one")
        ends.streams.close()
        marks = Path(ends.spool.path(ATTEMPT, "in"))
        marks.write_bytes((3).to_bytes(8, "little") + (2).to_bytes(8, "little"))
        ends.again()
        [order] = ends.orders
        assert isinstance(order, Terminate)
        assert order.cause is EndCause.LOST

    story(tmp_path, body)


def test_an_end_is_told_after_all_that_was_printed_is_stored(tmp_path):
    async def body(ends: Ends) -> None:
        ended: list[bytes] = []
        os.write(ends.prints, bytes(60_000))
        ends.streams.finish(
            ATTEMPT, lambda: ended.append(ends.spool.read(ATTEMPT, "out", 0, 1 << 20))
        )
        await until(lambda: bool(ended))
        assert ended == [bytes(60_000)]
        assert ATTEMPT not in ends.streams

    story(tmp_path, body)


def test_a_seat_has_ended_when_all_that_each_of_its_ranks_has_printed_is_stored(tmp_path):
    async def body(ends: Ends) -> None:
        ranks, ended, other = [ATTEMPT.seat(1), ATTEMPT.seat(2)], list[bool](), ATTEMPT.of_step(1)
        pipes = [os.pipe() for _ in (*ranks, other)]
        for rank, (reads, prints) in zip((*ranks, other), pipes, strict=True):
            os.set_blocking(reads, False)
            ends.streams.take(rank, {"out": reads})
            os.write(prints, f"rank {rank.rank}".encode() * 9_000)
        ends.streams.finish(ATTEMPT, lambda: ended.append(True))
        await until(lambda: bool(ended))
        for rank in ranks:
            stored = ends.spool.read(rank, "out", 0, 1 << 20)
            assert stored == f"rank {rank.rank}".encode() * 9_000
            assert rank not in ends.streams
        assert other in ends.streams
        assert ended == [True]
        assert all(OutputGrown(rank, "err") in ends.told for rank in ranks)
        for _, prints in pipes:
            os.close(prints)

    story(tmp_path, body)


@pytest.mark.parametrize("limit_bytes", [10, 100_000])
def test_a_task_that_prints_more_than_is_kept_is_ended(tmp_path, monkeypatch, limit_bytes):
    monkeypatch.setattr(task_streams, "STREAM_BYTES_MAX", limit_bytes)

    async def body(ends: Ends) -> None:
        os.write(ends.prints, bytes(50_000))
        await until(lambda: ends.spool.size_bytes(ATTEMPT, "out") == 50_000)
        await until(lambda: any(isinstance(each, OutputGrown) for each in ends.told))
        assert [type(each) for each in ends.orders] == ([Terminate] if limit_bytes == 10 else [])

    story(tmp_path, body)


def test_a_task_whose_output_cannot_be_kept_is_ended_with_the_reason(tmp_path):
    async def body(ends: Ends) -> None:
        streams = ends.streams._streams[ATTEMPT]
        pump = streams.pumps["out"]
        os.close(pump._file)
        pump._file = os.open("/dev/full", os.O_RDWR)
        os.write(ends.prints, b"x")
        await until(lambda: bool(ends.orders))
        [order] = ends.orders
        assert isinstance(order, Terminate)
        assert order.message == "its output cannot be kept: No space left on device"

    story(tmp_path, body)


def test_a_task_that_closes_its_input_wants_no_more(tmp_path):
    async def body(ends: Ends) -> None:
        os.close(ends.reads)
        ends.reads = os.open(os.devnull, os.O_RDONLY)
        ends.send(0, b"nobody reads")
        assert ends.taken == [InputTaken(ATTEMPT, 0, is_open=False)]

    story(tmp_path, body)


def test_more_than_may_wait_is_answered_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(task_streams, "WAITING_MAX", 4)

    async def body(ends: Ends) -> None:
        ends.send(0, bytes(1 << 20))  # the pipe holds a part of it
        for _ in range(6):
            ends.send(1 << 40, b"x")
        assert len(ends.taken) == 3

    story(tmp_path, body)
