"""Refunds travel and merge as charges do (docs/spec/006, section 6)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.model.records import DAY_S, REFUND_DAYS, LedgerRow, Refund
from iriai.policy.accounting.decay import Decay
from iriai.policy.accounting.refunds import with_refund
from iriai.policy.accounting.runtime_estimates import RunTimes
from iriai.protocol.ledger.cluster_usage import sums_of
from iriai.protocol.ledger.ledger import (
    BatchRow,
    Ledger,
    LedgerBatch,
    OwnCounters,
    batch_body,
    malformed_row,
    read_batch,
)

ANN = Account("lab", "ann")
FADING = Decay(604_800.0)
DAY = 20_000
WALL_S = DAY * DAY_S + 40_000.0
NOW = Instant(1000.0, WALL_S)

amounts = st.floats(0.1, 1e5)
days = st.integers(-5, 0)


def row(charge_s: float, *refunds: tuple[int, float]) -> LedgerRow:
    """A counter with so much charged, and what was returned after so many days."""
    counted = FADING.counter().charged(charge_s, 0.0, WALL_S).row(ANN, RunTimes(1, 10.0))
    returned = ()
    for day, refund_s in sorted(refunds):
        at_s = WALL_S + day * DAY_S
        returned = with_refund(returned, refund_s, at_s, at_s, FADING)
    return msgspec.structs.replace(counted, refunds=returned)


def batch(counted: LedgerRow, incarnation: int = 0) -> LedgerBatch:
    return LedgerBatch(incarnation, WALL_S, (BatchRow.of(counted),))


def by_day(counted: LedgerRow) -> dict[int, float]:
    return {day - DAY: charge_s for day, charge_s, _ in counted.refunds}


def held(ledger: Ledger) -> dict[int, float]:
    refunds = ledger.machines["ume"].refunds.get(ANN, ())
    return {day - DAY: charge_s for day, charge_s, _ in refunds}


def test_a_batch_carries_them_and_a_row_without_any_is_a_byte_longer():
    made = batch(row(50.0, (0, 20.0)))
    read = read_batch(batch_body(made))
    assert isinstance(read, LedgerBatch)
    assert by_day(read.rows[0].row) == {0: 20.0}
    plain = msgspec.msgpack.decode(batch_body(batch(row(50.0))))[2][0]
    assert plain[-1] == []


def test_a_refund_without_a_new_charge_is_news():
    ledger = Ledger(FADING)
    ledger.merge("ume", batch(row(50.0)))
    [news] = ledger.merge("ume", batch(row(50.0, (0, 20.0)))).rows
    assert by_day(news) == {0: 20.0}
    assert ledger.merge("ume", batch(row(50.0, (0, 20.0)))).rows == ()


@given(st.lists(st.tuples(days, amounts), max_size=5), st.randoms(use_true_random=False))
def test_copies_merge_in_any_order_and_any_number_of_times(refunds, rng):
    copies = [batch(row(50.0, *refunds[:count])) for count in range(len(refunds) + 1)]
    again = [*copies, *copies]
    rng.shuffle(again)
    ledger = Ledger(FADING)
    for each in again:
        ledger.merge("ume", each)
    expected: dict[int, float] = {}
    for number in range(len(copies)):
        for day, charge_s in by_day(row(50.0, *refunds[:number])).items():
            expected[day] = max(charge_s, expected.get(day, 0.0))
    for day, charge_s in by_day(row(50.0, *refunds)).items():
        expected[day] = max(charge_s, expected.get(day, 0.0))
    assert held(ledger) == pytest.approx(expected)


@given(st.lists(st.tuples(days, amounts), max_size=4), amounts)
def test_a_machine_that_lost_its_memory_returns_nothing_twice_and_loses_nothing(before, more_s):
    """What others hold stays, and what it returns since it came up is added to it."""
    old = batch(row(50.0, *before), incarnation=4)
    others = Ledger(FADING)
    others.merge("ume", old)
    own = OwnCounters(FADING, [], NOW)
    own.echo(batch_body(old))
    others.merge("ume", own.batch([row(9.0, (0, more_s))], NOW))
    expected = by_day(row(50.0, *before, (0, more_s)))
    assert held(others) == pytest.approx(expected)


def test_a_machine_that_lost_refunds_alone_takes_them_back():
    others = batch(row(50.0, (0, 20.0)))
    own = OwnCounters(FADING, [row(50.0)], NOW)
    assert own.echo(batch_body(others))
    [made] = own.batch([row(50.0)], NOW).rows
    assert by_day(made.row) == {0: 20.0}


def test_a_cluster_publishes_the_sum_of_its_machines():
    [total] = sums_of([row(50.0, (0, 20.0)), row(9.0), row(30.0, (0, 5.0), (1, 7.0))], FADING)
    assert by_day(total) == {0: 25.0, 1: 7.0}


@pytest.mark.parametrize(
    ("refunds", "words"),
    [
        (tuple(Refund(n, 1.0, 1.0) for n in range(REFUND_DAYS + 1)), "refunds of 65 days"),
        ((Refund(DAY, 1.0, 1.0), Refund(DAY, 1.0, 1.0)), "do not follow"),
        ((Refund(DAY, 1.0, 1.0), Refund(DAY - 1, 1.0, 1.0)), "do not follow"),
        ((Refund(DAY + 2, 1.0, 1.0),), "in the future"),
        ((Refund(DAY, 1.0, 2.0),), "that are not"),
        ((Refund(DAY, float("nan"), 0.0),), "that are not"),
        ((Refund(DAY, -1.0, -1.0),), "that are not"),
        ((Refund(DAY, 2e15, 1.0),), "that are not"),
    ],
)
def test_refunds_that_no_machine_makes_are_refused(refunds, words):
    forged = msgspec.structs.replace(BatchRow.of(row(50.0)), refunds=refunds)
    assert words in malformed_row(forged, WALL_S)
    assert malformed_row(BatchRow.of(row(50.0, (0, 20.0))), WALL_S) == ""


def test_a_body_of_an_earlier_version_is_read():
    body = msgspec.msgpack.encode([0, WALL_S, [["lab", "ann", 5.0, 0.0, 1, 10.0]], 1.0])
    read = read_batch(body)
    assert isinstance(read, LedgerBatch)
    assert read.rows[0].row.refunds == ()
