"""Small mistakes in what users are told of their jobs; each is found from a seed."""

from __future__ import annotations

from iriai.jobs import queries
from iriai.jobs.story import StoryBuilder
from iriai.jobs.waits import JobWaits
from iriai.machine import feasibility
from iriai.model.history import JobRecord
from iriai.model.problem import Refused
from iriai.model.state import TaskState
from tests.mutants.mutants import Patch, instead

TOLD: dict[str, tuple[Patch, int]] = {
    "every job is told to be queued": (
        instead(queries, "job_state", lambda _job: TaskState.QUEUED),
        2,
    ),
    "a list leaves out jobs that run": (
        instead(queries, "is_listed", lambda _request, job, _user: job.active == 0),
        2,
    ),
    "tasks that never started are not told": (
        instead(JobRecord, "all_causes", lambda _record, attempted: attempted),
        18,
    ),
    "who waits for a job is not told": (instead(JobWaits, "job_finished", lambda *_: []), 1),
    "a story has no ends": (instead(StoryBuilder, "_ended", lambda *_: iter(())), 1),
    "nothing is too large for the machines": (
        instead(feasibility, "too_large_for", lambda *_: None),
        1,
    ),
    "everything is too large for the machines": (
        instead(feasibility, "too_large_for", lambda *_: Refused("no-machine", "none is so large")),
        1,
    ),
}
"""With each a seed that found it when this was written."""
