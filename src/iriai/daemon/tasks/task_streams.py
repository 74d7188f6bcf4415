"""Streams of the tasks that run here: their input, their output, their terminals."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from iriai.daemon.loop.routes import LauncherOrder, OutputGrown, Routes
from iriai.daemon.tasks.input_pipe import InputPipe, LostPlace
from iriai.daemon.tasks.output_pump import OutputPump
from iriai.daemon.tasks.spool import Spool
from iriai.launcher.contract.messages import EndInput, Terminate
from iriai.model.ids import AttemptId
from iriai.model.job import INPUT, OUTPUT, OUTPUTS, STREAM_BYTES_MAX, TERMINAL
from iriai.model.state import EndCause
from iriai.model.units import format_size
from iriai.protocol.messages.streams import Input, InputTaken
from iriai.system.access_list import READ, give_access

log = logging.getLogger(__name__)

WAITING_MAX = 256
"""Pieces of input of one task that wait for it to read; a home sends 1 MiB ahead."""
THREADS = 2
"""For moves of output; a slow disk holds up others' output, and nothing else."""
LOST_PLACE = (
    "the daemon of its machine was killed while it passed standard input on, so nobody knows how "
    "much the task has read"
)

OnTaken = Callable[[InputTaken], None]


class _TaskStreams:
    """Those of one attempt."""

    def __init__(self) -> None:
        self.pumps: dict[str, OutputPump] = {}
        self.input: InputPipe | None = None
        self.waiting: list[tuple[int, OnTaken]] = []
        """Whom to tell once the input before an offset was written, or all that came."""
        self.is_terminal = False
        self.is_ended = False
        """Whether it is being ended over its output."""


