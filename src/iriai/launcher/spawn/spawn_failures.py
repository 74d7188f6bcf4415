"""Reports of the helper between launcher and task when it cannot become the task."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec, expand_pattern

EXIT_NOT_FOUND = 127
EXIT_NOT_RUN = 126
"""Both as shells do: the command is not there, or it could not be executed."""

_REPORT = struct.Struct("=iii")
_READ_BYTES = _REPORT.size * 4096


class Stage(IntEnum):
    """The step that failed; the numbers are those of iriai-exec.c and iriai_exec.py."""

    ARGUMENTS = 1
    SESSION = 2
    GROUP = 3
    PARENT = 4
    TERMINAL = 5
    LIMIT = 6
    USER = 7
    DIRECTORY = 8
    STDIN = 9
    STDOUT = 10
    STDERR = 11
    EXEC = 12
    NAMESPACE = 13


_STAGES = frozenset(Stage)


class SpawnError(NamedTuple):
    """One report."""

    pid: int
    stage: Stage
    error: int


def read_failures(fd: int) -> Iterator[SpawnError]:
    """Yield all reports in the pipe `fd`, which does not block."""
    size = _REPORT.size
    while True:
        try:
            content = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        if not content:
            return
        for pid, stage, error in _REPORT.iter_unpack(content[: len(content) // size * size]):
            if stage in _STAGES:
                yield SpawnError(pid, Stage(stage), error)
        if len(content) < _READ_BYTES:
            return


def explain(failure: SpawnError, spec: JobSpec, attempt: AttemptId) -> tuple[int, str]:
    """Return the exit code for `failure`, and a message for people."""
    why = os.strerror(failure.error)
    command = spec.command[0] if spec.command and not spec.script else "the script"
    match failure.stage:
        case Stage.EXEC if failure.error == errno.ENOENT:
            return EXIT_NOT_FOUND, f"{command}: command not found, or its interpreter is missing"
        case Stage.EXEC:
            return EXIT_NOT_RUN, f"{command} could not be executed: {why}"
        case Stage.DIRECTORY:
            what = f"working directory {spec.working_directory} cannot be entered"
        case Stage.STDIN:
            what = "standard input cannot be opened"
        case Stage.STDOUT:
            what = f"output file {expand_pattern(spec.output, attempt)} cannot be opened"
        case Stage.STDERR:
            what = f"error file {expand_pattern(spec.error, attempt)} cannot be opened"
        case Stage.USER:
            what = f"the launcher could not become user {spec.user}"
        case Stage.GROUP:
            what = "the task's control group could not be joined"
        case Stage.NAMESPACE:
            what = "the task's private /tmp could not be entered"
        case stage:
            what = f"the task could not be prepared ({stage.name.lower()})"
    return EXIT_NOT_RUN, f"{what}: {why}"
