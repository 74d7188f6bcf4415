"""Requests that change jobs, and their answers; a part of `wire.envelopes`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from iriai.model.bounds import (
    Count,
    Expression,
    Many,
    Name,
    Real,
    Seconds,
    Text,
    Whole,
    Word,
    Words,
)
from iriai.wire.exchange import ClientAnswer, JobRequest


class StoryRow(msgspec.Struct, frozen=True):
    """An event of a job."""

    wall_s: Seconds
    what: Word
    """submitted, held, released, altered, cancelled, waited, dependency, promised, claimed,
    started, suspended, unsuspended, frozen, thawed, ended, refused, folded, or finished."""
    tasks: Words
    """Which tasks, as 7 or 1-20,25; empty: the job."""
    machine: Name
    by: Name
    """The user who requested it; empty if nobody did."""
    text: Words
    turn: Word
    """The turn of the daemon in which it happened."""


class Story(ClientAnswer, frozen=True, tag="story"):
    """Answer to `AskStory`, in the order in which it happened."""

    id: Expression
    rows: Annotated[tuple[StoryRow, ...], Many]


class AskStory(JobRequest[Story], frozen=True, tag="ask-story"):
    """Return the events of a job or task."""

    id: Expression


class FieldChange(msgspec.Struct, frozen=True):
    """The former and the new value of a field, in words."""

    field: Words
    was: Text
    now: Text


class AlterResult(ClientAnswer, frozen=True, tag="altered"):
    """Answer to `Alter`: what changed of each job, and why others could not be."""

    changes: Annotated[dict[Expression, Annotated[tuple[FieldChange, ...], Many]], Many]
    problems: Annotated[dict[Words, Words], Many] = msgspec.field(default_factory=dict)


class Alter(JobRequest[AlterResult], frozen=True, tag="alter"):
    """Change what the tasks that wait of these jobs ask for; what is unset stays as it is."""

    ids: Annotated[tuple[Expression, ...], Many]
    name: Text | UnsetType = UNSET
    cpus: Whole | UnsetType = UNSET
    memory_bytes: Whole | UnsetType = UNSET
    gpus: Whole | UnsetType = UNSET
    named: Annotated[tuple[tuple[Text, Whole], ...], Many] | UnsetType = UNSET
    """Changed amounts; 0 removes a resource, others stay as they are."""
    time_limit_s: Real | UnsetType | None = UNSET
    urgency: Real | UnsetType = UNSET
    after: Annotated[tuple[Text, ...], Many] | UnsetType = UNSET
    """As in `JobDraft`, instead of what they wait for now; none: they wait for nothing."""
    throttle: Whole | UnsetType | None = UNSET
    exclusive: bool | UnsetType = UNSET
    wait_for_resources: bool = False
    requirements: Text | UnsetType = UNSET
    rank: Text | UnsetType = UNSET
    ranks: Text | UnsetType = UNSET
    """As in `JobDraft`, as are those that follow."""
    nodes: Whole | UnsetType | None = UNSET
    per_node: Whole | UnsetType | None = UNSET
    across_pools: bool | UnsetType = UNSET
    queue: Whole | UnsetType = UNSET


class Changed(ClientAnswer, frozen=True, tag="changed"):
    """Answer to `Cancel`, `Hold`, `Release`, `SuspendTasks`: how many tasks each id changed.

    And why some did not.
    """

    tasks: Annotated[dict[Expression, Count], Many]
    problems: Annotated[dict[Words, Words], Many] = msgspec.field(default_factory=dict)


class Cancel(JobRequest[Changed], frozen=True, tag="cancel"):
    """End or withdraw jobs and tasks.

    Ids may hold ranges (`ume-42.1-10`) and shell patterns of job names (`name:sweep*`).
    """

    ids: Annotated[tuple[Expression, ...], Many]


class Hold(JobRequest[Changed], frozen=True, tag="hold"):
    """Hold the waiting tasks of these jobs."""

    ids: Annotated[tuple[Expression, ...], Many]


class SuspendTasks(JobRequest[Changed], frozen=True, tag="suspend"):
    """Suspend running tasks, or let them go on; ids as in `Cancel`. Others stay as they are."""

    ids: Annotated[tuple[Expression, ...], Many]
    is_wanted: bool
    """Whether they are to be suspended."""


class Release(JobRequest[Changed], frozen=True, tag="release"):
    """Let held jobs start."""

    ids: Annotated[tuple[Expression, ...], Many]
