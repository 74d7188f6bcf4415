"""`-p` brings a job forward and the account's next ones back; always using it gains nothing.

docs/guide/urgency.md has the figures of `starts_of` and `part_of` for more seeds and longer times.
"""

from __future__ import annotations

from statistics import mean

import pytest

from iriai.config.reader import Configuration
from iriai.config.sections import OrderSection
from tests.support.virtual import VirtualMachine

RUN_S = 600.0
OTHERS = ("bob", "cleo", "dan")


def starts_of(urgency: float, seed: int, jobs: int = 4, used: int = 12) -> list[float]:
    """Hours after their submission at which ann's jobs start: the first with `-p`, then others.

    One cpu, jobs of ten minutes; three others wait all the time, and all have used as much.
    """
    machine = VirtualMachine(1, seed=seed, is_checked=False)
    for user in ("ann", *OTHERS):
        machine.submit(user, tasks=used, run_s=RUN_S, limit_s=RUN_S)
    machine.finish()
    for user in OTHERS:
        machine.submit(user, tasks=30, run_s=RUN_S, limit_s=RUN_S)
    mine = [machine.submit("ann", run_s=RUN_S, limit_s=RUN_S, urgency=urgency)]
    mine += [machine.submit("ann", run_s=RUN_S, limit_s=RUN_S) for _ in range(jobs - 1)]
    began_s = machine.now_s
    found: dict[int, float] = {}
    while len(found) < jobs:
        machine.wait(RUN_S / 2)
        for place, job in enumerate(mine):
            if machine.starts(job):
                found.setdefault(place, (machine.now_s - began_s) / 3600)
    return [found[place] for place in range(jobs)]


def part_of(urgency: float, days: float, seed: int = 1) -> float:
    """ann's part of the cpu time, where she says `-p` for every job, and bob never."""
    machine = VirtualMachine(2, seed=seed, is_checked=False)
    ann = machine.submit("ann", tasks=2000, run_s=RUN_S, limit_s=RUN_S, urgency=urgency)
    bob = machine.submit("bob", tasks=2000, run_s=RUN_S, limit_s=RUN_S)
    machine.wait(days * 86400)
    mine, others = len(machine.starts(ann)), len(machine.starts(bob))
    return mine / (mine + others)


def test_an_urgent_job_comes_forward_and_the_next_one_goes_back():
    ordinary, urgent = (
        [mean(hours) for hours in zip(*(starts_of(p, n, 2, 3) for n in range(10)), strict=True)]
        for p in (1.0, 8.0)
    )
    assert urgent[0] < ordinary[0]
    assert urgent[1] - urgent[0] > ordinary[1] - ordinary[0]


def test_an_urgent_job_counts_as_such_though_others_of_its_user_wait_already():
    hers = 0
    for seed in range(40):
        machine = VirtualMachine(1, seed=seed, is_checked=False)
        for user in ("ann", "bob"):
            machine.submit(user, tasks=20, run_s=RUN_S, limit_s=RUN_S)
        machine.wait(10.5 * RUN_S)
        urgent = machine.submit("ann", run_s=RUN_S, limit_s=RUN_S, urgency=9.0)
        machine.wait(RUN_S)
        hers += bool(machine.starts(urgent))
    assert hers > 28  # of 40 about 36, and about 20 where nobody looks at it


@pytest.mark.parametrize("urgency", [1.0, 8.0])
def test_always_using_it_gains_nothing(urgency: float):
    assert abs(part_of(urgency, days=1.0) - 0.5) < 0.04


def test_under_a_window_use_counts_whole_and_then_no_more():
    month_s = 32 * 86_400.0
    machine = VirtualMachine(1, configuration=Configuration(order=OrderSection(window_s=month_s)))
    machine.submit("ann", run_s=100.0, urgency=4.0)
    machine.submit("bob", run_s=100.0)
    machine.finish()
    for seconds, used in ((0.9 * month_s, [400, 100]), (0.2 * month_s, [0, 0])):
        machine.wait(seconds)
        machine.restart()
        shares = machine.machine.broker.shares(machine.now)
        assert [round(each.usage_s) for each in shares] == used
        assert [round(each.advance_s) for each in shares] == [0.75 * used[0], 0]


def test_what_was_paid_for_urgency_is_shown_and_fades():
    machine = VirtualMachine(1)
    machine.submit("ann", run_s=100.0, urgency=4.0)
    machine.submit("bob", run_s=100.0)
    machine.finish()
    half_life_s = machine.configuration.order.half_life_s
    shares = machine.machine.broker.shares(machine.now)
    assert [round(each.usage_s) for each in shares] == [400, 100]
    assert [round(each.advance_s) for each in shares] == [300, 0]
    machine.wait(half_life_s)
    machine.restart()
    [ann, _] = machine.machine.broker.shares(machine.now)
    assert round(ann.advance_s) == 150
