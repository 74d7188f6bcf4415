"""How old news is when it comes, and what goes over the links."""

import pytest

from iriai.cluster.metrics import NEWS_KEPT, RATE_OVER_S, SETTLING_S, ClusterMetrics


def test_half_of_the_news_and_nearly_all_of_it_is_told_by_its_age():
    measures = ClusterMetrics(0.0)
    assert measures.news_s is None
    measures.learned([float(age) for age in range(101)], SETTLING_S)
    assert measures.news_s == (50.0, 95.0)


def test_the_table_that_a_machine_is_given_at_its_start_is_no_news():
    measures = ClusterMetrics(100.0)
    measures.learned([600.0], 100.0 + SETTLING_S - 1)
    assert measures.news_s is None


def test_old_news_is_forgotten():
    measures = ClusterMetrics(0.0)
    measures.learned([1000.0] * 10, SETTLING_S)
    measures.learned([1.0] * NEWS_KEPT, SETTLING_S)
    assert measures.news_s == (1.0, 1.0)


def test_the_rate_is_of_the_last_minute():
    measures = ClusterMetrics(0.0)
    assert measures.bytes_per_s == (0.0, 0.0)
    for second in range(0, 300, 10):
        measures.moved(second * 100, second * 50, float(second))
    assert measures.bytes_per_s == (100.0, 50.0)
    for second in range(300, 300 + int(RATE_OVER_S) + 10, 10):
        measures.moved(29_000, 14_500, float(second))
    assert measures.bytes_per_s == pytest.approx((0.0, 0.0))


def test_a_link_that_is_forgotten_is_no_negative_rate():
    measures = ClusterMetrics(0.0)
    measures.moved(1000, 1000, 0.0)
    measures.moved(10, 10, 10.0)
    assert measures.bytes_per_s == (0.0, 0.0)
