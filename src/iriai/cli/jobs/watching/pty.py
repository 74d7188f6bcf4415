"""`run --pty`: a terminal for a task, joined to the user's own."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from iriai.cli.framework.standard_streams import STDIN, STDOUT, remarks, sink_to
from iriai.cli.jobs.watching.follow import JobFollower, remark_offline
from iriai.cli.jobs.watching.interrupt import Interruption
from iriai.cli.jobs.watching.waiting_line import WaitingLine
from iriai.client.client import Client
from iriai.wire.requests import JobDraft, Outcome

READ_BYTES = 1 << 16
UNSENT_BYTES_MAX = 1 << 16
"""Bytes typed ahead of a task that does not read; beyond it, typing waits too."""
POLL_S = 0.05
"""Interval of polls for the job's state: shorter than people notice."""
_END_OF_FILE = b"\x04"


def run_on_terminal(client: Client, draft: JobDraft) -> Outcome:
    """Run the job of `draft` on a new terminal until its end; then restore this terminal."""
    master, slave = os.openpty()
    try:
        _copy_size(master)
        with Interruption() as interruption:
            try:
                submitted = client.submit(draft, slave)
            finally:
                os.close(slave)
            job = submitted.id
            remarks(submitted.warnings)
            return _follow(client, job, master, interruption)
    finally:
        os.close(master)


def _follow(client: Client, job: str, master: int, interruption: Interruption) -> Outcome:
    """Wait for the start as `run` does, then join the terminals."""
    line = WaitingLine(client, job)
    sink = sink_to(STDOUT)
    watch = JobFollower(client, job, lambda _: (sink, sink), remark_offline)
    try:
        while (outcomes := watch.step()) is None and not watch.is_started:
            if interruption.is_pending:
                line.clear()
                interruption.act(client, job)
            line.update(is_started=False)
    finally:
        line.clear()
    relay = _Relay(master)
    if outcomes is None:
        with _raw_terminal(), _window_changes(master):
            while (outcomes := watch.step()) is None:
                relay.copy(POLL_S)
    relay.drain()
    return outcomes[0]


class _Relay:
    """Copies between this terminal (or standard input) and the task's."""

    def __init__(self, master: int) -> None:
        os.set_blocking(master, False)
        self._master = master
        self._unsent = bytearray()
        self._is_input_open = sys.stdin is not None
        self._is_output_open = True
        self._sink = sink_to(STDOUT)

    def copy(self, timeout_s: float) -> None:
        """Copy what is available, after waiting for at most `timeout_s`."""
        poll = select.poll()
        if self._is_output_open:
            events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
            poll.register(self._master, events)
        if self._is_input_open and len(self._unsent) < UNSENT_BYTES_MAX:
            poll.register(STDIN, select.POLLIN)
        for descriptor, _ in poll.poll(timeout_s * 1000):
            if descriptor == STDIN:
                self._relay_input()
            else:
                self._relay_output()
        self._send()

    def drain(self) -> None:
        """Copy the task's output up to its end."""
        while self._is_output_open and self._relay_output():
            pass

    def _relay_input(self) -> None:
        data = os.read(STDIN, READ_BYTES)
        self._unsent += data or _END_OF_FILE
        self._is_input_open = bool(data)

    def _relay_output(self) -> bool:
        try:
            data = os.read(self._master, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # EIO: nobody has the other side open any more
            data = b""
        self._is_output_open = bool(data)
        self._sink(data)
        return bool(data)

    def _send(self) -> None:
        if self._unsent and self._is_output_open:
            with suppress(OSError):
                del self._unsent[: os.write(self._master, self._unsent)]


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Pass every key to the task; restore the terminal's settings at the end."""
    if not os.isatty(STDIN):
        yield
        return
    before = termios.tcgetattr(STDIN)
    with _ending_in_order():
        tty.setraw(STDIN, termios.TCSADRAIN)  # what was typed ahead is kept
        try:
            yield
        finally:
            termios.tcsetattr(STDIN, termios.TCSADRAIN, before)


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Turn signals that end this process into exceptions, so that settings are restored."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, _end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


@contextmanager
def _window_changes(master: int) -> Iterator[None]:
    """Keep the size of the task's terminal equal to that of this one."""
    _copy_size(master)
    before = signal.signal(signal.SIGWINCH, lambda *_: _copy_size(master))
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _copy_size(master: int) -> None:
    with suppress(OSError):  # without a terminal, the kernel's default size remains
        size = fcntl.ioctl(STDIN, termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(master, termios.TIOCSWINSZ, size)
