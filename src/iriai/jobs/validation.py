"""Checks of a job's request, at submission and at alteration."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.model.bounds import URGENCY_MAX
from iriai.model.ids import parse_reservation_id
from iriai.model.job import EXIT_CODE_MAX, LIMIT_MAX, Dependency, can_be_kept, joined_dependencies
from iriai.model.problem import NotFound, UsageProblem
from iriai.model.resources import Resources

NAME_LENGTH_MAX = 256
"""Names stand in tables and file names."""


def check_name(name: str) -> None:
    """Raise `UsageProblem` if `name` does not fit a table or a file name."""
    if len(name) > NAME_LENGTH_MAX or not name.isprintable() or "/" in name:
        raise UsageProblem(
            "bad-name",
            f"the name '{name[:40]}' is too long, or contains / or control characters",
            f"use at most {NAME_LENGTH_MAX} printable characters without /",
        )


def check_urgency(urgency: float) -> None:
    """Raise `UsageProblem` if `urgency` is out of range."""
    if not 1 <= urgency <= URGENCY_MAX:
        raise UsageProblem(
            "bad-urgency",
            f"urgency {urgency:g} is not between 1 and {URGENCY_MAX:g}",
            "1 is an ordinary job; 2 doubles its chance and its cost",
        )


def check_limit(limit: float | None) -> None:
    """Raise `UsageProblem` if `limit` is not positive, or too large."""
    if not can_be_kept(limit):
        raise UsageProblem(
            "bad-limit",
            f"a limit of {limit} is not above 0 and at most {LIMIT_MAX:g}",
            "leave it out to have none",
        )


def check_exit_code(code: int | None) -> None:
    """Raise `UsageProblem` if no task can say with it that it has saved itself."""
    if code is not None and not 1 <= code <= EXIT_CODE_MAX:
        raise UsageProblem(
            "bad-exit-code",
            f"{code} is no exit code of a task that is to be run again",
            f"--checkpoint-exit takes 1 to {EXIT_CODE_MAX}; programs for HTCondor use 85",
        )


def check_reservation(text: str, *, or_queue: bool) -> None:
    """Raise `UsageProblem` if `text` names no reservation, or has to and does not."""
    if text:
        parse_reservation_id(text)
    elif or_queue:
        raise UsageProblem(
            "no-reservation", "--or-queue without --reservation", "name one with --reservation ID"
        )


def check_throttle(throttle: int | None, *, is_array: bool) -> None:
    """Raise `UsageProblem` if `throttle` is below 1, or the job is no array."""
    if throttle is None:
        return
    if throttle < 1:
        raise UsageProblem(
            "bad-throttle",
            f"{throttle} tasks at once is less than 1",
            "to start none, hold the job",
        )
    if not is_array:
        raise UsageProblem(
            "bad-throttle",
            "only arrays have a number of tasks at once",
            "leave it out, or submit with --array",
        )


def checked_resources(resources: Resources) -> Resources:
    """Return `resources` with named ones sorted; raise `UsageProblem` if they are invalid."""
    named = tuple(sorted((name, amount) for name, amount in resources.named if amount))
    amounts = [amount for _, amount in resources.amounts()]
    if resources.cpus < 1 or min(amounts) < 0:
        raise UsageProblem("bad-resources", "a task needs at least 1 CPU, and no negative amount")
    if len(dict(named)) != len(named):
        raise UsageProblem("bad-resources", "a named resource is given twice")
    return replace(resources, named=named)


def dependencies_here(texts: tuple[str, ...], home: str) -> tuple[Dependency, ...]:
    """Return the dependencies in `texts`; raise if one is malformed or of another home."""
    dependencies = joined_dependencies(texts)
    for each in dependencies:
        if each.home != home:
            raise NotFound(
                "no-such-job",
                f"{each.on} is not a job of this home",
                f"ids here begin with {home}-",
            )
    return dependencies
