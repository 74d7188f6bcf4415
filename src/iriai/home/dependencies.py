"""Dependencies: an index from a job or task to the jobs that wait for it.

When a job ends, all jobs that wait for it become due at once; a bounded number of them is notified
in each turn. So the end of a job costs the same whether one job waits for it or 200,000 do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from iriai.home.job import JobState
from iriai.model.job import Condition, Dependency
from iriai.model.state import EndCause, TaskState

Target = tuple[int, int | None]
"""The target of a dependency: the number of a job, and the index of a task if it names one."""
Ends = Mapping[Target, EndCause]
"""The ends, from the store, of targets that the home no longer knows."""

TOLD_MAX = 1000
"""Jobs that are notified of an end within one turn: each is an event and a want, some 20
microseconds together, so that a turn stays below what a client notices."""


class DependentJob(NamedTuple):
    """One job to notify of the end of a target."""

    number: int
    dependency: Dependency
    cause: EndCause


class Dependents:
    """The index from jobs and tasks to the jobs that wait for them."""

    def __init__(self) -> None:
        self._of: dict[int, dict[Dependency, dict[int, None]]] = {}
        self.due: deque[tuple[Dependency, EndCause, Iterator[int]]] = deque()
        """Ended targets, with the dependent jobs that are still to be notified."""

    def __contains__(self, number: int) -> bool:
        """Return whether a job depends on this job, or on a task of it."""
        return number in self._of

    def add(self, number: int, dependencies: Iterable[Dependency]) -> None:
        """Add dependencies of the job `number`."""
        for each in dependencies:
            self._of.setdefault(each.number, {}).setdefault(each, {})[number] = None

    def drop(self, number: int, dependencies: Iterable[Dependency]) -> None:
        """Remove dependencies of the job `number`."""
        for each in dependencies:
            of_job = self._of.get(each.number, {})
            waiting = of_job.get(each)
            if waiting is None:  # they are due already, and skipped in their turn
                continue
            waiting.pop(number, None)
            if not waiting:
                del of_job[each]
                if not of_job:
                    del self._of[each.number]

    def targets(self) -> list[Target]:
        """Return all targets of dependencies."""
        found = ((each.number, each.task) for of_job in self._of.values() for each in of_job)
        return list(dict.fromkeys(found))

    def tasks(self, number: int) -> list[int]:
        """Return the tasks of a job on which other jobs depend."""
        tasks = (each.task for each in self._of.get(number, ()))
        return list(dict.fromkeys(task for task in tasks if task is not None))

    def ended(self, number: int, task: int | None, cause: EndCause) -> None:
        """Make the jobs due that depend on an ended job, or on an ended task of it."""
        for each in [each for each in self._of.get(number, ()) if each.task == task]:
            self._make_due(each, cause)

    def cannot_complete(self, number: int, cause: EndCause) -> None:
        """Make the jobs due that require a job to complete which no longer can."""
        for each in [each for each in self._of.get(number, ()) if each.task is None]:
            if each.condition is Condition.OK:
                self._make_due(each, cause)

    def _make_due(self, dependency: Dependency, cause: EndCause) -> None:
        of_job = self._of[dependency.number]
        self.due.append((dependency, cause, iter(of_job.pop(dependency))))
        if not of_job:
            del self._of[dependency.number]

    def pop(self, count: int) -> list[DependentJob]:
        """Return the next `count` due jobs; some of them may no longer wait."""
        taken: list[DependentJob] = []
        while self.due and len(taken) < count:
            dependency, cause, waiting = self.due[0]
            number = next(waiting, None)
            if number is None:
                self.due.popleft()
            else:
                taken.append(DependentJob(number, dependency, cause))
        return taken

    def restore(self, jobs: Mapping[int, JobState], ended: Ends) -> None:
        """Rebuild the index after a restart, and make jobs due that were not yet notified."""
        for job in jobs.values():
            self.add(job.number, job.open_after)
        for number, index in self.targets():
            here = jobs.get(number)
            is_over = here is None or (
                index is not None and here.task_state(index) is TaskState.FINISHED
            )
            if is_over:
                self.ended(number, index, ended.get((number, index), EndCause.CANCELLED))
            elif here is not None and here.spoilt_by is not None:
                self.cannot_complete(number, here.spoilt_by)

    def check(self, jobs: Mapping[int, JobState]) -> None:
        """Raise if a job waits for an end of which it will never be notified."""
        for number, of_job in self._of.items():
            assert number in jobs, f"someone waits for job {number}, which has ended"
            for each, waiting in of_job.items():
                assert waiting, f"nobody waits for {each}"
                for dependent in waiting:
                    assert each in jobs[dependent].open_after, f"{dependent} has forgotten {each}"
        if self.due:
            return
        for number, job in jobs.items():
            for each in job.open_after:
                assert number in self._of.get(each.number, {}).get(each, ()), f"{number}: {each}"
