"""Whether others than our tasks compute on a GPU of NVIDIA's."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from typing import NoReturn

from iriai.launcher.owner.polled.nvml_process import (
    ASK,
    GPUS_MAX,
    LIBRARY,
    PROCESS_NAME,
    PROCESSES_MAX,
    serve,
)
from iriai.launcher.owner.polled.own_processes import is_foreign
from iriai.launcher.owner.polled.reading import CannotLook, names_in
from iriai.launcher.system.forked_process import fork_process
from iriai.model.owner import SignKind
from iriai.model.units import printable

ANSWER_S = 30.0
"""A library that takes longer hangs: its process is ended."""
RETRY_S = 60.0
"""Until another one is started."""
ANSWER_BYTES_MAX = 1 << 20
"""More is no answer."""
RECEIVE_BYTES = 1 << 16
NAMED_MAX = 4
"""GPUs in a note."""
WORDS_MAX = 200
DIGITS_MAX = 10
ENDED = "the process of NVIDIA's library has ended"


class GpuProbe:
    """Asks the process with the library at each look, and looks at its last answer."""

    kind = SignKind.GPU

    def __init__(self, launcher: int, proc: str = "/proc", library: str = LIBRARY) -> None:
        self._launcher, self._proc, self._library = launcher, proc, library
        self._pid = 0
        self._socket: socket.socket | None = None
        """None: there is no process."""
        self._left: list[int] = []
        """Processes that were to end."""
        self._asked_s = inf
        """Since when an answer is due; infinite: none is."""
        self._retry_s = -inf
        self._content = b""
        self._why = ""
        """Why there is no process."""
        self._answer: str | None = None
        """The last one."""
        self.holds = False
        self.note = "asks NVIDIA's library"

    def look(self, now_s: float) -> Iterator[None]:
        """Take the answer to the last question, and ask anew. Raises `CannotLook` and OSError."""
        if not names_in(f"{self._proc}/driver/nvidia/gpus", GPUS_MAX):
            self.close()
            raise CannotLook(f"{self._proc}/driver/nvidia: there is no GPU of NVIDIA's")
        if self._left:
            self._reap()
        if self._socket is None:
            if now_s < self._retry_s:
                raise CannotLook(self._why)
            self._pid, self._socket = fork_process(
                PROCESS_NAME, lambda socket: serve(socket, self._library)
            )
        self._receive(self._socket, now_s)
        if self._asked_s == inf:
            self._ask(self._socket, now_s)
        elif now_s > self._asked_s + ANSWER_S:
            self._lose("NVIDIA's library does not answer", now_s)
        if self._answer is not None:
            yield from self._judge(self._answer)

    def _ask(self, asked: socket.socket, now_s: float) -> None:
        try:
            asked.send(ASK)
        except OSError:
            self._lose(ENDED, now_s)
        self._asked_s = now_s

    def _receive(self, answers: socket.socket, now_s: float) -> None:
        """Take in the last whole line that has come."""
        content = b"?"
        try:
            while content and len(self._content) <= ANSWER_BYTES_MAX:
                content = answers.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
                self._content += content
        except BlockingIOError:
            content = b"?"
        except ConnectionError:
            content = b""
        if not content:
            self._lose(ENDED, now_s)
        lines = self._content.split(b"\n")
        if len(lines) > 1:
            self._answer = lines[-2].decode(errors="replace")
            self._asked_s = inf
        self._content = lines[-1]

    def _judge(self, answer: str) -> Iterator[None]:
        """Find what is not ours in an answer."""
        if answer.startswith("!"):
            raise CannotLook(f"NVIDIA's library: {printable(answer[1:WORDS_MAX])}")
        foreign = dict[int, int]()
        gpus = answer.split(";")[:GPUS_MAX]
        for gpu, pids in enumerate(gpus):
            for pid in pids.split(",")[:PROCESSES_MAX]:
                yield
                is_pid = pid.isdecimal() and len(pid) <= DIGITS_MAX
                if is_pid and is_foreign(int(pid), self._launcher, self._proc):
                    foreign[gpu] = foreign.get(gpu, 0) + 1
        self.holds = bool(foreign)
        named = [f"{count} on GPU {gpu}" for gpu, count in foreign.items()][:NAMED_MAX]
        words = f"processes of others: {', '.join(named)}" if named else "no process of others"
        self.note = f"{words} ({len(gpus)} GPU{'s' if len(gpus) > 1 else ''})"

    def _lose(self, why: str, now_s: float) -> NoReturn:
        self.close()
        self._why, self._retry_s = why, now_s + RETRY_S
        raise CannotLook(why)

    def close(self) -> None:
        """End the process, if there is one."""
        if self._socket is None:
            return
        self._socket.close()
        self._socket, self._content, self._answer, self._asked_s = None, b"", None, inf
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._left.append(self._pid)
        self._reap()

    def _reap(self) -> None:
        """Take the ends of processes that were left; one that hangs in the driver has none yet."""
        self._left = [pid for pid in self._left if not _has_ended(pid)]


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
