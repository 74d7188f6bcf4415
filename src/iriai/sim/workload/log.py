"""A workload log: jobs submitted on one machine, with their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from iriai.model.ids import Account


class LogJob(NamedTuple):
    """One job of a log; times in seconds since the log began."""

    number: int
    """Its number in the log; unique."""
    submit_s: float
    run_s: float
    """More than 0, and not above the estimate."""
    width: int
    """Processors, all on the one machine."""
    estimate_s: float
    """What its user stated as its limit."""
    account: Account


@dataclass(frozen=True, slots=True)
class Log:
    """Jobs in the order (submit, number), and the machine that they were submitted on."""

    name: str
    processors: int
    jobs: Sequence[LogJob]
    began_wall_s: float = 0.0
    """Seconds since 1970 at second 0 of the log; 0: not known."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What was left out or changed while reading, and how often; nothing that happened never."""
