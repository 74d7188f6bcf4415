"""Schedules of parallel jobs on several machines, by the shortest code that says spec 011.

Slow, and nothing of ours in it. Each job has ranks of one cpu, at least two. Ranks go to as few
machines as hold them, of equals to the least loaded; EASY keeps places at one moment, bound to no
machine (Lifka, JSSPP 1995, over many machines).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.sim import naive


@dataclass
class Job(naive.Job):
    ranks: dict[str, int] = field(default_factory=dict)


def schedule(jobs, machines: dict[str, int], policy: str) -> dict[int, float]:
    """Start of each job by number; `machines` are their cpus by name."""
    to_come = sorted((Job(*job) for job in jobs), key=lambda job: (job.submit, job.number))
    all_jobs, waiting, running = list(to_come), [], []
    while to_come or waiting or running:
        ends = [job.start + job.run for job in running]
        now = min([job.submit for job in to_come[:1]] + ends)
        running = [job for job in running if job.start + job.run != now]
        while to_come and to_come[0].submit == now:
            waiting.append(to_come.pop(0))
        one_pass(waiting, running, machines, policy, now)
        waiting = [job for job in waiting if job.start is None]
    return {job.number: job.start for job in all_jobs}


def free_on(running, machines) -> dict[str, int]:
    free = dict(machines)
    for job in running:
        for name, ranks in job.ranks.items():
            free[name] -= ranks
    return free


def seats(job, free, machines) -> dict[str, int]:
    """Where its ranks would go; empty: it does not fit."""

    def order(name):
        load = (machines[name] - free[name]) / machines[name]
        return (-min(free[name], job.width), load, name)

    left, found = job.width, {}
    for name in sorted(machines, key=order):
        here = min(left, free[name])
        if here > 0:
            found[name] = here
            left -= here
    return {} if left else found


def one_pass(waiting, running, machines, policy, now) -> None:
    def begin(job, ranks):
        job.start, job.ranks = now, ranks
        running.append(job)

    queue = list(waiting)
    while queue and (ranks := seats(queue[0], free_on(running, machines), machines)):
        begin(queue.pop(0), ranks)
    if policy == "fcfs" or not queue:
        return
    head, *others = queue
    start, then = shadow(head, running, machines, now)
    if policy == "easy-sjbf":
        others.sort(key=lambda job: job.estimate)
    for job in others:
        ranks = seats(job, free_on(running, machines), machines)
        if not ranks:
            continue
        if now + job.estimate > start:
            left = {name: free - ranks.get(name, 0) for name, free in then.items()}
            if sum(max(0, free) for free in left.values()) < head.width:
                continue
            then = left
        begin(job, ranks)


def shadow(head, running, machines, now) -> tuple[float, dict[str, int]]:
    """When the head starts if all that runs ends as it said, and what is free then."""
    free, start = free_on(running, machines), now
    for end in sorted({max(now, job.start + job.estimate) for job in running}):
        if sum(free.values()) >= head.width:
            break
        start = end
        over = [job for job in running if max(now, job.start + job.estimate) <= end]
        free = free_on([job for job in running if job not in over], machines)
    return start, free