class TaskStreams:
    """The streams of all attempts that run here.

    Tells `OutputGrown` to the routes; ends a task whose output cannot be kept.
    """

    def __init__(self, spool: Spool, routes: Routes) -> None:
        self._spool = spool
        self._routes = routes
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="output")
        self._streams: dict[AttemptId, _TaskStreams] = {}
        self._ranks: dict[AttemptId, list[AttemptId]] = {}
        """By attempt: its ranks here that have streams, without the first of all."""

    def __contains__(self, attempt: AttemptId) -> bool:
        return attempt in self._streams

    def take(self, attempt: AttemptId, ends: dict[str, int]) -> None:
        """Serve the streams of an attempt; `ends` are its descriptors, by kind."""
        if attempt in self._streams:  # from a launcher that reports again
            for fd in ends.values():
                os.close(fd)
            return
        if attempt.rank and not attempt.step:
            self._ranks.setdefault(attempt.seat(0), []).append(attempt)
        streams = self._streams[attempt] = _TaskStreams()
        terminal = ends.pop(TERMINAL, -1)
        if terminal >= 0:
            streams.is_terminal = True
            ends = {INPUT: os.dup(terminal), OUTPUT: terminal}
        for kind, fd in ends.items():
            try:
                if kind == INPUT:
                    self._take_input(attempt, streams, fd)
                else:
                    self._take_output(attempt, streams, kind, fd, is_terminal=terminal >= 0)
            except LostPlace:
                self._terminate(attempt, EndCause.LOST, LOST_PLACE)
            except OSError as error:
                os.close(fd)
                words = f"its {kind} stream cannot be kept: {error.strerror}"
                self._terminate(attempt, EndCause.FAILED, words)

    def finish(self, attempt: AttemptId, then: Callable[[], None]) -> None:
        """Call `then` once all that a seat or a step has printed is in its files; it is over.

        A machine has one seat of an attempt: what ranks have streams here are of that.
        """
        further = [] if attempt.step else self._ranks.pop(attempt.seat(0), [])
        ranks = dict.fromkeys((attempt, *further))
        left = len(ranks)

        def finished(rank: AttemptId) -> None:
            nonlocal left
            left -= 1
            for kind in OUTPUTS if rank != attempt else ():  # whoever follows it hears of its end
                self._routes.tell(OutputGrown(rank, kind))
            if not left:
                then()

        for rank in ranks:
            self._finish(rank, partial(finished, rank))

    def _finish(self, attempt: AttemptId, then: Callable[[], None]) -> None:
        """Do what `finish` does for one rank."""
        streams = self._streams.get(attempt)
        if streams is None:
            then()
            return
        self._close_input(streams)
        left = list(streams.pumps)

        def emptied(kind: str) -> None:
            left.remove(kind)
            if not left:
                self._streams.pop(attempt, None)
                with suppress(OSError):
                    os.unlink(self._spool.path(attempt, INPUT))  # noqa: PTH108
                then()

        for kind, pump in list(streams.pumps.items()):
            pump.finish(partial(emptied, kind))
        if not streams.pumps:
            self._streams.pop(attempt, None)
            then()

    def input(self, message: Input, on_taken: OnTaken) -> None:
        """Pass input on to a task; `on_taken` hears how far it has come, once it is written."""
        streams = self._streams.get(message.attempt)
        pipe = streams.input if streams is not None else None
        if streams is None or pipe is None:
            on_taken(InputTaken(message.attempt, 0, is_open=False))
            return
        if message.window is not None:
            pipe.resize(*message.window)
        streams.waiting.append((message.offset + len(message.content), on_taken))
        if message.is_abandoned:
            self._abandon(message.attempt, streams, pipe)
        else:
            pipe.take(message.offset, message.content, is_end=message.is_end)
        self._tell_taken(message.attempt, streams)
        if len(streams.waiting) > WAITING_MAX:  # its sender goes on without answers
            _, oldest = streams.waiting.pop(0)
            oldest(InputTaken(message.attempt, pipe.buffer.written, pipe.is_open))

    def _abandon(self, attempt: AttemptId, streams: _TaskStreams, pipe: InputPipe) -> None:
        """End the input after what has come; hang up a terminal."""
        if not streams.is_terminal:
            pipe.end()
            return
        pipe.close()
        for pump in streams.pumps.values():
            pump.close()
        self._routes.tell(LauncherOrder(EndInput(attempt)))

    def forget(self, step: AttemptId) -> None:
        """Delete what a job step printed, whose client has all of it."""
        self._spool.delete(step)

    def close(self) -> None:
        """Stop; the launcher keeps what was not read for the next daemon."""
        for streams in self._streams.values():
            for pump in streams.pumps.values():
                pump.close()
            if streams.input is not None:
                streams.input.close()
        self._streams.clear()
        self._threads.shutdown()

    def _take_input(self, attempt: AttemptId, streams: _TaskStreams, fd: int) -> None:
        marks = self._spool.open(attempt, INPUT)
        tell = partial(self._tell_taken, attempt, streams)
        streams.input = InputPipe(fd, marks, tell)

    def _take_output(
        self, attempt: AttemptId, streams: _TaskStreams, kind: str, fd: int, *, is_terminal: bool
    ) -> None:
        file = self._spool.open(attempt, kind)
        if not is_terminal and os.geteuid() != (uid := os.fstat(fd).st_uid):
            give_access(file, uid, READ)  # by its name, which `logs --json` prints
        streams.pumps[kind] = OutputPump(
            fd,
            file,
            self._threads,
            partial(self._grown, attempt, streams, kind),
            partial(self._not_kept, attempt, streams),
            is_terminal=is_terminal,
        )

    def _grown(self, attempt: AttemptId, streams: _TaskStreams, kind: str) -> None:
        self._routes.tell(OutputGrown(attempt, kind))
        size_bytes = streams.pumps[kind].size_bytes
        if size_bytes > STREAM_BYTES_MAX:
            words = (
                f"it printed {format_size(size_bytes)}; the limit for output that is followed is "
                f"STREAM_BYTES_MAX = {format_size(STREAM_BYTES_MAX)}: write to a file instead"
            )
            self._end(attempt, streams, words)

    def _not_kept(self, attempt: AttemptId, streams: _TaskStreams, why: str) -> None:
        self._end(attempt, streams, f"its output cannot be kept: {why}")

    def _end(self, attempt: AttemptId, streams: _TaskStreams, words: str) -> None:
        if not streams.is_ended:
            streams.is_ended = True
            self._terminate(attempt, EndCause.FAILED, words)

    def _terminate(self, attempt: AttemptId, cause: EndCause, words: str) -> None:
        log.warning("%s is ended: %s", attempt, words)
        self._routes.tell(LauncherOrder(Terminate((attempt,), cause, 0.0, words)))

    def _tell_taken(self, attempt: AttemptId, streams: _TaskStreams) -> None:
        pipe = streams.input
        if pipe is None:
            return
        if not pipe.is_open and pipe.buffer.is_ending:
            pipe.buffer.is_ending = False
            self._routes.tell(LauncherOrder(EndInput(attempt)))
        waiting, streams.waiting = streams.waiting, []
        for end, on_taken in waiting:
            if pipe.is_idle or pipe.buffer.written >= end:
                on_taken(InputTaken(attempt, pipe.buffer.written, pipe.is_open))
            else:
                streams.waiting.append((end, on_taken))

    def _close_input(self, streams: _TaskStreams) -> None:
        if streams.input is not None:
            streams.input.close()
            streams.input.buffer.is_ending = False
