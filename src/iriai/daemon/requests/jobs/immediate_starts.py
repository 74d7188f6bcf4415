"""Jobs that are refused unless they can start now (docs/spec/011, section 2).

Whether a job can start is known only when its tasks have their claims. So it is submitted as any
other, and withdrawn if the broker, after its next pass, says that one of its tasks waits.
"""

from __future__ import annotations

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending
from iriai.daemon.requests.jobs.explanations import Explanations
from iriai.home.job import JobState
from iriai.model.ids import AttemptId
from iriai.model.problem import Refused
from iriai.model.reason import Reason, Rule
from iriai.model.state import TaskState

CLAIM_S = 2.0
"""How long matches may take to become claims, and claims to be started. A prolog takes longer: what
has its claims by then is started."""
LOOK_S = 0.05
"""Between two looks while nothing is heard of the job."""


class ImmediateStarts:
    """Waits until jobs have started, or the broker has said that they wait."""

    def __init__(self, engine: Engine, explanations: Explanations) -> None:
        self._engine = engine
        self._home = engine.machine.home
        self._explanations = explanations
        self._news: dict[int, Pending[None]] = {}
        """Resolved when something has happened to the job."""

    def job_changed(self, number: int) -> None:
        """Look again at a job of which an event is durable."""
        if number in self._news:
            self._news.pop(number).resolve(None)

    async def refusal(self, number: int) -> Refused | None:
        """Return None once the tasks of a job have started; else why they cannot start now.

        Of an array with a throttle only those count that may run at once.
        """
        until_s = self._engine.steady_s() + CLAIM_S
        while (job := self._home.jobs.get(number)) is not None:
            is_late = self._engine.steady_s() >= until_s
            reasons = await self._waits_for(job) if _waits(job) else self._ahead(job)
            if reasons and (is_late or reasons[0].rule is not Rule.STARTING):
                return Refused(
                    "not-now",
                    f"it cannot start now: {reasons[0]}",
                    "leave out --immediate to have it wait",
                )
            if not reasons and (is_late or not _is_claimed(job)):
                return None
            await self._next(number)
        return None

    async def _waits_for(self, job: JobState) -> list[Reason]:
        """Return why tasks of a job wait; none if they have got their claims meanwhile."""
        reasons = await self._explanations.of(job.number)
        return reasons if _waits(job) else []

    def _ahead(self, job: JobState) -> list[Reason]:
        """Return what a task waits for that another task's end will start."""
        attempts = (
            AttemptId(self._home.name, job.number, index, task.attempt)
            for index, task in job.tasks.items()
        )
        return [reason for each in attempts if (reason := self._home.explain_ahead(each))]

    async def _next(self, number: int) -> None:
        news = self._news[number] = Pending()
        self._engine.later(LOOK_S, lambda: news.resolve(None))
        await news


def _waits(job: JobState) -> bool:
    return bool(job.ready or (job.waiting and (job.held or job.open_after)))


def _is_claimed(job: JobState) -> bool:
    return any(task.state is TaskState.CLAIMED for task in job.tasks.values())
