"""Files that are not shipped: workload logs of real machines, and what others made of them."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]


def shared(name: str) -> Path:
    """A file of `$IRIAI_SHARED`, else of `shared` beside this repository."""
    return Path(os.environ.get("IRIAI_SHARED") or ROOT.parent / "shared") / name


def has_logs() -> bool:
    """Whether the workload logs are on this machine."""
    return shared("traces/README.md").exists()
