"""`run --pty`: a terminal for a task, joined to the user's own."""

from __future__ import annotations

import os
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from iriai.cli.framework.standard_streams import STDIN, STDOUT, remarks, sink_to
from iriai.cli.jobs.watching.follow import JobFollower, remark_offline
from iriai.cli.jobs.watching.interrupt import Interruption
from iriai.cli.jobs.watching.waiting_line import WaitingLine
from iriai.client.client import Client
from iriai.client.input import InputSender
from iriai.client.tail import Sink
from iriai.wire.requests import JobDraft, LogFile, Outcome, WriteInput


def run_on_terminal(
    connect: Callable[[], Client], client: Client, draft: JobDraft, *, immediate: bool
) -> Outcome:
    """Run the job of `draft` on a new terminal until its end; then restore this terminal.

    `connect` makes another connection, for what is typed.
    """
    sink = sink_to(STDOUT)
    with Interruption() as interruption, ExitStack() as settings:
        submitted = client.submit(draft, takes_input=True, window=window(), immediate=immediate)
        remarks(submitted.warnings)
        job = submitted.id
        line = WaitingLine(client, job)

        def sinks_for(_: LogFile) -> tuple[Sink, Sink]:
            line.clear()
            settings.enter_context(raw_terminal())  # at the first prompt, keys are the task's
            return sink, sink

        watch = JobFollower(client, job, sinks_for, remark_offline)
        try:
            while (outcomes := watch.step()) is None and not watch.is_started:
                if interruption.is_pending:
                    line.clear()
                    interruption.act(client, job)
                line.update(is_started=False)
        finally:
            line.clear()
        if outcomes is None:
            typed = InputSender(connect, WriteInput(job, 0, b""), STDIN, is_terminal=True)
            with window_changes(typed):
                typed.start()
                while (outcomes := watch.step()) is None:
                    pass
        return outcomes[0]


@contextmanager
def raw_terminal() -> Iterator[None]:
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
def window_changes(typed: InputSender) -> Iterator[None]:
    """Keep the size of the task's terminal equal to that of this one."""
    before = signal.signal(signal.SIGWINCH, lambda *_: typed.look())
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def window() -> tuple[int, int]:
    """Return rows and columns of this terminal; 0 without one: the kernel's default."""
    try:
        columns, rows = os.get_terminal_size(STDIN)
    except OSError:
        return 0, 0
    return rows, columns
