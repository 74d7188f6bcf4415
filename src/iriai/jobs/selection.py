"""Selection of jobs and tasks: ids, ranges of tasks, patterns of names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from iriai.home.job import JobState
from iriai.model.ids import JobId, TaskId, parse_id
from iriai.model.name_pattern import name_pattern
from iriai.model.problem import NotFound, Refused, UsageProblem
from iriai.wire.exchange import IDS_MAX

_RANGE = re.compile(r"(?P<job>[a-z][a-z0-9-]*-\d+)\.(?P<first>\d{1,9})-(?P<last>\d{1,9})")
NAME_PREFIX = "name:"
RANGE_TASKS_MAX = 1_000_000
"""Tasks that one range may name: the largest array by default."""


JOBS_AT_ONCE = 64
"""Jobs whose names are looked at before others may be served: a pattern takes 0.2 ms at most."""

TASKS_AT_ONCE = 2000
"""Tasks of one job that are withdrawn before others may be served: some milliseconds."""


class SelectedJobs(NamedTuple):
    """A job and some of its tasks; no index stands for all tasks."""

    job: JobId
    indices: Sequence[int] = ()


def check_ids(ids: tuple[str, ...]) -> None:
    """Raise `Refused` if one request names more ids than allowed."""
    if len(ids) > IDS_MAX:
        raise Refused(
            "too-many-ids",
            f"{len(ids)} ids are more than the {IDS_MAX} of one request",
            "ask in several requests, as iriai itself does, or name a range or a pattern",
        )


def whole(text: str, home: str) -> SelectedJobs:
    """Return the job or task that an id names; raise as `select` does."""
    found = [each for each in select(text, home, {}, None) if each is not None]
    return found[0]


def parts(item: SelectedJobs) -> Iterator[SelectedJobs]:
    """Yield `item` in parts of at most `TASKS_AT_ONCE` tasks."""
    if len(item.indices) <= TASKS_AT_ONCE:
        yield item
        return
    for first in range(0, len(item.indices), TASKS_AT_ONCE):
        yield SelectedJobs(item.job, item.indices[first : first + TASKS_AT_ONCE])


def parse_selection(text: str) -> SelectedJobs:
    """Return the job and tasks that an id or a range names; raise `UsageProblem`."""
    match = _RANGE.fullmatch(text)
    if match is None:
        parsed = parse_id(text)
        if isinstance(parsed, TaskId):
            return SelectedJobs(parsed.job, (parsed.index,))
        return SelectedJobs(parsed)
    first, last = int(match["first"]), int(match["last"])
    if not first <= last < first + RANGE_TASKS_MAX:
        raise UsageProblem("bad-id", f"'{text}' names no tasks", "write ranges as in ume-42.1-10")
    job = parse_id(match["job"])
    if isinstance(job, TaskId):
        raise UsageProblem("bad-id", f"'{text}' is a range of a task", "write ume-42.1-10")
    return SelectedJobs(job, range(first, last + 1))


def select(
    text: str, home: str, jobs: dict[int, JobState], user: str | None
) -> Iterator[SelectedJobs | None]:
    """Yield the jobs of `home` that `text` names; a pattern sees those of `user` (None: all).

    Yields None where other requests may be served, during which jobs may end. An id may name a
    job that is not in `jobs`. Raises `UsageProblem` or `NotFound`.
    """
    if text.startswith(NAME_PREFIX):
        yield from _by_name(text.removeprefix(NAME_PREFIX), home, jobs, user)
        return
    selected = parse_selection(text)
    if selected.job.home != home:
        raise NotFound(
            "no-such-job",
            f"{selected.job} is not a job of this home",
            f"ids here begin with {home}-",
        )
    yield selected


def _by_name(
    pattern: str, home: str, jobs: dict[int, JobState], user: str | None
) -> Iterator[SelectedJobs | None]:
    matches = name_pattern(pattern).match
    is_any = False
    for count, (number, job) in enumerate(list(jobs.items())):
        if count % JOBS_AT_ONCE == JOBS_AT_ONCE - 1:
            yield None
        if user in (None, job.spec.user) and matches(job.spec.name) and number in jobs:
            is_any = True
            yield SelectedJobs(JobId(home, number))
    if not is_any:
        raise NotFound("no-such-job", f"no waiting or running job has a name like '{pattern}'")
