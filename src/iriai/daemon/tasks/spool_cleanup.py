"""Deletes files of followed output in `spool` that are no longer needed.

Files of this home's jobs are deleted with the job's history. Those of other homes' tasks are copied
while the tasks run, and kept a while longer, for a home that was offline.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from iriai.daemon.tasks.spool import attempt_of
from iriai.model.ids import AttemptId

OF_OTHERS_KEPT_S = 7 * 86_400.0
"""Time after the last byte: a home that was offline for a week still gets the output of its tasks.
"""
SWEEP_S = 3600.0
"""Pause between two checks for files of other homes."""


def drop_of_jobs(spool: str, home: str, numbers: Collection[int]) -> int:
    """Delete the output of these jobs of `home`; return the number of files. Raises OSError."""
    return _drop(spool, lambda each, _: each.home == home and each.number in numbers)


def drop_of_others(
    spool: str, home: str, running: Collection[AttemptId], until_wall_s: float
) -> int:
    """Delete output of other homes' tasks, last written before `until_wall_s`.

    Tasks in `running` and jobs of `home` are kept. Returns the number of files. Raises OSError.
    """

    def is_over(attempt: AttemptId, changed_wall_s: float) -> bool:
        return attempt.home != home and attempt not in running and changed_wall_s < until_wall_s

    return _drop(spool, is_over)


def _empty(path: str) -> None:
    """Truncate a file before its removal: its user may have a link to it, or have it open."""
    flags = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError):
        os.close(os.open(path, flags))


def _drop(spool: str, is_over: Callable[[AttemptId, float], bool]) -> int:
    dropped = 0
    with os.scandir(spool) as found:
        for file in found:
            attempt = attempt_of(file.name)
            if attempt is None:
                continue
            with suppress(FileNotFoundError):
                if is_over(attempt, file.stat(follow_symlinks=False).st_mtime):
                    _empty(file.path)
                    Path(file.path).unlink()
                    dropped += 1
    return dropped
