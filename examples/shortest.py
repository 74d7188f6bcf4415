"""The shortest job first, as a policy of one's own.

    iriai simulate log.swf --policy examples/shortest.py:Shortest

A job that takes many machines may wait for ever behind short ones; `patience_s` bounds that.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from iriai.policy.api import Instant, Start, View, WaitingJob, seats_now


class Shortest:
    """Starts the shortest of the jobs that fit now; who has waited for a day comes first."""

    patience_s = 86400.0

    def plan(self, view: View, now: Instant) -> Iterator[Start]:
        """Yield what starts now."""

        def turn(job: WaitingJob) -> tuple[bool, float]:
            is_patient = now.steady_s - job.queued_at_s < self.patience_s
            return is_patient, inf if job.stay_s is None else job.stay_s

        for job in sorted(view.queue(), key=turn):
            for _ in range(job.tasks):
                seats = seats_now(job, view.machines)
                if not seats:
                    if not turn(job)[0]:
                        return
                    break
                yield Start(job.id, seats=seats)
