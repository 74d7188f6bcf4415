"""The product's pass in virtual time, beside what others get and beside a naive implementation."""

from __future__ import annotations

import pytest

from iriai.sim.workload.log import with_starts
from iriai.sim.workload.metrics import measure
from iriai.sim.workload.replay import replay
from iriai.sim.workload.settings import POLICIES, ReplaySettings
from tests.sim import naive_machines
from tests.sim.logs import as_numbers, coincidental, parallel, published_starts, real
from tests.sim.naive import schedule

pytestmark = pytest.mark.long

GENERATED = 1000


def starts(log, policy, **settings):
    return {
        record.job.number: record.start_s
        for record in replay(log, ReplaySettings(policy=policy, **settings))
    }


@pytest.mark.parametrize("policy", POLICIES)
def test_a_naive_scheduler_starts_every_job_at_the_same_time(policy):
    for seed in range(GENERATED):
        log = coincidental(seed, perfect=seed % 5 == 0)
        naive = schedule(as_numbers(log), log.processors, policy)
        assert starts(log, policy, is_checked=seed % 10 == 0) == naive, f"seed {seed}"


@pytest.mark.parametrize("policy", ["fcfs", "easy", "easy-sjbf"])
def test_a_naive_scheduler_of_many_machines_starts_every_job_at_the_same_time(policy):
    for seed in range(GENERATED):
        log, machines = parallel(seed)
        naive = naive_machines.schedule(as_numbers(log), machines, policy)
        settings = {"machines": len(machines), "is_checked": seed % 10 == 0}
        assert starts(log, policy, **settings) == naive, f"seed {seed}"


@pytest.mark.parametrize("order", ["fifo", "lottery", "paper000", "stride"])
@pytest.mark.parametrize("policy", POLICIES)
def test_ranks_of_one_processor_start_as_on_one_machine_of_all(policy, order):
    """No job of these runs for a slice, so that charges of many machines are those of one."""
    for seed in range(GENERATED // 10):
        log, machines = parallel(seed)
        settings = {"order": order, "seed": seed, "is_checked": seed % 10 == 0}
        alone = starts(log, policy, **settings)
        assert starts(log, policy, machines=len(machines), **settings) == alone, f"seed {seed}"


@pytest.mark.logs
@pytest.mark.parametrize(
    ("policy", "perfect", "name"),
    [
        ("fcfs", False, "KTH-SP2.fcfs"),
        ("easy", False, "KTH-SP2.easy"),
        ("easy", True, "KTH-SP2.easy-perf"),
    ],
)
def test_a_year_of_a_real_machine_goes_as_other_simulators_say(policy, perfect, name):
    log = real("KTH-SP2", perfect_estimates=perfect)
    assert starts(log, policy) == published_starts(name)


@pytest.mark.logs
@pytest.mark.parametrize(
    ("policy", "perfect", "name"),
    [
        ("easy", False, "KTH-SP2.easy"),
        pytest.param("fcfs", False, "KTH-SP2.fcfs", marks=pytest.mark.soak),
        pytest.param("easy", True, "KTH-SP2.easy-perf", marks=pytest.mark.soak),
    ],
)
def test_that_year_goes_alike_on_a_hundred_machines_of_one_processor(policy, perfect, name):
    log = real("KTH-SP2", perfect_estimates=perfect)
    assert starts(log, policy, machines=100) == published_starts(name)


@pytest.mark.logs
@pytest.mark.parametrize(
    ("policy", "wait_s", "slowdown"),
    [("easy", 6834.59, 92.6877), ("easy-sjbf", 5903.69, 69.3936)],
)
def test_the_numbers_of_a_year_are_those_published_or_explained(policy, wait_s, slowdown):
    log = real("KTH-SP2")
    metrics = measure(replay(log, ReplaySettings(policy=policy)), log.processors, ())
    assert round(metrics.wait_s.mean, 2) == wait_s
    assert round(metrics.bounded_slowdown.mean, 4) == slowdown
    assert metrics.last_end_s == 29363626


@pytest.mark.logs
@pytest.mark.parametrize(
    ("policy", "wait_s", "slowdown"), [("easy", 6836.87, 92.5765), ("easy-sjbf", 5904.08, 69.4054)]
)
def test_a_pass_after_each_event_gives_the_numbers_of_those_who_make_one(policy, wait_s, slowdown):
    """What explains the difference: 92.5765 and 69.4054 were published by those."""
    log = real("KTH-SP2")
    starts = schedule(as_numbers(log), log.processors, policy, each_event=True)
    records = with_starts(log, (starts[job.number] for job in log.jobs))
    metrics = measure(records, log.processors, ())
    assert round(metrics.wait_s.mean, 2) == wait_s
    assert round(metrics.bounded_slowdown.mean, 4) == slowdown


@pytest.mark.parametrize("order", ["lottery", "paper000", "stride"])
def test_a_seed_gives_the_same_schedule_and_every_job_starts_once(order):
    log = coincidental(3)
    first, second = (
        replay(log, ReplaySettings(order=order, seed=5, is_checked=True)) for _ in range(2)
    )
    assert first == second
    assert [record.job for record in first] == list(log.jobs)
    assert all(record.start_s >= record.job.submit_s for record in first)


def test_a_lottery_of_another_seed_goes_another_way():
    log = coincidental(3)
    assert len({str(replay(log, ReplaySettings(order="lottery", seed=n))) for n in range(5)}) > 1


def test_who_used_much_waits_longer_under_the_lottery():
    """The flooder's jobs came first; under fifo all of them start first."""
    from iriai.model.ids import Account
    from iriai.sim.workload.log import Log, LogJob

    flooder, other = Account("g1", "u1"), Account("g1", "u2")
    jobs = [LogJob(n, 0, 100, 1, 100, flooder) for n in range(1, 101)]
    jobs += [LogJob(n, 1, 100, 1, 100, other) for n in range(101, 111)]
    log = Log("flood", 2, jobs)

    def wait_of_other(order):
        records = replay(log, ReplaySettings(order=order))
        return sum(r.wait_s for r in records if r.job.account == other) / 10

    assert wait_of_other("lottery") < wait_of_other("fifo") / 3
