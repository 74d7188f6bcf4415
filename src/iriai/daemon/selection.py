"""Which jobs and tasks a person means: ids, ranges of tasks, patterns of names."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import NamedTuple

from iriai.home.job import JobState
from iriai.model.ids import JobId, TaskId, parse_id
from iriai.model.problem import NotFound, UsageProblem

_RANGE = re.compile(r"(?P<job>[a-z][a-z0-9-]*-\d+)\.(?P<first>\d{1,9})-(?P<last>\d{1,9})")
NAME_PREFIX = "name:"
RANGE_TASKS_MAX = 1_000_000
"""Tasks that one range may name: the largest array by default."""


class Selected(NamedTuple):
    """A job and the tasks of it that are meant; none named means all."""

    job: JobId
    indices: tuple[int, ...] = ()


def parse_selection(text: str) -> Selected:
    """The job and tasks that an id or a range names; raises `UsageProblem`."""
    match = _RANGE.fullmatch(text)
    if match is None:
        parsed = parse_id(text)
        if isinstance(parsed, TaskId):
            return Selected(parsed.job, (parsed.index,))
        return Selected(parsed)
    first, last = int(match["first"]), int(match["last"])
    if not first <= last < first + RANGE_TASKS_MAX:
        raise UsageProblem("bad-id", f"'{text}' names no tasks", "write ranges as in ume-42.1-10")
    job = parse_id(match["job"])
    if isinstance(job, TaskId):
        raise UsageProblem("bad-id", f"'{text}' is a range of a task", "write ume-42.1-10")
    return Selected(job, tuple(range(first, last + 1)))


def select(text: str, home: str, jobs: dict[int, JobState], user: str | None) -> list[Selected]:
    """What `text` names among the jobs of `home`; patterns see only those of `user` (None: all).

    Raises `UsageProblem` or `NotFound`. An id may name a job that is not in `jobs`.
    """
    if not text.startswith(NAME_PREFIX):
        selected = parse_selection(text)
        if selected.job.home != home:
            raise NotFound(
                "no-such-job", f"{selected.job} is not of this home", f"ids here begin with {home}-"
            )
        return [selected]
    pattern = text.removeprefix(NAME_PREFIX)
    found = [
        Selected(JobId(home, number))
        for number, job in jobs.items()
        if fnmatchcase(job.spec.name, pattern) and user in (None, job.spec.user)
    ]
    if not found:
        raise NotFound("no-such-job", f"no job that waits or runs has a name like '{pattern}'")
    return found
