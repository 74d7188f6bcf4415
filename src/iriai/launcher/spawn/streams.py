"""Standard input, output and terminals of the tasks of `run`: pipes between a task and the daemon.

The launcher makes them, and keeps the daemon's ends until the task's end is acknowledged. So a
daemon that restarts gets them again with all that is in them, and the task notices nothing. The
launcher itself reads and writes none of them.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from contextlib import suppress
from typing import NamedTuple

from iriai.launcher.connection import Passed
from iriai.launcher.contract.messages import StreamEnds, StreamKind
from iriai.model.ids import AttemptId
from iriai.model.job import (
    JobSpec,
)
from iriai.model.submission import Interaction
from iriai.system.passwd_cache import Login

PIPE_BYTES = 1 << 20
"""As much as the kernel lets any user have: fewer wake-ups for a stream of many bytes."""
ENDS_MAX = 60
"""Descriptors beside one message; the kernel passes 253, and a daemon takes 64 that it has not
assigned yet."""


class TaskEnds(NamedTuple):
    """What becomes a task's 0, 1 and 2, and what it has beside these; -1: nothing."""

    stdin: int = -1
    stdout: int = -1
    stderr: int = -1
    pmi: int = -1
    """The connection of a rank to its process manager."""

    def close(self) -> None:
        """Close them: the task has copies."""
        for fd in {each for each in self if each >= 0}:
            os.close(fd)


NO_ENDS = TaskEnds()


class Streams:
    """The daemon's ends, by attempt and kind."""

    def __init__(self) -> None:
        self._kept: dict[AttemptId, dict[StreamKind, int]] = {}
        self._new: list[AttemptId] = []
        self._ranks: dict[AttemptId, list[AttemptId]] = {}
        """Further ranks of a seat, whose streams are named as a seat of that rank."""

    def __contains__(self, attempt: AttemptId) -> bool:
        return attempt in self._kept

    def make(self, seat: AttemptId, spec: JobSpec, login: Login, rank: int) -> TaskEnds:
        """Make the streams of a rank, or a step; return the task's ends, which the caller closes.

        Input is that of rank 0. Raises OSError; nothing stays open then.
        """
        if spec.interaction is Interaction.BATCH:
            return NO_ENDS
        attempt = seat
        if rank != seat.rank and not seat.step:
            attempt = seat.seat(rank)
            self._ranks.setdefault(seat, []).append(attempt)
        takes_input = spec.takes_input and (rank == 0 or seat.step > 0)
        kept = self._kept[attempt] = {}
        self._new.append(attempt)
        try:
            if spec.interaction is Interaction.TERMINAL:
                return _terminal(kept, spec.window, login)
            return _pipes(kept, login, takes_input=takes_input)
        except OSError:
            self.close(attempt)
            raise

    def seat_of(self, rank: AttemptId) -> AttemptId:
        """Return the seat of a rank that has streams of its own; of others, the rank."""
        found = (seat for seat, ranks in self._ranks.items() if rank in ranks)
        return next(found, rank)

    def passed(self, attempts: list[AttemptId] | None = None) -> list[Passed]:
        """Return the messages with the ends of attempts; without any: of those made since."""
        found, result = self._new if attempts is None else attempts, list[Passed]()
        if attempts is None:
            self._new = []
        for attempt in found:
            kept = self._kept.get(attempt)
            if not kept:
                continue
            if not result or len(result[-1].descriptors) + len(kept) > ENDS_MAX:
                result.append(Passed(StreamEnds(()), []))
            message, descriptors = result[-1]
            entry = (attempt, tuple(kept))
            result[-1] = Passed(
                StreamEnds((*message.attempts, entry)), descriptors + list(kept.values())
            )
        return result

    def all_passed(self) -> list[Passed]:
        """Return the messages with the ends of all attempts, for a daemon that has none."""
        self._new = []
        return self.passed(list(self._kept))

    def end_input(self, attempt: AttemptId) -> None:
        """Close the input, or the terminal; the task hears of it once the daemon has too."""
        kept = self._kept.get(attempt, {})
        for kind in ("in", "tty"):
            if kind in kept:
                os.close(kept.pop(kind))

    def close(self, attempt: AttemptId) -> None:
        """Close the ends of a seat whose end the daemon has stored, or of a step."""
        for fd in self._kept.pop(attempt, {}).values():
            os.close(fd)
        if self._ranks:
            for rank in self._ranks.pop(attempt, ()):
                self.close(rank)


def _pipes(kept: dict[StreamKind, int], login: Login, *, takes_input: bool) -> TaskEnds:
    own: dict[StreamKind, int] = {}
    try:
        for kind in ("in", "out", "err") if takes_input else ("out", "err"):
            ends = os.pipe2(os.O_CLOEXEC)
            is_input = kind == "in"
            own[kind], kept[kind] = ends if is_input else reversed(ends)
            os.set_blocking(kept[kind], False)
            with suppress(OSError):  # the user's pipes have as many pages as the kernel allows
                fcntl.fcntl(kept[kind], fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            give_to(own[kind], login, 0o600)
    except OSError:
        TaskEnds(*own.values()).close()
        raise
    return TaskEnds(own.get("in", -1), own["out"], own["err"])


def _terminal(kept: dict[StreamKind, int], window: tuple[int, int], login: Login) -> TaskEnds:
    master, slave = os.openpty()
    kept["tty"] = master
    try:
        os.set_blocking(master, False)
        if any(window):
            fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", *window, 0, 0))
        give_to(slave, login, 0o620)
    except OSError:
        os.close(slave)
        raise
    return TaskEnds(slave, slave, slave)


def give_to(fd: int, login: Login, mode: int) -> None:
    """Give it to the task's user: programs open /dev/stdout, or their terminal, by name."""
    if os.geteuid() == 0:
        os.fchown(fd, login.uid, -1)
        os.fchmod(fd, mode)
