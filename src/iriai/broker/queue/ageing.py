"""The queue that a waiting task counts in: a higher one, the longer it has waited.

Times are of the steady clock. docs/spec/013, section 4.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf

from iriai.model.ids import JobId

NOISE_S = 1.0
"""Requests are repeated with times waited that differ by delays of messages: within so much a job
rises when it was noted to."""
GONE_MAX = 64
"""Notes of jobs that are gone, beside as many as there are jobs."""


class Ageing:
    """When the jobs of lower queues rise next."""

    def __init__(self, age_s: float) -> None:
        """After each `age_s` (infinite: never) a task counts in a queue one higher, up to 0."""
        self._age_s = age_s
        self._rises: list[tuple[float, JobId]] = []
        """A heap; some are not in `_due` any more."""
        self._due: dict[JobId, float] = {}

    def level(self, queue: int, waited_s: float) -> int:
        """Return the queue that a task counts in after that time."""
        return max(0, queue - int(max(0.0, waited_s) // self._age_s))

    @property
    def next_s(self) -> float:
        """Return when a job may rise next; infinite: none will."""
        return self._rises[0][0] if self._rises else inf

    def note(self, job: JobId, queue: int, level: int, queued_at_s: float) -> None:
        """Note a job of that queue, which counts in `level`, above 0, and waits since then."""
        due_s = queued_at_s + (queue - level + 1) * self._age_s
        known_s = self._due.get(job)
        if due_s == inf or (known_s is not None and abs(known_s - due_s) <= NOISE_S):
            return
        self._due[job] = due_s
        heappush(self._rises, (due_s, job))
        if len(self._rises) > 2 * len(self._due) + GONE_MAX:
            self._rises = [(at_s, each) for each, at_s in self._due.items()]
            heapify(self._rises)

    def forget(self, job: JobId) -> None:
        """Forget a job that waits no more, or counts in queue 0."""
        self._due.pop(job, None)

    def risen(self, now_s: float) -> list[JobId]:
        """Return the jobs that are to rise now; `note` or `forget` each."""
        jobs = []
        while self._rises and self._rises[0][0] <= now_s:
            due_s, job = heappop(self._rises)
            if self._due.get(job) == due_s:
                del self._due[job]
                jobs.append(job)
        return jobs
