"""How jobs ended that finished lately, for those who ask before the store must be."""

from __future__ import annotations

from collections import OrderedDict

from iriai.home.job import JobState, TaskEnd
from iriai.model.state import EndCause

OUTCOMES_MAX = 20_000
"""Outcomes of finished jobs kept at hand for those who wait; older ones are in the store."""


class RecentOutcomes:
    """By number, the longest finished first."""

    def __init__(self) -> None:
        self.outcomes: OrderedDict[int, TaskEnd] = OrderedDict()
        self._counts: dict[int, tuple[int, int]] = {}
        self._last_outcome: TaskEnd | None = None
        self._last_counts = (0, 0)

    def add(self, job: JobState) -> None:
        """The last task of a job has ended."""
        assert job.worst is not None
        worst = job.worst
        if worst == self._last_outcome:
            worst = self._last_outcome  # many are alike
        self._last_outcome = self.outcomes[job.number] = worst
        succeeded = job.counts.get(EndCause.COMPLETED, 0)
        counts = (succeeded, sum(job.counts.values()) - succeeded)
        if counts == self._last_counts:
            counts = self._last_counts
        self._last_counts = self._counts[job.number] = counts
        if len(self.outcomes) > OUTCOMES_MAX:
            oldest, _ = self.outcomes.popitem(last=False)
            del self._counts[oldest]

    def counts(self, number: int) -> tuple[int, int]:
        """Tasks of a job: (completed, ended in any other way); none of one that is not known."""
        return self._counts.get(number, (0, 0))
