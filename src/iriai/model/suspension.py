"""Why a task that has started may not run at present (docs/spec/012)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from iriai.model.bounds import Amount, Count, Seconds


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
OF_QUEUES = (SuspendReason.HIGHER_QUEUE, SuspendReason.STOPPED_QUEUE)
"""Reasons of the broker's: while one is given, the cpus are free for others."""


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


def is_preempted(reasons: Reasons) -> bool:
    """Return whether a queue keeps the task from running."""
    return any(reason in reasons for reason in OF_QUEUES)


REASON_WORDS = {
    SuspendReason.USER: "its user",
    SuspendReason.OWNER: "the owner of the machine",
    SuspendReason.SLICE: "the time slice of another task",
    SuspendReason.HIGHER_QUEUE: "a higher queue",
    SuspendReason.STOPPED_QUEUE: "its queue, which is stopped",
}
"""By whom a task is suspended, for people."""


def reasons_text(reasons: Reasons, *, is_resuming: bool = False, seen: str = "") -> str:
    """Return for people why a task does not run; empty: it does.

    `seen` is what was seen of the owner of the machine, where that is a reason.
    """
    if is_resuming:
        reasons = with_reason(reasons, SuspendReason.USER, is_given=False)
    by = {**REASON_WORDS, SuspendReason.OWNER: f"{REASON_WORDS[SuspendReason.OWNER]} ({seen})"}
    by = by if seen else REASON_WORDS
    words = [f"suspended by {', '.join(by[reason] for reason in reasons)}"] if reasons else []
    return "; ".join([*words, "it waits for its cpus"] if is_resuming else words)


class StoredSuspension(Struct, frozen=True, omit_defaults=True):
    """What a machine keeps of a claim that was ever suspended."""

    reasons: Reasons = NO_REASONS
    """Those that are given now."""
    number: Count = 0
    """Of the last order to the launcher."""
    change: Count = 0
    """Of the last change of its home that was taken in."""
    told: Reasons = NO_REASONS
    """Those for which the launcher keeps it frozen, by its last word; empty: it runs."""
    changed_wall_s: Seconds = 0.0
    """When the launcher said so."""
    frozen_s: Amount = 0.0
    """How long it was frozen in all, until then."""
    by_user_s: Amount = 0.0
    """For how long of that by its user alone."""
    freed_cpus: Count = 0
    """Those of its cpus that are free for others."""
    is_resuming: bool = False
    """Whether its user wants it to go on, which needs those cpus."""

    @property
    def is_preempted(self) -> bool:
        """Return whether its queue keeps it from running."""
        return is_preempted(self.reasons)


class SuspendedClaim(NamedTuple):
    """A claim that was ever suspended, as a broker needs to know it."""

    freed_cpus: Count = 0
    """Those of its cpus that are free for others."""
    is_resuming: bool = False
    """Whether it waits for them."""
    is_by_user: bool = False
    """Whether its user alone keeps it from running: then its end does not move."""
    left_s: Seconds | None = None
    """Of such a claim: how long it takes at most once it goes on; None: no limit."""
    ending_s: Seconds = 0.0
    """Of such a claim: how long it takes at most to end it."""
    stands: bool = False
    """Whether anything keeps it from running now."""
