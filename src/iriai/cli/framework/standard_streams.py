"""The standard streams as descriptors: which may be passed on, and complete writes."""

from __future__ import annotations

import os
import re
import select
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from iriai.model.problem import Problem, problem_from
from iriai.model.units import printable

if TYPE_CHECKING:
    from iriai.client.tail import Sink

_CONTROL = "[\x7f-\x9f]"
"""Characters that JSON need not escape but terminals obey; JSON escapes those below a space."""


def print_document(value: object) -> None:
    """Print `value`, which may hold structures of the wire protocol, and texts of any origin."""
    text = msgspec.json.encode(plain(value)).decode()
    print(re.sub(_CONTROL, lambda found: f"\\u{ord(found[0]):04x}", text))


def plain(value: object) -> object:
    """Return `value` in JSON types only; structures become objects without their tags."""
    if isinstance(value, msgspec.Struct):
        fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name: plain(each) for name, each in fields if each is not msgspec.UNSET}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


_places: list[str] = []
"""Where the commands stand that are run now, the innermost last; see `at_place`."""


@contextmanager
def at_place(place: str) -> Iterator[None]:
    """Let each problem that is reported meanwhile begin with `place`, a line of a file."""
    _places.append(place)
    try:
        yield
    finally:
        _places.pop()


def complain(problem: Problem, *, as_json: bool) -> None:
    """Report a problem: one line on standard error, or one document on standard output."""
    if _places:
        message = f"{_places[-1]}: {problem.message}"
        problem = problem_from(problem.exit_code, problem.code, message, problem.hint)
    if as_json:
        print_document({"error": error_document(problem)})
        return
    print(f"iriai: {printable(str(problem))}", file=sys.stderr)


def error_document(problem: Problem) -> dict[str, str]:
    """Return a problem as documents have it, under `error`."""
    return {"code": problem.code, "message": problem.message, "hint": problem.hint}


def remark(text: str) -> None:
    """Print a remark beside the result, on standard error."""
    print(f"iriai: {printable(text)}", file=sys.stderr)


def remarks(texts: Iterable[str]) -> None:
    """Print each of `texts` as `remark` does."""
    for text in texts:
        remark(text)


STDIN, STDOUT, STDERR = 0, 1, 2
EXIT_READER_GONE = 128 + 13


def readable_stdin() -> int | None:
    """Return standard input if a task should have it; None if a read would return nothing."""
    try:
        status = os.fstat(STDIN)
        if os.path.samestat(status, os.stat(os.devnull)):  # noqa: PTH116
            return None
        if os.isatty(STDIN) and os.tcgetpgrp(STDIN) != os.getpgrp():
            return None  # in the background: the shell reads the terminal
    except OSError:
        return None
    return STDIN


def sink_to(descriptor: int) -> Sink:
    """Return a function that writes all it gets to `descriptor`, or raises BrokenPipeError."""

    def sink(data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:  # another process that shares it made it non-blocking
                poll = select.poll()
                poll.register(descriptor, select.POLLOUT)
                poll.poll()

    return sink


def reader_gone() -> int:
    """Return the exit code of a program that SIGPIPE ends: the reader of the output closed it."""
    # Buffered data cannot be written, and must not cause an error at the exit.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, STDOUT)
    os.close(nowhere)
    return EXIT_READER_GONE
