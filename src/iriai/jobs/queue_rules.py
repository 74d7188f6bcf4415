"""Which queue a job may be in, and how long it may run there (docs/spec/013, section 3)."""

from __future__ import annotations

from collections.abc import Collection

from iriai.config.reader import Configuration
from iriai.config.sections import QueueSection
from iriai.model.problem import NotAllowed, NotFound, Refused
from iriai.model.units import format_duration


def checked_queue(
    configuration: Configuration, number: int, groups: Collection[str], *, is_operator: bool
) -> QueueSection:
    """Return the queue in which a user of these Unix groups puts a job.

    Raises:
        NotFound: there is no such queue.
        Refused: it takes no jobs.
        NotAllowed: it is another group's.
    """
    queue = configuration.queue(number)
    if queue is None:
        raise NotFound(
            "no-such-queue",
            f"there is no queue {number}",
            _usable(configuration, groups, is_operator=is_operator),
        )
    if queue.state == "disabled":
        raise Refused(
            "queue-disabled",
            f"queue {number} takes no jobs at present",
            _usable(configuration, groups, is_operator=is_operator),
        )
    if not (is_operator or queue.group is None or queue.group in groups):
        raise NotAllowed(
            "queue-of-group",
            f"queue {number} is for members of the group {queue.group}",
            _usable(configuration, groups, is_operator=is_operator),
        )
    return queue


def usable_queues(
    configuration: Configuration, groups: Collection[str], *, is_operator: bool
) -> list[int]:
    """Return the queues in which a user of these groups may put jobs."""
    usable = []
    for number in range(configuration.queue_count):
        queue = configuration.queue(number)
        is_open = queue is not None and queue.state != "disabled"
        if queue is not None and is_open and (is_operator or queue.group in (None, *groups)):
            usable.append(number)
    return usable


def _usable(configuration: Configuration, groups: Collection[str], *, is_operator: bool) -> str:
    usable = usable_queues(configuration, groups, is_operator=is_operator)
    if not usable:
        return "ask an operator: you may use no queue"
    if len(usable) == 1:
        return f"use queue {usable[0]}"
    return f"use one of the queues {', '.join(map(str, usable))}"


def limit_in(configuration: Configuration, number: int, asked_s: float | None) -> float | None:
    """Return the time limit of a job in a queue that asks for `asked_s`; None: it names none.

    Raises:
        Refused: the queue has no room for jobs that run so long.
    """
    queue = configuration.queue(number) or QueueSection()
    limit_s = asked_s or queue.time_limit_s or configuration.jobs.time_limit_s
    most_s = queue.time_limit_max_s
    if most_s is None:
        return limit_s
    if asked_s and asked_s > most_s:
        raise too_long(number, asked_s, most_s)
    return most_s if limit_s is None else min(limit_s, most_s)


def cpu_limit_in(configuration: Configuration, number: int, asked_s: float | None) -> float | None:
    """Return the limit of CPU time that a job takes over from the queue it is submitted to."""
    queue = configuration.queue(number) or QueueSection()
    limits = [limit_s for limit_s in (asked_s, queue.cpu_limit_s) if limit_s is not None]
    return min(limits, default=None)


def too_long(number: int, asked_s: float | None, most_s: float) -> Refused:
    """Return the refusal of a job that asks for more time than its queue permits."""
    asked = "no time limit" if asked_s is None else format_duration(asked_s)
    return Refused(
        "time-limit-too-long",
        f"{asked} is longer than the {format_duration(most_s)} of queue {number}",
        f"ask for at most --time {format_duration(most_s)}, or use another queue; see 'iriai "
        "queues'",
    )
