"""EASY backfill as a policy of one's own: a job may pass the first that waits, but not delay it.

    iriai simulate log.swf --policy examples/easy.py:Easy

The first job that fits nowhere is promised the earliest place on one machine. What is in the way of
a promise does not fit, so others start only where they end before it or leave room beside it. A job
of several ranks that fits nowhere lets nothing pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from iriai.policy.api import Instant, PlannedStart, Start, View, place_for, seats_now


class Easy:
    """Starts jobs in order; behind the first that fits nowhere those that do not delay it."""

    def plan(self, view: View, now: Instant) -> Iterator[Start | PlannedStart]:
        """Yield what starts now, and a promise for the first job that does not."""
        has_head = False
        for job in sorted(view.queue(), key=lambda job: job.promised_start_s or inf):
            for _ in range(job.tasks):
                seats = seats_now(job, view.machines)
                if not seats:
                    break
                yield Start(job.id, seats=seats)
            if not (seats or has_head):
                has_head, promise = True, place_for(job, view.machines)
                if promise is None:
                    return
                yield promise
