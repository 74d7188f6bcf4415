"""Schedules by the shortest code that says what the policies mean; slow, and nothing of ours in it.

After the published descriptions: Lifka, JSSPP 1995 (EASY); Mu'alem and Feitelson, IEEE TPDS 12(6)
2001 (conservative, with compression where a job ends early); Tsafrir, Etsion, Feitelson, IEEE TPDS
18(6) 2007 (SJBF).
"""

from __future__ import annotations

from dataclasses import dataclass

AT_ONCE_MAX = 1000
"""No log has more submissions at one instant; without a bound each look would go through a year."""


@dataclass
class Job:
    number: int
    submit: float
    run: float
    width: int
    estimate: float
    start: float | None = None
    reserved: float | None = None

    @property
    def planned_end(self):
        return self.start + self.estimate


def schedule(jobs, processors, policy, *, each_event=False):
    """Start of each job by number; `jobs` are (number, submit, run, width, estimate).

    With `each_event` the rule of pyss and of what grew out of it: of one instant, submissions come
    first, then ends, each with a pass of its own, in which a job whose estimate is over counts as
    gone, even if its end is yet to come.
    """
    jobs = sorted((Job(*job) for job in jobs), key=lambda job: (job.submit, job.number))
    to_come, waiting, running = list(jobs), [], []
    while to_come or waiting or running:
        ends = [job.start + job.run for job in running]
        wakes = [job.reserved for job in waiting if job.reserved is not None]
        now = min([job.submit for job in to_come[:1]] + ends + wakes)
        ended = [job for job in running if job.start + job.run == now]
        arrived = [job for job in to_come[:AT_ONCE_MAX] if job.submit == now]
        if each_event:
            arrived = arrived[:1]
            ended = [] if arrived else ended[:1]
        running = [job for job in running if job not in ended]
        del to_come[: len(arrived)]
        waiting += arrived
        known = [job for job in running if job.planned_end > now] if each_event else running
        started = POLICIES[policy](waiting, known, processors, now, bool(ended))
        for job in started:
            assert job.start == now
        waiting = [job for job in waiting if job.start is None]
        running += started
    return {job.number: job.start for job in jobs}


def free_now(running, processors):
    return processors - sum(job.width for job in running)


def start_heads(waiting, running, processors, now):
    started = []
    for job in waiting:
        if job.width > free_now(running + started, processors):
            break
        job.start = now
        started.append(job)
    return started


def fcfs(waiting, running, processors, now, _ended):
    return start_heads(waiting, running, processors, now)


def easy(waiting, running, processors, now, _ended, key=None):
    started = start_heads(waiting, running, processors, now)
    rest = [job for job in waiting if job.start is None]
    if not rest:
        return started
    head, *others = rest
    free = free_now(running + started, processors)
    for shadow in sorted({job.planned_end for job in running + started}):
        there = free + sum(job.width for job in running + started if job.planned_end <= shadow)
        if there >= head.width:
            spare = there - head.width
            break
    for job in sorted(others, key=key) if key else others:
        if job.width > free_now(running + started, processors):
            continue
        if now + job.estimate <= shadow:
            job.start = now
        elif job.width <= spare:
            job.start = now
            spare -= job.width
        if job.start is not None:
            started.append(job)
    return started


def easy_sjbf(waiting, running, processors, now, ended):
    return easy(waiting, running, processors, now, ended, key=lambda job: job.estimate)


def conservative(waiting, running, processors, now, ended):
    """Everybody keeps a place; after an end each is moved up in turn, as far as it can be."""
    if ended:
        for job in waiting:
            if job.reserved is not None:
                job.reserved = earliest(job, waiting, running, processors, now)
    for job in waiting:
        if job.reserved is None:
            job.reserved = earliest(job, waiting, running, processors, now)
    started = [job for job in waiting if job.reserved == now]
    for job in started:
        job.start = now
    return started


def earliest(job, waiting, running, processors, now):
    taken = [(other.start, other.planned_end, other.width) for other in running]
    taken += [
        (other.reserved, other.reserved + other.estimate, other.width)
        for other in waiting
        if other is not job and other.reserved is not None
    ]
    for at in sorted({now, *(end for _, end, _ in taken if end > now)}):
        until = at + job.estimate
        times = [at, *(begin for begin, _, _ in taken if at < begin < until)]
        if all(
            sum(width for begin, end, width in taken if begin <= time < end) + job.width
            <= processors
            for time in times
        ):
            return at
    raise AssertionError("a job that is no wider than the machine fits in the end")


POLICIES = {
    "fcfs": fcfs,
    "easy": easy,
    "easy-sjbf": easy_sjbf,
    "conservative": conservative,
}
