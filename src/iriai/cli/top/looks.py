"""What a person may do with a job in `iriai top`: look into it, hold, release, cancel it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from io import StringIO

from iriai.cli.framework.table import Column, count_text, print_pairs, printable_lines
from iriai.cli.jobs.show import print_detail
from iriai.cli.jobs.why import answer_text
from iriai.client.client import Client
from iriai.client.tail import open_output
from iriai.model.problem import Refused
from iriai.model.units import printable
from iriai.wire.changes import Changed
from iriai.wire.requests import LogFile

TAIL_BYTES = 16 << 10
"""Of each output: what fits on a screen or two."""
FILES_MAX = 8
"""Tasks whose output is shown, the latest."""
PIECES_MAX = 64
"""Pieces of output that a home is asked for, from the beginning, to find its end."""


def show_text(client: Client, job: str) -> str:
    """Return the details of a job, as `iriai show` prints them."""
    out = StringIO()
    print_detail(client.show(job), out)
    return out.getvalue()


def why_text(client: Client, job: str) -> str:
    """Return why a job waits, as `iriai why` prints it."""
    return printable_lines(answer_text(client.why(job)))


def logs_text(client: Client, job: str) -> str:
    """Return the end of what the latest tasks of a job have written."""
    files = client.logs(job)
    if not files:
        return f"{job} has not started, so there is no output yet"
    parts = [f"and {len(files) - FILES_MAX} more: iriai logs {job}"] if files[FILES_MAX:] else []
    for file in files[-FILES_MAX:]:
        for kind, path in (("out", file.output), ("err", file.error)):
            if path:
                parts += [f"==> {file.task}: {path} <==", _tail_text(client, file, kind, path)]
    return printable_lines("\n".join(parts))


def _tail_text(client: Client, file: LogFile, kind: str, path: str) -> str:
    try:
        tail = _kept_tail(client, file, kind) if file.is_kept else _file_tail(path, file.user)
    except FileNotFoundError:
        if file.machine and not file.is_fetched:
            return f"the output of {file.task} is on {file.machine}"
        return "(nothing yet)"
    except OSError as problem:
        return f"it cannot be read: {problem.strerror}"
    return tail.decode(errors="replace").rstrip("\n") or "(nothing yet)"


def _file_tail(path: str, user: str) -> bytes:
    """Return the end of a file; raise OSError."""
    descriptor = open_output(path, user)
    try:
        end = os.fstat(descriptor).st_size
        return os.pread(descriptor, TAIL_BYTES, max(0, end - TAIL_BYTES))
    finally:
        os.close(descriptor)


def _kept_tail(client: Client, file: LogFile, kind: str) -> bytes:
    """Return the end of output that its home keeps, as far as it is not very long."""
    reader = client.output(file, kind)
    tail, offset = b"", 0
    for _ in range(PIECES_MAX):
        piece = reader.read(offset)
        if not piece.content:
            break
        offset += len(piece.content)
        tail = (tail + piece.content)[-TAIL_BYTES:]
    return tail


def row_text(columns: Sequence[Column[object]], row: object) -> str:
    """Return all that a table knows of a row, also what has no room in it."""
    out = StringIO()
    print_pairs([(column.header.lower(), column.cell(row)) for column in columns], out)
    return out.getvalue()


def _changed_text(changed: Changed, done: str) -> str:
    lines = [
        f"{printable(name)}: {count_text(tasks, 'task')} {done}"
        for name, tasks in changed.tasks.items()
    ]
    if changed.problems:
        raise Refused("not-changed", "\n".join(map(printable, changed.problems.values())))
    return "\n".join(lines)


CHANGES: dict[str, Callable[[Client, str], str]] = {
    "hold": lambda client, job: _changed_text(client.hold([job]), "held"),
    "release": lambda client, job: _changed_text(client.release([job]), "released"),
    "cancel": lambda client, job: _changed_text(client.cancel([job]), "cancelled"),
}
"""What changes a job, and says what was done."""
LOOKS: dict[str, Callable[[Client, str], str]] = {
    "show": show_text,
    "why": why_text,
    "logs": logs_text,
}
"""What looks into a job."""
