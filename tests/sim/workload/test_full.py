"""Every message, and the policy alone: with nothing that takes time both start jobs alike."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.config.reader import Configuration
from iriai.config.sections import OrderSection
from iriai.protocol.messages.scheduling import Idle, Run
from iriai.sim.faults.search import run
from iriai.sim.workload.full import simulate
from iriai.sim.workload.generator import generate
from iriai.sim.workload.log import Log, LogJob
from iriai.sim.workload.replay import replay
from iriai.sim.workload.settings import FULL, POLICIES, ReplaySettings
from iriai.wire.parts import unpack
from tests.sim.logs import coincidental, parallel
from tests.support.shared import ROOT

pytestmark = pytest.mark.long

GENERATED = 60


@pytest.mark.parametrize("policy", POLICIES)
def test_both_modes_start_every_job_at_the_same_time(policy):
    for seed in range(GENERATED):
        log = coincidental(seed, perfect=seed % 5 == 0)
        settings = ReplaySettings(policy=policy, is_checked=seed % 6 == 0)
        assert simulate(log, settings) == replay(log, settings), f"seed {seed}"


@pytest.mark.parametrize("order", ["lottery", "paper000", "stride"])
@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_draws_fall_alike_in_both_modes(policy, order):
    for seed in range(GENERATED // 2):
        log = coincidental(seed, perfect=seed % 5 == 0)
        settings = ReplaySettings(policy=policy, order=order, seed=seed, is_checked=seed % 6 == 0)
        assert simulate(log, settings) == replay(log, settings), f"seed {seed}"


@pytest.mark.parametrize("order", ["lottery", "paper000", "stride"])
def test_charges_of_long_jobs_are_alike_in_both_modes(order):
    """Hours of slices, and moments that are no whole seconds."""
    log = generate("lublin", 120, 32, seed=2)
    settings = ReplaySettings(order=order, seed=7)
    assert simulate(log, settings) == replay(log, settings)


def test_use_that_counts_for_a_window_is_alike_in_both_modes():
    log = generate("lublin", 120, 32, seed=3)
    window = Configuration(order=OrderSection(window_s=3600.0))
    settings = ReplaySettings(order="lottery", seed=7, configuration=window)
    assert simulate(log, settings) == replay(log, settings)


def test_a_policy_from_a_file_decides_alike_in_both_modes():
    for seed in range(20):
        log = coincidental(seed)
        settings = ReplaySettings(policy=f"{ROOT}/examples/fifo.py:Fifo")
        assert simulate(log, settings) == replay(log, settings), f"seed {seed}"


# --- many machines -------------------------------------------------------------------------------


def hours(log: Log) -> Log:
    """The log, with a hundred seconds for each of its seconds.

    Tasks of a few seconds are sent ahead, which no replay does; and while the seats of a task are
    held, a broker has to count the seconds until that ends.
    """
    jobs = [
        LogJob(n, 100.0 * submit_s, 100.0 * run_s, width, 100.0 * estimate_s, account)
        for n, submit_s, run_s, width, estimate_s, account in log.jobs
    ]
    return Log(log.name, log.processors, jobs)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "easy-sjbf"])
def test_wide_jobs_start_alike_in_both_modes_on_many_machines(policy):
    for seed in range(GENERATED // 2):
        log, machines = parallel(seed)
        settings = ReplaySettings(policy=policy, machines=len(machines), is_checked=seed % 6 == 0)
        assert simulate(hours(log), settings) == replay(hours(log), settings), f"seed {seed}"


@pytest.mark.parametrize("order", ["lottery", "paper000", "stride"])
def test_draws_among_wide_jobs_fall_alike_in_both_modes(order):
    """Jobs of one machine among them; a job counts once in the mean run time of its account."""
    for seed in range(GENERATED // 4):
        log, machines = parallel(seed)
        settings = ReplaySettings(order=order, seed=seed, machines=len(machines))
        assert simulate(hours(log), settings) == replay(hours(log), settings), f"seed {seed}"
        log = coincidental(seed)
        settings = ReplaySettings(order=order, seed=seed, machines=min(3, log.processors))
        assert simulate(hours(log), settings) == replay(hours(log), settings), f"seed {seed}"


def test_a_plan_starts_every_wide_job_once():
    """Not at the same times: it counts the seconds for which seats may be held."""
    for seed in range(GENERATED // 3):
        log, machines = parallel(seed)
        settings = ReplaySettings(policy="conservative", machines=len(machines), is_checked=True)
        records = simulate(log, settings)
        assert [record.job for record in records] == list(log.jobs)
        assert all(record.start_s >= record.job.submit_s for record in records)


# --- through the wire ----------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["fifo", "lottery"])
def test_a_log_goes_through_the_wire_as_it_goes_without(order):
    for seed in range(10):
        log = coincidental(seed)
        wired = ReplaySettings(order=order, mode=FULL, seed=seed, through_wire=True)
        assert simulate(log, wired) == replay(log, ReplaySettings(order=order, seed=seed)), (
            f"seed {seed}"
        )


def test_wide_jobs_go_through_the_wire_as_they_go_without():
    for seed in range(5):
        log, machines = parallel(seed)
        settings = ReplaySettings(mode=FULL, machines=len(machines), through_wire=True)
        alone = ReplaySettings(machines=len(machines))
        assert simulate(hours(log), settings) == replay(hours(log), alone), f"seed {seed}"


def test_a_codec_that_loses_a_field_is_found(monkeypatch):
    """Tasks end before their time, and what waits starts too early."""

    def loses_time_limits(data):
        message = unpack(data)
        if isinstance(message, Run):
            return replace(message, spec=replace(message.spec, time_limit_s=0.5))
        return message

    monkeypatch.setattr("iriai.sim.world.network.unpack", loses_time_limits)
    log = coincidental(1)
    wired = simulate(log, ReplaySettings(mode=FULL, through_wire=True))
    assert wired != replay(log, ReplaySettings())


def test_in_small_worlds_such_a_codec_is_found_from_a_seed(monkeypatch):
    def loses_ends(data):
        message = unpack(data)
        return replace(message, ended=()) if isinstance(message, Idle) else message

    monkeypatch.setattr("iriai.sim.world.network.unpack", loses_ends)
    assert run([7, 8], lambda *_: None, through_wire=True)
