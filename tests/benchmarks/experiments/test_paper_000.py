"""The experiments of paper 000: what docs/experiments/paper-000.md says of them."""

from __future__ import annotations

import pytest
from experiments import flooder, offpeak, shares, urgency
from experiments.panel import picture


def test_beside_a_flooder_a_moderate_user_waits_for_a_slot_and_no_longer():
    waits = flooder.run((1, 2))[0].numbers
    assert waits["fcfs"]["moderate"] > 10_000.0
    assert waits["lottery"]["moderate"] < 100.0
    assert waits["paper000"]["moderate"] < 100.0


def test_the_papers_formula_settles_off_the_rights_and_the_lottery_on_them():
    found = shares.RIGHTS.run(range(4))[0].numbers
    assert found["paper000"]["lab/bob"] < 70.0
    assert found["lottery"]["lab/bob"] == pytest.approx(80.0, abs=1.0)


def test_a_group_of_one_gets_its_half_under_the_lottery_alone():
    found = shares.GROUPS.run((1, 2))[0].numbers
    assert found["paper000"]["small/d"] < 40.0
    assert found["lottery"]["small/d"] == pytest.approx(50.0, abs=2.0)


@pytest.mark.soak
def test_a_discount_moves_work_into_the_night_and_others_wait_less():
    night, waits, price = (panel.numbers for panel in offpeak.run((1,)))
    assert night["x 0.5"]["all"] > night["x 1"]["all"] + 10.0
    assert waits["x 0.5"]["all"] < waits["x 1"]["all"] / 2
    assert price["x 1"]["all"] == pytest.approx(1.0)
    assert price["x 0.5"]["all"] < 1.0


@pytest.mark.soak
def test_haste_now_and_then_halves_a_wait_and_always_gains_nothing():
    waits, parts = (panel.numbers for panel in urgency.run((1,)))
    assert waits["now and then"]["ann"] < 0.75 * waits["never"]["ann"]
    assert parts["now and then"]["ann"] < parts["never"]["ann"]
    assert parts["always"]["ann"] == pytest.approx(25.0, abs=1.5)


def test_the_same_seed_gives_the_same_numbers_and_a_picture():
    panels = shares.RIGHTS.run((3,))
    assert panels == shares.RIGHTS.run((3,))
    assert b"lottery" in picture(panels)
