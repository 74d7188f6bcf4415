"""The experiments of paper 000: what docs/guide/experiments.md says of them."""

from __future__ import annotations

import pytest

from iriai.cli.simulate.options import EXPERIMENTS as COMPLETED
from iriai.model.problem import UsageProblem
from iriai.sim.experiments import flooder, groups, offpeak, rights, urgency
from iriai.sim.experiments.catalogue import EXPERIMENTS, run_experiment
from iriai.sim.experiments.figure import write_experiment
from iriai.sim.runs.document import encoded


def numbers(panel):
    """By row and column."""
    return {
        row: dict(zip(panel.columns, values, strict=True))
        for row, values in zip(panel.rows, panel.values, strict=True)
    }


def test_beside_a_flooder_a_moderate_user_waits_for_a_slot_and_no_longer():
    waits = numbers(flooder.run((1, 2))[0])
    assert waits["fcfs"]["moderate"] > 10_000.0
    assert waits["lottery"]["moderate"] < 100.0
    assert waits["paper000"]["moderate"] < 100.0


def test_the_papers_formula_settles_off_the_rights_and_the_lottery_on_them():
    shares = numbers(rights.run(range(4))[0])
    assert shares["paper000"]["lab/bob"] < 70.0
    assert shares["lottery"]["lab/bob"] == pytest.approx(80.0, abs=1.0)


def test_a_group_of_one_gets_its_half_under_the_lottery_alone():
    shares = numbers(groups.run((1, 2))[0])
    assert shares["paper000"]["small/d"] < 40.0
    assert shares["lottery"]["small/d"] == pytest.approx(50.0, abs=2.0)


def test_a_discount_moves_work_into_the_night_and_others_wait_less():
    night, waits, price = (numbers(panel) for panel in offpeak.run((1,)))
    assert night["x 0.5"]["all"] > night["x 1"]["all"] + 10.0
    assert waits["x 0.5"]["all"] < waits["x 1"]["all"] / 2
    assert price["x 1"]["all"] == pytest.approx(1.0)
    assert price["x 0.5"]["all"] < 1.0


def test_haste_now_and_then_halves_a_wait_and_always_gains_nothing():
    waits, parts = (numbers(panel) for panel in urgency.run((1,)))
    assert waits["now and then"]["ann"] < 0.75 * waits["never"]["ann"]
    assert parts["now and then"]["ann"] < parts["never"]["ann"]
    assert parts["always"]["ann"] == pytest.approx(25.0, abs=1.5)


def test_the_same_seed_gives_the_same_bytes_and_a_page_with_its_figure(tmp_path):
    outcome = run_experiment("rights", 3)
    assert encoded(outcome) == encoded(run_experiment("rights", 3))
    write_experiment(tmp_path, outcome)
    page = (tmp_path / "index.html").read_text()
    assert page.count("<img") == 1
    assert "seeds 3 to 12" in page
    assert (tmp_path / "metrics.json").read_bytes() == encoded(outcome)
    assert "lottery" in (tmp_path / "rights.svg").read_text()


def test_an_unknown_experiment_is_refused_with_those_there_are():
    with pytest.raises(UsageProblem, match="there is no experiment 'right'"):
        run_experiment("right", 1)


def test_completion_knows_every_experiment():
    assert tuple(EXPERIMENTS) == COMPLETED
