"""Crash points: tests kill launcher and daemon at each step whose order matters."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

CRASH_VARIABLE = "IRIAI_CRASH_AT"
"""Environment variable that names the step at which a process kills itself, or, with a slash in it,
a directory: then each file in it orders one crash at the step of its name, and is removed. Of the
launcher: `after-intent` (intents are journalled, nothing is spawned), `after-spawn` (one task runs,
nothing was reported), `before-exit-journal` (an end is known, not journalled), `after-exit-journal`
(it is journalled, not reported). Of the daemon: `before-commit` (decided, nothing written),
`after-commit` (durable, nothing left the daemon), `after-launch-sent` (the launcher has the order,
clients no answer), `send-match`, `send-run-held`, `send-accepted-confirmed`, `send-book-held` and
so on (a message of that name and phase is about to leave, and what it rests on is durable)."""

_WANTED = os.environ.get(CRASH_VARIABLE)
# Read once: steps are passed a thousand times a second.


def crash_point(step: str) -> None:
    """Kill this process as `kill -9` does, if the environment orders a crash at `step`."""
    wanted = _WANTED
    if wanted is None:
        return
    if "/" in wanted:
        try:
            os.unlink(os.path.join(wanted, step))
        except FileNotFoundError:
            return
    elif wanted != step:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def crash_points_before(messages: Iterable[object]) -> None:
    """Pass a step for each message that is about to leave."""
    if _WANTED is None:
        return
    for message in messages:
        phase = getattr(getattr(message, "booking", message), "phase", None)
        words = ["send", type(message).__name__, *([] if phase is None else [phase.name])]
        crash_point("-".join(words).lower())
