"""Whether what tests start runs without its assertions, as with PYTHONOPTIMIZE=1."""

from __future__ import annotations

import os

WANTED = "IRIAI_TEST_OPTIMIZE"
"""Environment variable of a run of the tests: everything that they start drops its assertions."""
OPTIMIZE = "PYTHONOPTIMIZE"


def drop_assertions() -> None:
    """Do as `WANTED` says, for all processes started from now on; jobs inherit nothing of it."""
    if os.environ.pop(WANTED, ""):
        os.environ[OPTIMIZE] = "1"


def without_assertions() -> dict[str, str]:
    """What has to be in the environment of a process that tests start with one of its own."""
    return {OPTIMIZE: os.environ[OPTIMIZE]} if OPTIMIZE in os.environ else {}
