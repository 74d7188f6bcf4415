"""A queue that runs by night, as a policy of one's own; the others are first come, first served.

By day its jobs are held, with a comment that says until when, and its tasks go back to the queue.

For a real cluster, in iriai.toml; the last on each machine where jobs are submitted:

    [order]
    name = "fifo"
    policy = "/etc/iriai/night_queue.py:NightQueue"

    [jobs]
    policy_may = ["hold", "release", "requeue", "modify"]

What a machine does not permit is not done there; its jobs of that queue start by night
all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta, tzinfo

from iriai.policy.api import (
    Decision,
    HoldJob,
    Instant,
    ModifyJob,
    ReleaseJob,
    RequeueTask,
    Start,
    View,
    seats_now,
)


class NightQueue:
    """Has a queue run in its hours alone."""

    queue = 2
    begins, ends = time(20), time(7)
    zone: tzinfo | None = None
    """None: that of the machine."""

    def __init__(self) -> None:
        self.wake_s = 0.0

    def plan(self, view: View, now: Instant) -> Iterator[Decision]:
        """Hold or release the queue's jobs; then start in order what may start."""
        moment = datetime.fromtimestamp(now.wall_s, UTC).astimezone(self.zone)
        if self.begins > self.ends:
            is_night = not self.ends <= moment.time() < self.begins
        else:
            is_night = self.begins <= moment.time() < self.ends
        until_s = min(_until(moment, each) for each in (self.begins, self.ends))
        self.wake_s = now.steady_s + until_s
        yield from self._release(view) if is_night else self._clear(view)
        for job in view.queue():
            if job.queue == self.queue and not is_night:
                continue
            for _ in range(job.tasks):
                seats = seats_now(job, view.machines)
                if not seats:
                    return
                yield Start(job.id, seats=seats)

    def _release(self, view: View) -> Iterator[Decision]:
        for job in view.held:
            if job.queue == self.queue and job.is_policys and view.may(ReleaseJob, job.id):
                yield ReleaseJob(job.id)

    def _clear(self, view: View) -> Iterator[Decision]:
        for job in [each for each in view.queue() if each.queue == self.queue]:
            if view.may(ModifyJob, job.id) and not job.comment:
                yield ModifyJob(job.id, comment=f"runs by night, from {self.begins:%H:%M}")
            if view.may(HoldJob, job.id):
                yield HoldJob(job.id)
        for machine in view.machines:
            for task in machine.tasks():
                is_mine = task.queue == self.queue and task.reservation is None
                if is_mine and task.attempt and task.job and view.may(RequeueTask, task.job):
                    yield RequeueTask(task.attempt)


def _until(moment: datetime, hour: time) -> float:
    """Return in how many seconds it is that time of the day."""
    then = datetime.combine(moment.date(), hour, moment.tzinfo)
    if then <= moment:
        then += timedelta(days=1)
    return (then - moment).total_seconds()
