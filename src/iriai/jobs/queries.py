"""Answers about the jobs of one home, unfinished or finished, and who may ask for them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter

from msgspec.structs import replace

from iriai.home.core import Home
from iriai.home.explain import suspended
from iriai.home.job import JobState
from iriai.jobs.history import ATTEMPTS_SHOWN_MAX, LOG_FILES_MAX, JobHistory
from iriai.jobs.outputs import AttemptPlaces, log_files
from iriai.jobs.seats import RunningTask
from iriai.jobs.selection import TASKS_AT_ONCE, SelectedJobs, parts, select, whole
from iriai.jobs.views import (
    encoded_row,
    is_listed,
    job_detail,
    job_row,
    job_state,
    running_row,
)
from iriai.model.ids import AttemptId, TaskId
from iriai.model.job import JobSpec
from iriai.model.name_pattern import name_pattern
from iriai.model.problem import NotAllowed, NotFound, Refused
from iriai.model.ranks import RANKS_MAX, SeatPlace
from iriai.model.reason import Reason
from iriai.model.state import TaskState
from iriai.wire.requests import AttemptRow, JobDetail, Jobs, LogFile, Outcome, Why

ROWS_AT_ONCE = 256
"""Jobs of a listing before others may be served: a millisecond where all changed."""


class JobQueries:
    """Answers about the jobs of one home.

    `own` is the user whose jobs alone may be asked for; None: those of all, as operators may.
    """

    def __init__(self, home: Home, past: JobHistory, spool: str) -> None:
        self._home = home
        self._past = past
        self._spool = spool

    def require(self, number: int, own: str | None) -> None:
        """Raise `NotAllowed` if the job is another user's, `NotFound` if it never existed."""
        owner = self.spec(number).user
        if own not in (None, owner):
            raise NotAllowed(
                "not-yours",
                f"the job belongs to {owner}",
                "ask its owner, or a member of the operators' group",
            )

    def spec(self, number: int) -> JobSpec:
        """Return the specification of a job; raise `NotFound`."""
        job = self._home.jobs.get(number)
        return job.spec if job is not None else self._past.spec(number)

    def one(self, text: str, own: str | None) -> SelectedJobs:
        """Return the job or task that an id names; raise a `Problem` if it is not to be shown."""
        selected = whole(text, self._home.name)
        job = self._home.jobs.get(selected.job.number)
        if job is not None and selected.indices and not job.has_index(selected.indices[0]):
            task = TaskId(*selected.job, selected.indices[0])
            raise NotFound("no-such-task", f"there is no task {task}")
        self.require(selected.job.number, own)
        return selected

    def select(self, text: str, own: str | None) -> Iterator[SelectedJobs | None]:
        """Yield the jobs that `text` names, as `selection.select`; an id may be another user's."""
        return select(text, self._home.name, self._home.jobs, own)

    def changing(
        self, text: str, own: str | None
    ) -> Iterator[tuple[SelectedJobs, JobState] | None]:
        """Yield the unfinished jobs that `text` names, in parts that are changed at once.

        Yields None where other requests may be served; raises a `Problem` for the first of them
        that cannot be changed.
        """
        for item in self.select(text, own):
            yield None
            if item is not None:
                self.require(item.job.number, own)
                job = self._waiting_or_running(item)
                for part in parts(item):
                    yield part, job

    def _waiting_or_running(self, item: SelectedJobs) -> JobState:
        job = self._home.jobs.get(item.job.number)
        if job is None:
            self._past.spec(item.job.number)  # raises where there never was such a job
            raise Refused("finished", f"{item.job} has finished")
        some = item.indices[:TASKS_AT_ONCE]
        if len(item.indices) == len(some) > 0 and not any(map(job.has_index, some)):
            raise NotFound("no-such-task", f"{item.job} has no task {item.indices[0]}")
        return job

    # --- answers ---------------------------------------------------------------------------------

    def listing(self, request: Jobs, user: str) -> Iterator[list[bytes]]:
        """Yield encoded rows of unfinished jobs that `user` asked for, some at a time."""
        home, known = self._home.name, self._home.jobs
        some = tuple(islice(known.values(), ROWS_AT_ONCE))
        yield [encoded_row(home, job) for job in some if is_listed(request, job, user)]
        if len(some) < ROWS_AT_ONCE:
            return
        # They are in the order of their numbers. For a page of them the others are not looked at.
        jobs = tuple(known.values())
        begin = bisect_right(jobs, some[-1].number, key=attrgetter("number"))
        for first in range(begin, len(jobs), ROWS_AT_ONCE):
            some = jobs[first : first + ROWS_AT_ONCE]
            yield [encoded_row(home, job) for job in some if is_listed(request, job, user)]

    def detail(
        self,
        selected: SelectedJobs,
        reasons: list[Reason],
        starts: dict[int, float],
        *,
        ranks: bool = False,
    ) -> JobDetail:
        """Return all details of a job; `starts` has the estimated starts of those that wait.

        `ranks`: with the seats of its attempts.
        """
        job = self._home.jobs.get(selected.job.number)
        if job is None:
            return self._past.detail(selected, ranks=ranks)
        attempts = list(self._running_rows(job, selected))
        room = ATTEMPTS_SHOWN_MAX - len(attempts)
        if room > 0:
            attempts += self._past.attempts(selected, job.spec, room)
        row = job_row(self._home.name, job)
        if job.waiting and row.start_wall_s is None:
            row = replace(row, start_wall_s=starts.get(job.number))
        shown = attempts[:ATTEMPTS_SHOWN_MAX]
        seats = self._past.seats(selected, job.spec, self._running(job, selected)) if ranks else []
        why = told_reasons(reasons)
        return job_detail(row, job.spec, job.counts, shown, why, seats=seats, comment=job.comment)

    def _running(self, job: JobState, selected: SelectedJobs) -> Iterator[RunningTask]:
        for index, task in job.tasks.items():
            if task.state is not TaskState.QUEUED and _is_meant(selected, index):
                attempt = AttemptId(self._home.name, job.number, index, task.attempt)
                yield index, task, self._home.started_wall_s(attempt)

    def _running_rows(self, job: JobState, selected: SelectedJobs) -> Iterator[AttemptRow]:
        for index, task, started in self._running(job, selected):
            attempt = AttemptId(self._home.name, job.number, index, task.attempt)
            ahead = self._home.explain_ahead(attempt)
            message = "" if ahead is None else f"{ahead.had}: it starts after what runs there"
            yield running_row(job.spec, attempt, task, started, self._spool, message)

    def standing(self, selected: SelectedJobs) -> tuple[str, list[Reason] | None]:
        """Return the state of a job or task, and why it does not run.

        None instead of reasons: what waits of the job has some, which the broker may have to tell.
        """
        job = self._home.jobs.get(selected.job.number)
        if job is None:
            self._past.outcome(selected)  # raises where there never was such a job
            return TaskState.FINISHED, []
        indices = selected.indices
        state = job.task_state(indices[0]) if indices else job_state(job)
        if job.waiting and (not indices or state in (TaskState.QUEUED, TaskState.HELD)):
            return state, None
        return state, self._ahead(job, selected)

    def _ahead(self, job: JobState, selected: SelectedJobs) -> list[Reason]:
        """Return why a prefetched task has not started, or one that has does not run at present.

        Of a whole job, the first such task.
        """
        for index, task in job.tasks.items():
            if _is_meant(selected, index):
                attempt = AttemptId(self._home.name, job.number, index, task.attempt)
                reason = self._home.explain_ahead(attempt)
                reason = reason or suspended(attempt.task, task, job.spec_of(index))
                if reason is not None:
                    return [reason]
        return []

    def outcome(self, selected: SelectedJobs) -> Outcome:
        """Return the outcome of a finished job or task; raise `NotFound`."""
        outcome = None if selected.indices else self._home.outcomes.get(selected.job.number)
        if outcome is not None and outcome.worst.exit_code == 0:
            worst = outcome.worst
            return Outcome(str(selected.job), worst.cause, worst.exit_code, worst.signal, "")
        return self._past.outcome(selected)

    def log_files(
        self, selected: SelectedJobs, after_index: int, after_rank: int | None = None
    ) -> tuple[dict[AttemptId, LogFile], tuple[int, int | None] | None]:
        """Return the output of each task's last attempt above `after_index`, by index and rank.

        With `after_rank` that of this index above that rank, too. Also returns after which of both
        the rest begins; None: that was all.
        """
        number = selected.job.number
        job, spec = self._home.jobs.get(number), self.spec(number)
        first = after_index if after_rank is None else after_index - 1
        found, until = self._past.last_places(selected, first)
        for index, task in job.tasks.items() if job else ():
            is_next = index > first and (until is None or index <= until)
            if is_next and task.state is not TaskState.QUEUED and _is_meant(selected, index):
                attempt = AttemptId(self._home.name, number, index, task.attempt)
                one = (SeatPlace(task.machine, 1),)
                places = one if task.parallel is None else task.parallel.places
                found[index] = AttemptPlaces(attempt, places, finished=False)
        files: dict[AttemptId, LogFile] = {}
        after = after_index, RANKS_MAX if after_rank is None else after_rank
        for index in sorted(found):
            for attempt, file in log_files(spec, found[index], self._spool):
                if (index, file.rank) <= after:
                    continue
                if len(files) == LOG_FILES_MAX:
                    last = next(reversed(files))
                    return files, (last.index, last.rank)
                files[attempt] = file
        return files, None if until is None else (until, None)


def _is_meant(selected: SelectedJobs, index: int) -> bool:
    return not selected.indices or index in selected.indices


def told_reasons(reasons: list[Reason]) -> tuple[Why, ...]:
    """Return reasons as clients see them."""
    return tuple(Why(each.rule, each.needed, each.had, each.machine) for each in reasons)


def check_listing(wanted: Jobs, own: str | None) -> None:
    """Raise `NotAllowed` if `wanted` lists jobs of others than `own` (None: it may).

    Raises `UsageProblem` if the pattern of names cannot be one.
    """
    if wanted.name is not None:
        name_pattern(wanted.name)
    if own is None or not (wanted.everyone or wanted.user not in (None, own)):
        return
    raise NotAllowed(
        "not-an-operator",
        "only operators may list the jobs of other users",
        "leave out --all and --user; 'iriai shares' shows the usage and wishes of each account",
    )
