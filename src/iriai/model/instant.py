"""The time of an event, as a core receives it."""

from __future__ import annotations

from typing import NamedTuple

SILENCE_S = 5.0
"""After which a machine that says nothing is taken for away, unless it is configured otherwise."""


class Instant(NamedTuple):
    """A moment on the two clocks of a machine, and the turn that it belongs to.

    `steady_s` counts since boot, also while the machine sleeps (CLOCK_BOOTTIME): durations, leases
    and time-outs. `wall_s` is seconds since 1970: what people read, and the ledger. A core never
    compares one with the other. `cause` names what set this moment off; it goes into every event
    that is stored, so that `story` can tell how a job came to be where it is.
    """

    steady_s: float
    wall_s: float
    cause: str = ""
