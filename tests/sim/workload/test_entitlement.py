"""What accounts get beside what they are entitled to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.config.reader import Configuration
from iriai.config.sections import GroupSection
from iriai.model.ids import Account
from iriai.sim.report.series import bars, series, waits_by_width
from iriai.sim.workload.entitlement import MOMENTS_MAX, moments, parts, wanted
from iriai.sim.workload.log import LogJob, Record
from iriai.sim.workload.metrics import jain_index, measure, quantile

ANN, BEN, CLEO = Account("lab", "ann"), Account("lab", "ben"), Account("shop", "cleo")
NONE = Configuration()
GROUPS = Configuration(groups={"lab": GroupSection(2.0), "shop": GroupSection(1.0)})


def record(number, account, submit, start, run, width=1):
    return Record(LogJob(number, submit, run, width, run, account), start, start + run)


def test_cpus_are_divided_by_rights_and_what_one_leaves_goes_to_the_others():
    assert wanted({ANN: 9, BEN: 9, CLEO: 9}, 9, NONE) == {ANN: 3, BEN: 3, CLEO: 3}
    assert wanted({ANN: 9, BEN: 9, CLEO: 9}, 9, GROUPS) == {ANN: 3, BEN: 3, CLEO: 3}
    assert wanted({ANN: 9, CLEO: 9}, 9, GROUPS) == {ANN: 6, CLEO: 3}
    assert wanted({ANN: 1, BEN: 9, CLEO: 9}, 9, NONE) == {ANN: 1, BEN: 4, CLEO: 4}


@given(
    st.dictionaries(st.sampled_from([ANN, BEN, CLEO]), st.integers(1, 20), min_size=1),
    st.integers(0, 40),
)
def test_nobody_is_entitled_to_more_than_it_asks_for_and_nothing_is_left(asked, cpus):
    found = wanted(asked, cpus, GROUPS)
    assert all(0 <= found[account] <= asked[account] for account in asked)
    assert sum(found.values()) == pytest.approx(min(cpus, sum(asked.values())))


def test_one_who_has_the_machine_while_another_waits_has_more_than_wanted():
    """Ann has both cpus for 10 s while Ben waits, then Ben has one alone."""
    records = [record(1, ANN, 0, 0, 10, 2), record(2, BEN, 0, 10, 10)]
    assert parts(records, NONE) == [(ANN, 20, 10), (BEN, 10, 20)]


def test_moments_of_a_long_log_are_few_and_cover_all_of_it():
    records = [record(n, ANN, n, n, 1) for n in range(3 * MOMENTS_MAX)]
    found = list(moments(records))
    assert len(found) == MOMENTS_MAX
    assert sum(moment.span_s for moment in found) == pytest.approx(3 * MOMENTS_MAX)


def test_measures_of_a_few_jobs():
    records = [record(1, ANN, 0, 0, 10, 2), record(2, BEN, 0, 10, 5), record(3, BEN, 5, 15, 100)]
    metrics = measure(records, 2, [1.0, 0.5])
    assert (metrics.wait_s.mean, metrics.wait_s.p50, metrics.wait_s.max) == (20 / 3, 10, 10)
    # Slowdowns 1, 15 / 10 (a run of 5 s counts as 10), 110 / 100.
    assert metrics.bounded_slowdown.mean == pytest.approx((1 + 1.5 + 1.1) / 3)
    assert metrics.utilisation == pytest.approx(125 / (2 * 115))
    assert metrics.makespan_s == 115
    assert metrics.jain_index == pytest.approx(1.5**2 / (2 * 1.25))


def test_quantiles_are_values_that_occur():
    assert [quantile([1, 2, 3, 4], part) for part in (0.01, 0.25, 0.5, 0.51, 1)] == [1, 1, 2, 3, 4]


def test_fairness_is_one_where_all_got_alike_and_least_where_one_got_all():
    assert jain_index([2.0, 2.0]) == 1
    assert jain_index([1.0, 0.0, 0.0, 0.0]) == 0.25
    assert jain_index([]) is None


def test_series_hold_all_the_work():
    records = [record(1, ANN, 0, 0, 10, 2), record(2, BEN, 0, 10, 10), record(3, CLEO, 3, 20, 7)]
    found = series(records, NONE)
    step_s = found.times_s[1] - found.times_s[0]
    assert sum(found.used) * step_s == pytest.approx(37)
    assert sum(found.waiting) * step_s == pytest.approx(10 + 17)
    assert sum(found.got[ANN]) * step_s == pytest.approx(20)
    assert sum(found.wanted[BEN]) * step_s == pytest.approx(20 * 1 / 2 * 1 + 0, rel=0.7)


def test_widths_are_told_in_powers_of_two():
    records = [record(n, ANN, 0, n, 1, width) for n, width in enumerate((1, 2, 3, 4, 5, 9, 16), 1)]
    assert [each.label for each in waits_by_width(records)] == ["1", "2", "3-4", "5-8", "9-16"]


def test_no_two_jobs_share_a_processor_in_the_chart():
    records = [record(n, ANN, 0, n // 3, 2 + n % 3, 1 + n % 2) for n in range(9)]
    found = bars(records, 16)
    assert sum(bar.processors * bar.run_s for bar in found) == sum(
        each.job.width * each.job.run_s for each in records
    )
    for place, bar in enumerate(found):
        for other in found[:place]:
            apart = (
                bar.first_processor >= other.first_processor + other.processors
                or other.first_processor >= bar.first_processor + bar.processors
                or bar.start_s >= other.start_s + other.run_s
                or other.start_s >= bar.start_s + bar.run_s
            )
            assert apart
