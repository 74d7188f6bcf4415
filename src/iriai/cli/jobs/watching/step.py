"""Following a job step: its output and its input, here, until it is over."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from iriai.cli.framework.standard_streams import STDERR, STDIN, remark, sink_to
from iriai.client.client import Client
from iriai.client.step import StepFollower
from iriai.model.submission import Interaction
from iriai.wire.requests import Outcome
from iriai.wire.steps import NumberStep, OrderStep, WriteStep


def follow_step(
    connect: Callable[[], Client],
    where: NumberStep,
    command: tuple[str, ...],
    source: int | None,
    output: int,
    *,
    is_terminal: bool,
) -> Outcome:
    """Run a command as a job step; return how it ended.

    `source` and `output` are the descriptors of its input, if it has one, and of its output; with
    `is_terminal` its input is the terminal here.
    """
    window, name = (0, 0), ""
    if is_terminal:
        from iriai.cli.jobs.watching import pty

        window, name, source = pty.window(), os.environ.get("TERM", ""), STDIN
    with connect() as client, ExitStack() as settings:
        numbered = client.number_step(where)
        order = OrderStep(
            numbered.step,
            numbered.rank,
            numbered.machine,
            command,
            Interaction.TERMINAL if is_terminal else Interaction.STREAM,
            source is not None,
            window,
            name,
        )
        step = client.step(order)
        interruption = settings.enter_context(_interruption())
        step.begin()
        if is_terminal:
            settings.enter_context(pty.raw_terminal())
        if source is not None:
            from iriai.client.input import InputSender

            first = WriteStep(numbered.step, 0, b"")
            sender = InputSender(connect, first, source, is_terminal=is_terminal)
            if is_terminal:
                settings.enter_context(pty.window_changes(sender))
            sender.start()
        step.follow(sink_to(output), sink_to(STDERR), remark)
        outcome = _follow(step, interruption)
        step.leave()
    return outcome


def _follow(step: StepFollower, interruption: list[int]) -> Outcome:
    """Copy the output until the step is over; end the step when the user interrupts."""
    ended = 0
    while (outcome := step.poll()) is None:
        if len(interruption) > ended:
            if ended:
                raise KeyboardInterrupt
            ended += 1
            step.end()
    return outcome


@contextmanager
def _interruption() -> Iterator[list[int]]:
    """Collect the interrupts within a block: the first ends the step, the second this command."""
    received: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, before)
