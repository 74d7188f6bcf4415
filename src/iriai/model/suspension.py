"""Why a task that has started may not run at present (docs/spec/012)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from msgspec import Meta


class SuspendReason(StrEnum):
    """Who keeps a task from running; each gives and takes its own reason alone."""

    USER = "user"
    """Its user, or an operator."""
    OWNER = "owner"
    """The owner of the machine, who uses it."""
    SLICE = "slice"
    """The time slices of the machine: it is another task's turn."""
    HIGHER_QUEUE = "higher-queue"
    """A task of a higher queue, which needs its processors."""
    STOPPED_QUEUE = "stopped-queue"
    """An operator, who stopped its queue."""


Reasons = Annotated[tuple[SuspendReason, ...], Meta(max_length=len(SuspendReason))]
"""A set of reasons in the order of `SuspendReason`, each once. The task runs while it is empty."""

NO_REASONS: Reasons = ()


def with_reason(reasons: Reasons, reason: SuspendReason, *, is_given: bool) -> Reasons:
    """Return the set with `reason`, or without it; unchanged if that is how it was."""
    if (reason in reasons) == is_given:
        return reasons
    return in_order([*reasons, reason] if is_given else [r for r in reasons if r is not reason])


def in_order(reasons: Iterable[SuspendReason]) -> Reasons:
    """Return each reason once, in the order of `SuspendReason`."""
    given = dict.fromkeys(reasons)
    return tuple(reason for reason in SuspendReason if reason in given)


def is_by_user_alone(reasons: Reasons) -> bool:
    """Return whether the time so spent is its user's: charged for what the task keeps."""
    return reasons == (SuspendReason.USER,)
