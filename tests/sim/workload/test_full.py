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
from iriai.sim.workload.replay import replay
from iriai.sim.workload.settings import FULL, POLICIES, ReplaySettings
from iriai.wire.parts import unpack
from tests.sim.logs import coincidental
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


# --- through the wire ----------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["fifo", "lottery"])
def test_a_log_goes_through_the_wire_as_it_goes_without(order):
    for seed in range(10):
        log = coincidental(seed)
        wired = ReplaySettings(order=order, mode=FULL, seed=seed, through_wire=True)
        assert simulate(log, wired) == replay(log, ReplaySettings(order=order, seed=seed)), (
            f"seed {seed}"
        )


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
