"""What a home lets the policy of its cluster do with its jobs (docs/spec/002, section 2).

A policy decides at the broker; a job belongs to its home. So the home obeys only what its operator
permits (`[jobs] policy_may`), and no more than the user of the job could do.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from iriai.model.alteration import Alteration
from iriai.model.bounds import QueueIndex, Urgency
from iriai.model.job import JobSpec, Limit
from iriai.model.problem import NotAllowed, NotFound, Refused, UsageProblem
from iriai.model.units import format_duration

COMMENT_CHARACTERS_MAX = 256
"""A line of `iriai show`, and a half; it is stored with each event that sets it."""
Comment = Annotated[str, Meta(max_length=COMMENT_CHARACTERS_MAX)]


class JobAction(StrEnum):
    """What a policy may decide about a job, beside its start."""

    HOLD = "hold"
    RELEASE = "release"
    REQUEUE = "requeue"
    END = "end"
    SUSPEND = "suspend"
    UNSUSPEND = "unsuspend"
    MODIFY = "modify"


class ProposedValues(msgspec.Struct, frozen=True, omit_defaults=True):
    """New values for a job; what is unset stays. They hold for tasks that wait."""

    comment: Comment | UnsetType = UNSET
    """For people; it holds for the whole job."""
    queue: QueueIndex | UnsetType = UNSET
    urgency: Urgency | UnsetType = UNSET
    time_limit_s: Limit | UnsetType = UNSET

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the names of what is set."""
        every = self.__struct_fields__
        return tuple(name for name in every if getattr(self, name) is not UNSET)


class QueueTerms(NamedTuple):
    """What a queue asks of a job that is moved there."""

    takes_jobs: bool
    group: str | None
    """The Unix group that it is for; None: for everybody."""
    time_limit_max_s: float | None


class PolicyTerms(NamedTuple):
    """What a policy may do with the jobs of a home."""

    may: tuple[JobAction, ...] = ()
    queues: tuple[QueueTerms, ...] = ()
    """By number."""

    def alteration(self, spec: JobSpec, changes: ProposedValues) -> Alteration:
        """Return what `changes` makes of a job that waits; the comment is not of it.

        Raises:
            Problem: its user could not do so, or nobody knows whether.
        """
        number = spec.queue if changes.queue is UNSET else changes.queue
        queue = self.queues[number] if number < len(self.queues) else None
        if queue is None:
            raise NotFound("no-such-queue", f"there is no queue {number}")
        if changes.queue is not UNSET and number != spec.queue:
            self._check_queue(number, queue, spec)
        limit_s = spec.time_limit_s if changes.time_limit_s is UNSET else changes.time_limit_s
        most_s = queue.time_limit_max_s
        if changes.time_limit_s is not UNSET:
            _check_limit(number, limit_s, spec.time_limit_s, most_s)
        if most_s is not None and (limit_s is None or limit_s > most_s):
            limit_s = most_s
        if changes.urgency is not UNSET and changes.urgency < 1.0:
            words = f"urgency {changes.urgency:g} is less than that of an ordinary job"
            raise UsageProblem("bad-urgency", words, "at least 1")
        return Alteration(
            time_limit_s=UNSET if limit_s == spec.time_limit_s else limit_s,
            urgency=changes.urgency,
            queue=changes.queue,
        )

    def _check_queue(self, number: int, queue: QueueTerms, spec: JobSpec) -> None:
        if not queue.takes_jobs:
            raise Refused("queue-disabled", f"queue {number} takes no jobs at present")
        now = self.queues[spec.queue].group if spec.queue < len(self.queues) else None
        if queue.group is not None and queue.group != now:
            raise NotAllowed(
                "queue-of-group",
                f"queue {number} is for the group {queue.group}",
                "a queue without a group, or one of the same group",
            )


def _check_limit(
    number: int, limit_s: float | None, now_s: float | None, most_s: float | None
) -> None:
    """Raise `Refused` for a limit that is neither lower nor one that the queue permits."""
    is_lower = limit_s is not None and (now_s is None or limit_s <= now_s)
    is_permitted = limit_s is not None and most_s is not None and limit_s <= most_s
    if limit_s == now_s or is_permitted or (is_lower and most_s is None):
        return
    asked = "no time limit" if limit_s is None else format_duration(limit_s)
    if most_s is not None:
        raise Refused(
            "time-limit-too-long",
            f"{asked} is longer than the {format_duration(most_s)} of queue {number}",
            f"at most {format_duration(most_s)}",
        )
    has = "no limit" if now_s is None else format_duration(now_s)
    raise Refused(
        "time-limit-too-long",
        f"{asked} is more than its user asked for ({has}), and queue {number} has no maximum",
        f"at most {has}" if now_s is not None else "a time limit",
    )
