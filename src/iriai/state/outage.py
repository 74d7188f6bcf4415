"""The record of an outage: since when no daemon serves, why, and when the next one starts.

The supervisor writes it when a daemon ends or cannot be started, and removes it once one serves or
its end was requested. Every user may read it, since `status` has an answer for every user; what the
daemon said last stays in its log, which is not for every user.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from typing import NamedTuple

from iriai.model.paths import StatePaths
from iriai.system.atomic_files import read_trusted, write_whole
from iriai.system.lock_file import live_owner, owner_text

_MODE = 0o644
BYTES_MAX = 4096
"""Of the record, which has no text of variable length."""
_WORD_LENGTH_MAX = 100
_WALL_MAX_S = 253_402_200_000.0
"""In the year 9999, the last that a date can show."""


class Outage(NamedTuple):
    """Why no daemon serves. Times are of the wall clock, in s."""

    since_wall_s: float
    """When the daemon ended that had served last, or the first start failed."""
    failures: int
    """Starts since then that failed."""
    exit_code: int | None
    """Of the last process; None: a signal ended it, or its end is unknown."""
    signal: str
    """The name of the signal that ended the last process; empty: none did."""
    next_start_wall_s: float
    """When the supervisor starts the daemon again."""
    supervisor_pid: int | None
    """The supervisor that wrote this; None: it has ended since."""


class OutageRecord:
    """Keeps the record of this process, the supervisor. What cannot be written is lost."""

    def __init__(self, paths: StatePaths) -> None:
        self._paths = paths
        self._outage = read_outage(paths)
        """The outage that goes on; at first the one that an earlier supervisor left."""
        self.is_open = self._outage is not None
        """Whether an outage is recorded."""

    def failed(self, code: int | None, pause_s: float, *, has_served: bool) -> None:
        """Record the end of a daemon with this code, or minus its signal; the next start follows.

        `has_served` tells whether that daemon got as far as to serve: then the outage begins now.
        """
        now_wall_s, before = time.time(), self._outage
        goes_on = before is not None and not has_served
        self._outage = outage = Outage(
            before.since_wall_s if before is not None and goes_on else now_wall_s,
            before.failures + 1 if before is not None and goes_on else int(not has_served),
            code if code is not None and code >= 0 else None,
            signal.Signals(-code).name if code is not None and code < 0 else "",
            now_wall_s + pause_s,
            os.getpid(),
        )
        self.is_open = True
        document = outage._asdict() | {"supervisor": owner_text().decode().strip()}
        del document["supervisor_pid"]
        with suppress(OSError):
            write_whole(self._paths.outage, json.dumps(document).encode() + b"\n", mode=_MODE)

    def over(self) -> None:
        """Remove the record: a daemon serves, or its end was requested."""
        self._outage, self.is_open = None, False
        with suppress(OSError):
            os.unlink(self._paths.outage)


def read_outage(paths: StatePaths) -> Outage | None:
    """Return the record; None if there is none, it is torn, or of a user who is not trusted."""
    try:
        content = read_trusted(paths.outage, BYTES_MAX)
        fields = json.loads(content or b"")
        code = fields["exit_code"]
        return Outage(
            _moment(fields["since_wall_s"]),
            int(fields["failures"]),
            None if code is None else int(code),
            str(fields["signal"])[:_WORD_LENGTH_MAX],
            _moment(fields["next_start_wall_s"]),
            live_owner(str(fields["supervisor"]).encode()),
        )
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _moment(value: object) -> float:
    """Return a time that is a number within what dates can show; raise ValueError for others."""
    moment_s = float(str(value))
    if not 0.0 <= moment_s < _WALL_MAX_S:
        raise ValueError(moment_s)
    return moment_s
