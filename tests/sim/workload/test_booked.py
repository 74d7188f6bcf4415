"""Reservations beside a log: both modes answer alike, and as whoever looks at every moment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness.exhaustive_booking import BookingJudge
from iriai.broker.reservations.bookable_rooms import profile_beside
from iriai.config.reader import Configuration
from iriai.config.sections import ReservationsSection
from iriai.sim.workload.full import simulate_all
from iriai.sim.workload.log import Log, LogJob, LogReservation
from iriai.sim.workload.replay import replay_all
from iriai.sim.workload.settings import FULL, ReplaySettings
from iriai.sim.world.network import NetworkPlan
from tests.sim.logs import coincidental
from tests.sim.reserving import reserving, reserving_machines

SEEDS = st.integers(0, 1 << 30)
POLICIES = st.sampled_from(["fcfs", "easy", "easy-sjbf"])
ORDERS = st.sampled_from(["fifo", "lottery", "stride"])
ALIKE = 20
BOTH = (replay_all, simulate_all)


def a_log(*asked: tuple[float, float, float, int], jobs=()) -> Log:
    """A log of four processors, with (asked, start, end, width) of reservations."""
    account = coincidental(1).jobs[0].account
    waiting = jobs or [(0.0, 1.0, 1, 1.0)]
    made = [LogJob(n, *each, account) for n, each in enumerate(waiting, 1)]
    reserved = [LogReservation(n, *each, account) for n, each in enumerate(asked, 1)]
    return Log("story", 4, made, reservations=reserved)


def with_section(**section) -> ReplaySettings:
    configuration = Configuration(reservations=ReservationsSection(**section))
    return ReplaySettings(configuration=configuration)


def unlimited(**settings) -> ReplaySettings:
    """Accounts may reserve as much as they like."""
    return replace(with_section(share_limit=False), **settings)


def starts(run):
    return [record.start_s for record in run.records]


def test_a_job_waits_for_what_is_reserved_before_it_would_end():
    log = a_log((0, 500, 800, 3), jobs=[(10, 400, 2, 600), (20, 100, 2, 400)])
    run = replay_all(log, ReplaySettings(policy="fcfs"))
    assert [each.is_accepted for each in run.reservations] == [True]
    assert starts(run) == [800, 800]
    assert starts(replay_all(log, ReplaySettings(policy="easy"))) == [800, 20]


def test_what_is_refused_is_told_the_earliest_start_a_second_after_what_ends():
    log = a_log((10, 200, 400, 2), jobs=[(0, 100, 3, 300)])
    [outcome] = replay_all(log, ReplaySettings()).reservations
    assert (outcome.is_accepted, outcome.earliest_s) == (False, 301)


def test_limits_of_accounts_hold_in_both_modes():
    settings = with_section(count_max=1, horizon_s=1000.0)
    log = a_log((0, 500, 600, 1), (0, 700, 800, 1), (0, 1001, 1100, 1), (600, 700, 800, 1))
    run = replay_all(log, settings)
    assert [each.is_accepted for each in run.reservations] == [True, False, False, True]
    assert simulate_all(log, settings) == run


@pytest.mark.parametrize("policy", ["fcfs", "easy", "easy-sjbf", "conservative"])
@pytest.mark.parametrize("order", ["fifo", "lottery", "stride"])
def test_both_modes_answer_and_start_alike(policy, order):
    for seed in range(ALIKE):
        log = reserving(seed)
        settings = ReplaySettings(policy, order, seed=seed, is_checked=seed % 4 == 0)
        assert simulate_all(log, settings) == replay_all(log, settings), f"seed {seed}"


@pytest.mark.parametrize("order", ["fifo", "lottery"])
def test_both_modes_answer_and_start_alike_on_many_machines(order):
    for seed in range(ALIKE):
        log, machines = reserving_machines(seed)
        settings = ReplaySettings(order=order, seed=seed, machines=machines)
        assert simulate_all(log, settings) == replay_all(log, settings), f"seed {seed}"


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_both_modes_answer_alike_within_the_slack_of_promises(policy):
    settings = replace(with_section(policy="slack", slack_s=300.0), policy=policy)
    for seed in range(ALIKE):
        log = reserving(seed)
        run = replay_all(log, settings)
        assert simulate_all(log, settings) == run, f"seed {seed}"
        assert run.promises_broken == sum(each.is_late for each in run.reservations) == 0


def test_what_is_above_the_queue_evicts_a_job_which_runs_once_more():
    log = a_log((100, 300, 400, 2), jobs=[(0, 1_000, 3, 2_000)])
    for simulated in BOTH:
        run = simulated(log, with_section(policy="above"))
        assert [each[1:] for each in run.reservations] == [(True, None, False)]
        assert starts(run) == [400]
    assert not replay_all(log, unlimited()).reservations[0].is_accepted


def test_above_the_queue_both_modes_accept_alike_and_every_job_runs():
    for seed in range(ALIKE):
        log = reserving(seed)
        runs = [simulated(log, with_section(policy="above")) for simulated in BOTH]
        assert runs[0].reservations == runs[1].reservations, f"seed {seed}"
        assert not any(each.is_late for each in runs[0].reservations), f"seed {seed}"


def test_answers_are_alike_through_the_wire():
    for seed in range(5):
        log = reserving(seed)
        wired = ReplaySettings(mode=FULL, through_wire=True)
        assert simulate_all(log, wired) == replay_all(log, ReplaySettings()), f"seed {seed}"


@given(SEEDS, POLICIES, ORDERS)
def test_every_answer_on_one_machine_is_that_of_exhaustive_search(seed, policy, order):
    judge = BookingJudge()
    settings = unlimited(policy=policy, order=order, seed=seed)
    run = replay_all(reserving(seed), settings, judge=judge)
    assert judge.wrong == []
    assert judge.undecided == 0
    assert run.promises_broken == sum(each.is_late for each in run.reservations) == 0


@given(SEEDS, POLICIES, ORDERS)
def test_every_answer_on_many_machines_is_that_of_exhaustive_search(seed, policy, order):
    log, machines = reserving_machines(seed)
    judge = BookingJudge()
    settings = unlimited(policy=policy, order=order, seed=seed, machines=machines)
    run = replay_all(log, settings, judge=judge)
    assert judge.wrong == []
    assert run.promises_broken == sum(each.is_late for each in run.reservations) == 0


def answers(policy: str, *, is_full: bool = False) -> tuple[int, list[int]]:
    """How many reservations are had in some logs, and promises broken in each; none is late."""
    had, broken = 0, []
    for seed in range(ALIKE):
        log = reserving(seed)
        section = ReservationsSection(share_limit=False, policy=policy, slack_s=600.0)
        settings = ReplaySettings(configuration=Configuration(reservations=section), seed=seed)
        run = simulate_all(log, settings) if is_full else replay_all(log, settings)
        assert not any(each.is_late for each in run.reservations), f"seed {seed}"
        assert [record.job for record in run.records] == log.jobs, f"seed {seed}"
        had += sum(each.is_accepted for each in run.reservations)
        broken.append(run.promises_broken)
    return had, broken


def test_with_slack_more_is_had_and_no_promise_is_broken():
    (beside, _), (with_slack, broken) = answers("beside"), answers("slack")
    assert with_slack > beside
    assert sum(broken) == 0
    assert answers("slack", is_full=True) == (with_slack, broken)


def test_above_the_queue_most_is_had_and_promises_are_broken():
    (with_slack, _), (above, broken) = answers("slack"), answers("above")
    assert above > with_slack
    assert sum(broken) > 0
    had, _ = answers("above", is_full=True)
    assert had > with_slack


def test_a_search_that_forgets_promised_places_is_found(monkeypatch):
    """A mistake of the broker's that the comparison has to find."""
    judge = BookingJudge()
    beside = "iriai.broker.scheduling.booking_offers.profile_beside"
    monkeypatch.setattr(beside, lambda view, _held, *more: profile_beside(view, (), *more))
    for seed in range(20):
        replay_all(reserving(seed), unlimited(), judge=judge)
    assert judge.wrong != []


def test_reservations_are_kept_where_messages_of_brokers_are_lost():
    for seed in range(ALIKE):
        log, machines = reserving_machines(seed)
        settings = unlimited(seed=seed, machines=machines)
        run = simulate_all(log, settings, network=NetworkPlan(loss=0.02))
        assert len(run.reservations) == len(log.reservations)
        assert not any(each.is_late for each in run.reservations), f"seed {seed}"
        assert [record.job for record in run.records] == log.jobs
