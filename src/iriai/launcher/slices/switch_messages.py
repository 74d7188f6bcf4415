"""What the launcher and the process that switches say to each other, over a socket pair."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from iriai.launcher.containment.container import FreezerFile
from iriai.model.bounds import Code, Count, Many, Seconds, Words
from iriai.model.time_slices import NO_CYCLES, Cycles, RowMask


class TurnOfGroup(NamedTuple):
    """A group whose processes run in their rows alone."""

    file: FreezerFile
    mask: RowMask


class Schedule(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Launcher: switch between these groups, and touch no other from now on.

    Answered with `Obeyed` once each of them is as it has to be now.
    """

    number: Count
    cycles: Cycles = NO_CYCLES
    groups: Annotated[tuple[TurnOfGroup, ...], Many] = ()


class Obeyed(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The process: schedule `number` is in force; 0: it is ready for the first one."""

    number: Count
    failed: Annotated[tuple[tuple[Words, Code], ...], Many] = ()
    """Files that could not be opened or written since the last answer, and the error numbers."""


class Switched(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The process: how late the last switches were."""

    switches: Count
    """Of which it tells; not more than the last `precision.KEPT`."""
    late_p50_s: Seconds
    late_p99_s: Seconds
    """From the begin of a slice until the last file was written."""
    is_real_time: bool


FromSwitcher = Obeyed | Switched
