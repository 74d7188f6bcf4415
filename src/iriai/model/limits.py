"""Which limits of time and number can be kept.

Those that people give are checked at submission. Those that other machines send are checked where
they come in, since one that is infinite would end whoever counts with it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.job import JobSpec

LIMIT_MAX = 1e10
"""Seconds, or processes: three hundred years, and more than there can be. More only makes numbers
overflow."""

Limit = Annotated[float, msgspec.Meta(gt=0.0, le=LIMIT_MAX)]
"""Seconds that something may take, from another machine."""
Grace = Annotated[float, msgspec.Meta(ge=0.0, le=LIMIT_MAX)]
"""The same, and it may be nothing."""


def can_be_kept(limit: float | None) -> bool:
    """Whether it is a limit, or none (None)."""
    return limit is None or 0 < limit <= LIMIT_MAX


def limits_problem(spec: JobSpec) -> str:
    """Which limit of a job cannot be kept, for people; empty: all can."""
    for name in ("time_limit_s", "cpu_limit_s", "process_limit", "lease_s"):
        limit = getattr(spec, name)
        if not can_be_kept(limit):
            return f"{name} is {limit}, which is not more than 0 and at most {LIMIT_MAX:g}"
    if not 0 <= spec.kill_grace_s <= LIMIT_MAX:
        return f"kill_grace_s is {spec.kill_grace_s}, which is not from 0 to {LIMIT_MAX:g}"
    return ""
