"""What operators' commands do while no daemon answers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from iriai.cli.framework.command import GlobalOptions
from iriai.cli.framework.table import count_text, date_text, span_text
from iriai.model.paths import StatePaths
from iriai.model.problem import Problem, Unreachable
from iriai.wire.machines import Drain, Resume

if TYPE_CHECKING:
    from iriai.state.kept_drain import KeptDrain
    from iriai.state.outage import Outage

AWAY_CODES = frozenset({"no-daemon", "daemon-gone", "turned-away"})
"""Codes of problems that a daemon causes which does not run, or ended before its answer."""


def outage_in(directories: tuple[str, ...]) -> tuple[Outage, Unreachable, str] | None:
    """Return the outage of the first directory that has one, in words too, and the last line.

    The last line is of the daemon's log, as far as the caller may read that. Returns None if no
    daemon was expected to run in any of the directories.
    """
    from iriai.state.outage import read_outage
    from iriai.supervisor.children import last_line_in

    for directory in directories:
        paths = StatePaths(directory)
        outage = read_outage(paths)
        if outage is not None:
            last_line = last_line_in(paths.log_of("daemon"))
            return outage, _problem(directory, outage, last_line), last_line
    return None


def ask_or_keep(options: GlobalOptions, request: Drain | Resume) -> tuple[str, bool]:
    """Have the daemon drain or resume a machine; without one, keep that for its next start.

    Returns the name of the machine, and whether the request is kept.
    """
    try:
        return _ask(options, request), False
    except Unreachable as problem:
        if problem.code not in AWAY_CODES:
            raise
        kept = _keep(options, request)
        if kept is None:
            raise
    directory, home, kept_drain = kept
    try:  # A daemon that began to listen meanwhile may not have seen what is kept.
        _ask(GlobalOptions(Path(directory), as_json=False), request)
    except Problem as problem:
        if problem.code != "not-drained":  # it has seen it, and resumed
            return home, True
    kept_drain.take()
    return home, False


def _ask(options: GlobalOptions, request: Drain | Resume) -> str:
    """Return the name of the machine that the daemon drained or resumed."""
    with options.connect(follow=False) as client:
        client.ask(request)
        return request.node or client.welcome.home


def _keep(options: GlobalOptions, request: Drain | Resume) -> tuple[str, str, KeptDrain] | None:
    """Keep the request in the first state directory; return that, the machine, what is kept."""
    from iriai.state.kept_drain import keep_drain

    reason = request.reason if isinstance(request, Drain) else None
    for directory in options.local_directories():
        kept = keep_drain(StatePaths(directory), request.node, reason)
        if kept is not None:
            return directory, *kept
    return None


def _problem(directory: str, outage: Outage, last_line: str) -> Unreachable:
    now_wall_s = time.time()
    age = span_text(now_wall_s - outage.since_wall_s)
    how = "for an unknown cause"
    if outage.signal:
        how = f"by {outage.signal}"
    elif outage.exit_code is not None:
        how = f"with exit code {outage.exit_code}"
    failed = f", {count_text(outage.failures, 'start')} failed" if outage.failures else ""
    said = f"; its last line: {last_line}" if last_line else ""
    message = (
        f"the daemon of {directory} is away since {date_text(outage.since_wall_s)} ({age}{failed}):"
        f" the last one ended {how}{said}"
    )
    if outage.supervisor_pid is None:
        hint = "its supervisor has ended too: mend the cause and run 'iriai up'"
    else:
        pause_s = outage.next_start_wall_s - now_wall_s
        when = f"in {span_text(pause_s)}" if pause_s > 0.0 else "now"
        hint = (
            f"the supervisor (process {outage.supervisor_pid}) starts it again {when}; "
            "'iriai up' does so at once, 'iriai down' ends both"
        )
    return Unreachable("no-daemon", message, hint)
