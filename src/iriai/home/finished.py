"""How jobs ended that finished lately, for those who ask before the store must be."""

from __future__ import annotations

from collections import OrderedDict

from iriai.home.job import JobState, Outcome
from iriai.model.state import EndCause

OUTCOMES_MAX = 20_000
"""Outcomes of finished jobs kept at hand for those who wait; older ones are in the store."""


class Finished:
    """By number, the longest finished first."""

    def __init__(self) -> None:
        self.outcomes: OrderedDict[int, Outcome] = OrderedDict()
        self._counts: dict[int, tuple[int, int]] = {}

    def add(self, job: JobState) -> None:
        """The last task of a job has ended."""
        assert job.worst is not None
        self.outcomes[job.number] = job.worst
        succeeded = job.counts.get(EndCause.COMPLETED, 0)
        self._counts[job.number] = (succeeded, sum(job.counts.values()) - succeeded)
        if len(self.outcomes) > OUTCOMES_MAX:
            oldest, _ = self.outcomes.popitem(last=False)
            del self._counts[oldest]

    def counts(self, number: int) -> tuple[int, int]:
        """Tasks of a job: (completed, ended in any other way); none of one that is not known."""
        return self._counts.get(number, (0, 0))
