"""Serves output of tasks of other homes to these homes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from iriai.daemon.loop.engine import Engine
from iriai.daemon.tasks.spool_cleanup import OF_OTHERS_KEPT_S, SWEEP_S, drop_of_others
from iriai.daemon.tasks.spool_reader import read_piece
from iriai.launcher.directories.spool import spool_name
from iriai.model.ids import AttemptId
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.output import KINDS, PIECE_BYTES, AskOutput, Output

log = logging.getLogger(__name__)

LOOK_S = 0.1
"""Pause between two checks for new output: people do not notice it, and it costs little."""
PATIENCE_S = 10.0
"""Longest wait of an answer without new output: then the home knows that the link works."""
PENDING_MAX = 1000
"""Waiting questions of all homes. One more is not answered if there is no new output: its home asks
again after a while. An empty answer would make it ask at once."""


class OutputServer:
    """Serves output of tasks of other homes to these homes."""

    def __init__(self, engine: Engine, spool: str, say: Callable[[list[Send]], None]) -> None:
        self._engine = engine
        self._home = engine.machine.name
        self._spool = spool
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._pending: dict[tuple[AttemptId, str], asyncio.TimerHandle] = {}
        self._sweeping = self._loop.call_later(SWEEP_S, self._sweep)

    def asked(self, sender: str, ask: AskOutput) -> None:
        """Handle a question of a home, which may only ask about its own attempts."""
        if ask.kind in KINDS:
            self._poll(sender, ask, self._loop.time() + PATIENCE_S)

    def close(self) -> None:
        """Stop all answers."""
        for timer in (self._sweeping, *self._pending.values()):
            timer.cancel()

    def _sweep(self) -> None:
        """Delete, periodically, files of other homes that are no longer requested."""
        machine = self._engine.machine
        running = frozenset(machine.node.calendar) if Part.NODE in machine.parts else frozenset()
        until_wall_s = time.time() - OF_OTHERS_KEPT_S

        def sweep() -> int:
            return drop_of_others(self._spool, self._home, running, until_wall_s)

        self._engine.in_thread(sweep, _tell_swept)
        self._sweeping = self._loop.call_later(SWEEP_S, self._sweep)

    def _poll(self, sender: str, ask: AskOutput, until_s: float) -> None:
        key = ask.attempt, ask.kind
        earlier = self._pending.pop(key, None)
        if earlier is not None:
            earlier.cancel()
        # Before the file is read: the output of an attempt that is over is complete.
        is_over = not self._runs(ask.attempt)
        content = self._read(ask)
        if content or is_over or self._loop.time() >= until_s:
            is_complete = is_over and len(content) < PIECE_BYTES
            told = Output(ask.attempt, ask.kind, ask.offset, content, is_complete)
            self._say([Send(sender, Part.OUTPUT, told)])
        elif len(self._pending) < PENDING_MAX:
            again = partial(self._poll, sender, ask, until_s)
            self._pending[key] = self._loop.call_later(LOOK_S, again)

    def _runs(self, attempt: AttemptId) -> bool:
        machine = self._engine.machine
        return Part.NODE in machine.parts and attempt in machine.node.calendar

    def _read(self, ask: AskOutput) -> bytes:
        path = f"{self._spool}/{spool_name(ask.attempt, ask.kind)}"
        try:
            return read_piece(path, ask.offset, PIECE_BYTES)
        except OSError:  # no output yet, or its output is not followed
            return b""


def _tell_swept(result: asyncio.Future[int]) -> None:
    problem = result.exception()
    if isinstance(problem, OSError):
        log.warning("old output of other homes' tasks was not deleted: %s", problem)
    elif problem is not None:
        raise problem
    elif result.result():
        log.info("%d files of old output of other homes' tasks are deleted", result.result())
