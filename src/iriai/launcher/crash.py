"""Crashes on demand: the tests kill the launcher at each step whose order matters."""

from __future__ import annotations

import os
import signal

CRASH_VARIABLE = "IRIAI_CRASH_AT"
"""Environment variable that names the step after which the launcher kills itself:
`after-intent` (intents are synced, nothing is spawned), `after-spawn` (one task runs, nothing was
said), `before-exit-journal` (an end is known, not written), `after-exit-journal` (it is synced,
not reported)."""


def crash_point(step: str) -> None:
    """Die here as by `kill -9`, if the environment asks for it."""
    if os.environ.get(CRASH_VARIABLE) == step:
        os.kill(os.getpid(), signal.SIGKILL)
