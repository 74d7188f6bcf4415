"""No machine can have counted more than one of its size does, whatever it says (T8b)."""

from __future__ import annotations

import math

import pytest

from iriai.model.ad import machine_ad
from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.model.resources import Resources
from iriai.policy.accounting.decay import ChargeRule, Decay
from iriai.policy.accounting.runtime_estimates import RECENT_RUNS, RunTimes
from iriai.policy.accounting.sliding_window import WindowDecay
from iriai.protocol.ledger.ledger import BatchRow, Ledger, LedgerBatch, batch_body
from iriai.protocol.ledger.use_bounds import (
    RATE_MAX,
    RUN_S_MAX,
    SLACK_S,
    TOLERANCE,
    UseBounds,
    rate_of,
)
from tests.protocol.ledger_use import use_of

WALL_S = 1.8e9
FADING, WINDOW = Decay(604_800.0), WindowDecay(604_800.0, 3200.0)
ANN, BOB = Account("lab", "ann"), Account("lab", "bob")
CPUS = 8.0
MOST_S = TOLERANCE * CPUS * (FADING.counting_s + SLACK_S)
"""That a machine of eight cpus can have counted, at most."""


def at(steady_s: float = 0.0) -> Instant:
    return Instant(steady_s, WALL_S + steady_s)


def row(
    charge_s: float, account: Account = ANN, *, advance_s: float = 0.0, fading: Decay = FADING
) -> LedgerRow:
    return fading.counter().charged(charge_s, advance_s, WALL_S).row(account, RunTimes(1, 1.0))


@pytest.fixture
def bounds() -> UseBounds:
    return UseBounds(FADING)


def test_what_a_machine_can_have_done_is_believed_and_what_it_cannot_is_not(bounds):
    assert not bounds.excess("ume", [row(0.9 * MOST_S)], CPUS, at())
    words = bounds.excess("oni", [row(1e12)], CPUS, at())
    assert words.startswith("1000000000000 s more use than was known")


def test_said_again_it_takes_nothing_and_time_gives_more(bounds):
    assert not bounds.excess("ume", [row(0.9 * MOST_S)], CPUS, at())
    assert not bounds.excess("ume", [row(0.9 * MOST_S)], CPUS, at())
    more = [row(1.1 * MOST_S)]
    assert bounds.excess("ume", more, CPUS, at())
    assert not bounds.excess("ume", more, CPUS, at(0.2 * MOST_S / CPUS / TOLERANCE))


def test_many_accounts_together_have_no_more_than_one(bounds):
    several = [row(0.2 * MOST_S, Account("lab", f"u{number}")) for number in range(6)]
    assert bounds.excess("oni", several, CPUS, at())
    believed = [not bounds.excess("oni", [each], CPUS, at()) for each in several]
    assert believed == [True] * 5 + [False]


def test_who_says_that_it_has_grown_may_count_more_from_then_on(bounds):
    assert not bounds.excess("oni", [row(0.99 * MOST_S)], CPUS, at())
    assert bounds.excess("oni", [row(100 * MOST_S)], 1000 * CPUS, at(1.0))
    assert not bounds.excess("oni", [row(MOST_S + 1000.0 * CPUS)], 1000 * CPUS, at(2.0))


def test_urgency_is_bounded_apart(bounds):
    assert not bounds.excess("ume", [row(5 * MOST_S, advance_s=4.9 * MOST_S)], CPUS, at())
    words = bounds.excess("oni", [row(100 * MOST_S, advance_s=99.9 * MOST_S)], CPUS, at())
    assert "for urgency" in words


def test_a_run_takes_no_longer_than_a_year(bounds):
    year = row(1.0)
    year = LedgerRow(ANN, year.counter, year.epoch_wall_s, 8, 2 * RECENT_RUNS * RUN_S_MAX)
    assert "the limit is" in bounds.excess("oni", [year], CPUS, at())


def test_what_the_directory_has_is_not_counted_twice(bounds):
    bounds.know("ume", [row(3 * MOST_S)], at())
    assert not bounds.excess("ume", [row(3 * MOST_S)], CPUS, at())
    bounds.forget("ume")
    assert bounds.excess("ume", [row(3 * MOST_S)], CPUS, at())


@pytest.mark.parametrize("rate", [math.inf, 1e300, RATE_MAX * 10])
def test_no_machine_is_larger_than_any_is(bounds, rate):
    most_s = TOLERANCE * RATE_MAX * (FADING.counting_s + SLACK_S)
    assert bounds.excess("oni", [row(1.1 * most_s)], rate, at())


def test_under_a_window_as_much_counts_as_fits_into_it():
    bounds = UseBounds(WINDOW)
    most_s = TOLERANCE * CPUS * (3200.0 + SLACK_S)
    assert bounds.excess("oni", [row(1.1 * most_s, fading=WINDOW)], CPUS, at())
    assert not bounds.excess("ume", [row(0.9 * most_s, fading=WINDOW)], CPUS, at())


def test_all_cpus_of_a_machine_and_its_weights_make_its_rate():
    rule = ChargeRule(gpu_weight=8.0, memory_weight=0.5)
    capacity = Resources(2, 4 << 30, 1)
    assert rate_of(rule, capacity, 2.0, None) == 2.0 * (2 + 8.0 + 0.5 * 4)
    large = machine_ad({"DetectedCpus": 64})
    assert rate_of(rule, capacity, 2.0, large) == 2.0 * (64 + 8.0 + 0.5 * 4)


def test_a_batch_beyond_the_size_of_its_machine_counts_for_nothing():
    ledger = Ledger(FADING)
    lie = LedgerBatch(0, WALL_S, (BatchRow.of(row(1e12, BOB)), BatchRow.of(row(1.0))), CPUS)
    taken = ledger.merge_entry("oni", batch_body(lie), 0.0, at())
    assert (taken.code, taken.rows) == ("use-beyond-size", ())
    assert not use_of(ledger, WALL_S)


def test_a_batch_may_not_say_that_its_machine_is_larger_than_any_is():
    ledger = Ledger(FADING)
    for rate in (1e12, math.nan, -1.0):
        taken = ledger.merge_entry("oni", batch_body(LedgerBatch(0, WALL_S, (), rate)), 0.0, at())
        assert taken.code == "malformed-batch"


def test_another_incarnation_brings_no_more():
    ledger = Ledger(FADING)
    codes = [
        ledger.merge_entry(
            "oni",
            batch_body(
                LedgerBatch(
                    number,
                    WALL_S,
                    (BatchRow.of(row(0.4 * MOST_S, Account("lab", f"u{number}"))),),
                    CPUS,
                )
            ),
            0.0,
            at(),
        ).code
        for number in range(4)
    ]
    assert codes == ["", "", "use-beyond-size", "use-beyond-size"]
