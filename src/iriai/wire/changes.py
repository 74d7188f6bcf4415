"""What changes jobs that were handed in, and what it came to; a part of `wire.requests`."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """End or withdraw jobs and tasks.

    Ids may hold ranges (`ume-42.1-10`) and shell patterns of job names (`name:sweep*`).
    """

    ids: tuple[str, ...]


class Hold(msgspec.Struct, frozen=True, tag="hold"):
    """Keep what waits of these jobs from starting."""

    ids: tuple[str, ...]


class Release(msgspec.Struct, frozen=True, tag="release"):
    """Let held jobs start."""

    ids: tuple[str, ...]


class Alter(msgspec.Struct, frozen=True, tag="alter"):
    """Change what the tasks that wait of these jobs ask for; what is unset stays as it is."""

    ids: tuple[str, ...]
    name: str | UnsetType = UNSET
    cpus: int | UnsetType = UNSET
    memory_bytes: int | UnsetType = UNSET
    gpus: int | UnsetType = UNSET
    named: tuple[tuple[str, int], ...] | UnsetType = UNSET
    """Those that are not named stay as they are; an amount of 0 takes one away."""
    time_limit_s: float | UnsetType | None = UNSET
    urgency: float | UnsetType = UNSET
    after: tuple[str, ...] | UnsetType = UNSET
    """As in `JobDraft`, instead of what they wait for now; none: they wait for nothing."""
    throttle: int | UnsetType | None = UNSET
    exclusive: bool | UnsetType = UNSET
    wait_for_resources: bool = False
    requirements: str | UnsetType = UNSET
    rank: str | UnsetType = UNSET


class FieldChange(msgspec.Struct, frozen=True):
    """What one field was and is now, in words."""

    field: str
    was: str
    now: str


class Altered(msgspec.Struct, frozen=True, tag="altered"):
    """Answer to `Alter`: what changed of each job, and why others could not be."""

    changes: dict[str, tuple[FieldChange, ...]]
    problems: dict[str, str] = {}


class Changed(msgspec.Struct, frozen=True, tag="changed"):
    """Answer to `Cancel`, `Hold`, `Release`: how many tasks each id changed, and why some not."""

    tasks: dict[str, int]
    problems: dict[str, str] = {}
