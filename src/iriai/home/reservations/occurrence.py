"""When the occurrences of a series begin, as a rule says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple


class Occurrence(NamedTuple):
    """When an occurrence begins, or would."""

    start_wall_s: float
    problem: str = ""
    """Why its local time is none; empty: it is one."""


Expand = Callable[[str, str, float], Iterator[Occurrence]]
"""From a rule, a zone and the first start to the occurrences, in order; raises `UsageProblem` at
once if the rule or the zone is none."""
