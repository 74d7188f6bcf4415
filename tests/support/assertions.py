"""Whether what tests start runs without its assertions, as with PYTHONOPTIMIZE=1."""

from __future__ import annotations

import os

WANTED = "IRIAI_TEST_OPTIMIZE"
"""Environment variable of a run of the tests: everything that they start drops its assertions."""


def without_assertions() -> dict[str, str]:
    """What has to be in the environment of a process that tests start."""
    return {"PYTHONOPTIMIZE": "1"} if os.environ.get(WANTED) else {}
