"""Checks of dependencies: whether a job exists, has ended, and can be waited for."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from iriai.home.job import JobOutcome, JobState
from iriai.model.alteration import Alteration
from iriai.model.ids import JobId
from iriai.model.job import Condition, Dependency
from iriai.model.problem import NotFound, Refused
from iriai.model.records import Altered
from iriai.model.state import EndCause, TaskState

SEARCHED_MAX = 100_000
"""Jobs that are searched for a cycle, some tenths of a second; longer chains are refused."""
NOT_ENDED = "not ended"
"""The end of a job or task that still waits or runs."""
Target = tuple[int, int | None]
"""The target of a dependency: the number of a job, and the index of a task if it names one."""
Ends = Mapping[Target, EndCause]
"""The ends, from the store, of targets that the home no longer knows."""
EndsMet = tuple[tuple[Dependency, EndCause], ...]
"""Dependencies that are met, and how each ended."""


class JobLookup(NamedTuple):
    """A home's jobs at one moment."""

    home: str
    next_number: int
    jobs: Mapping[int, JobState]
    outcomes: Mapping[int, JobOutcome]

    def end_of(self, dependency: Dependency) -> EndCause | str | None:
        """Return the end that decides the dependency; `NOT_ENDED`; None: ask the store.

        Raises `NotFound` if the job or task does not exist.
        """
        number, task = dependency.number, dependency.task
        if not 0 < number < self.next_number:
            raise NotFound("no-such-job", f"there is no job {JobId(self.home, number)} to wait for")
        job = self.jobs.get(number)
        if job is None:
            outcome = self.outcomes.get(number)
            return outcome.worst.cause if outcome is not None and task is None else None
        if task is None:
            early = job.spoilt_by if dependency.condition is Condition.OK else None
            return early or NOT_ENDED
        if not job.has_index(task):
            raise NotFound("no-such-task", f"there is no task {dependency.on} to wait for")
        return None if job.task_state(task) is TaskState.FINISHED else NOT_ENDED

    def dependencies_met(self, after: tuple[Dependency, ...], ended: Ends) -> EndsMet:
        """Return those of `after` that have ended as required; `ended` has the store's answers.

        Raises `NotFound`, or `Refused` if one can never hold.
        """
        met = []
        for each in after:
            cause = self.end_of(each) or ended.get((each.number, each.task))
            if cause is None:
                raise NotFound("no-such-job", f"the end of {each.on} is no longer stored")
            if isinstance(cause, EndCause):
                check_possible(each, cause)
                met.append((each, cause))
        return tuple(met)

    def alteration(
        self, job: JobState, wanted: Alteration, by: str, ended: Ends
    ) -> tuple[Altered, EndsMet] | None:
        """Return the change that `wanted` makes to the job; None: nothing differs."""
        if not job.waiting:
            raise Refused(
                "nothing-waits",
                f"{JobId(self.home, job.number)} has no waiting task",
                "running tasks keep what they have",
            )
        new = wanted.differing(job.spec)
        if not new.fields:
            return None
        after = new.applied(job.spec).after if "after" in new.fields else ()
        check_no_cycle(self.jobs, self.home, job.number, after)
        return Altered(new.undone(job.spec), new, by), self.dependencies_met(after, ended)


def check_possible(dependency: Dependency, cause: EndCause) -> None:
    """Raise `Refused` if an end with this cause can never meet the dependency."""
    if dependency.condition.holds(cause):
        return
    raise Refused(
        "dependency-never-holds",
        f"{dependency.on} ended {cause}, so {dependency} can never hold",
        f"leave it out, or wait for any:{dependency.on}",
    )


def check_no_cycle(
    jobs: Mapping[int, JobState], home: str, number: int, after: tuple[Dependency, ...]
) -> None:
    """Raise `Refused`, with the cycle, if job `number` would wait for itself."""
    came_from = {each.number: number for each in after}
    queue = deque(came_from)
    while queue and number not in came_from and len(came_from) <= SEARCHED_MAX:
        here = queue.popleft()
        job = jobs.get(here)
        for each in job.open_after if job else ():
            if each.number not in came_from:
                came_from[each.number] = here
                queue.append(each.number)
    if number in came_from:
        way = [number]
        while len(way) == 1 or way[-1] != number:
            way.append(came_from[way[-1]])
        names = " after ".join(str(JobId(home, each)) for each in reversed(way))
        raise Refused("cycle", f"it would wait for itself: {names}", "leave one of them out")
    if len(came_from) > SEARCHED_MAX:
        raise Refused(
            "chain-too-long",
            f"it would wait for more than {SEARCHED_MAX} jobs, one after another",
            "wait for fewer, or submit it again",
        )
