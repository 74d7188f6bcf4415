"""The standard streams as descriptors: what may be passed on, and writing all of something."""

from __future__ import annotations

import os
import select

from iriai.client.tail import Sink

STDIN, STDOUT, STDERR = 0, 1, 2
EXIT_READER_GONE = 128 + 13


def passable_stdin() -> int | None:
    """Standard input, if a task should have it; None where it would read nothing anyway."""
    try:
        status = os.fstat(STDIN)
        if os.path.samestat(status, os.stat(os.devnull)):  # noqa: PTH116
            return None
        if os.isatty(STDIN) and os.tcgetpgrp(STDIN) != os.getpgrp():
            return None  # in the background: the shell in front reads the terminal
    except OSError:
        return None
    return STDIN


def sink_to(descriptor: int) -> Sink:
    """Writes all it is given to `descriptor`; raises BrokenPipeError when nobody reads it."""

    def sink(data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:  # whoever shares it made it non-blocking
                poll = select.poll()
                poll.register(descriptor, select.POLLOUT)
                poll.poll()

    return sink


def reader_gone() -> int:
    """Whoever read our output has enough: the exit code of a program that SIGPIPE ends."""
    # What is still buffered has nowhere to go, and must not be complained about at the exit.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, STDOUT)
    os.close(nowhere)
    return EXIT_READER_GONE
