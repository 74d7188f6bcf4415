"""The time of an event, as a core receives it."""

from __future__ import annotations

from typing import NamedTuple

SILENCE_S = 5.0
"""Time without a message after which a machine counts as offline, by default."""


class Instant(NamedTuple):
    """A time on the two clocks of a machine, and the turn that it belongs to.

    `steady_s` counts since boot, also while the machine sleeps (CLOCK_BOOTTIME): for durations,
    leases and time-outs. `wall_s` is seconds since 1970: for people, and for the ledger. A core
    never compares one with the other. `cause` names the event that caused this turn; each stored
    event contains it, for `story`.
    """

    steady_s: float
    wall_s: float
    cause: str = ""
