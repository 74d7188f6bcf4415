"""The ledger never falls, and knows the same whatever came first (spec 006, section 6)."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay import Decay, DecayedCounter
from iriai.policy.accounting.runtime_estimates import RunTimes
from iriai.policy.accounting.sliding_window import WindowDecay
from iriai.protocol.directory.validation import BODY_BYTES_MAX
from iriai.protocol.ledger.ledger import (
    ACCOUNTS_MAX,
    LISTEN_S,
    BatchRow,
    Ledger,
    LedgerBatch,
    OwnCounters,
    batch_body,
)
from iriai.protocol.messages.entries import EntryKind
from tests.protocol.ledger_use import use_of

HALF_LIFE_S = 604_800.0
FADING = Decay(HALF_LIFE_S)
WALL_S = 1.8e9
ANN, BOB = Account("lab", "ann"), Account("lab", "bob")


def at(wall_s: float = WALL_S) -> Instant:
    return Instant(5.0, wall_s)


def row(charge_s: float, wall_s: float = WALL_S, account: Account = ANN) -> LedgerRow:
    """A counter with one charge."""
    usage = DecayedCounter(HALF_LIFE_S).charged(charge_s, 0.0, wall_s)
    return LedgerRow(account, usage.counter, usage.epoch_wall_s, 1, charge_s)


def batch(*rows: LedgerRow, incarnation: int = 0, wall_s: float = WALL_S) -> LedgerBatch:
    return LedgerBatch(incarnation, wall_s, tuple(map(BatchRow.of, rows)))


def test_usage_is_of_all_machines_and_outlives_them():
    ledger = Ledger(FADING)
    for machine, charge_s in (("ume", 100.0), ("kiri", 50.0)):
        taken = ledger.merge_entry(machine, batch_body(batch(row(charge_s))), 0.0, at())
        assert [each.account for each in taken.rows] == [ANN]
    assert use_of(ledger, WALL_S) == {ANN: pytest.approx(150.0)}

    assert use_of(ledger, WALL_S + HALF_LIFE_S).get(ANN, 0.0) == pytest.approx(75.0)
    assert use_of(ledger, WALL_S).get(BOB, 0.0) == 0.0


def test_only_rows_that_grew_are_told_on():
    ledger = Ledger(FADING)
    ledger.merge("ume", batch(row(10.0), row(5.0, account=BOB)))

    taken = ledger.merge("ume", batch(row(10.0), row(6.0, account=BOB)))

    assert [each.account for each in taken.rows] == [BOB]
    assert taken.code == ""


def test_a_counter_that_was_rolled_back_is_refused_and_named():
    ledger = Ledger(FADING)
    ledger.merge("ume", batch(row(100.0)))

    taken = ledger.merge("ume", batch(row(1.0)))

    assert (taken.rows, taken.code) == ((), "rolled-back-counter")
    assert "lab/ann" in taken.words
    assert use_of(ledger, WALL_S).get(ANN, 0.0) == pytest.approx(100.0)
    assert ledger.merge("ume", batch(row(1.0), incarnation=0)).code == "rolled-back-counter"


def test_an_earlier_incarnation_is_refused_and_a_later_one_replaces():
    ledger = Ledger(FADING)
    ledger.merge("kiri", batch(row(7.0)))
    ledger.merge("ume", batch(row(100.0), incarnation=2))

    assert ledger.merge("ume", batch(row(500.0), incarnation=1)).code == "rolled-back-counter"
    ledger.merge("ume", batch(row(30.0), incarnation=3))

    assert use_of(ledger, WALL_S).get(ANN, 0.0) == pytest.approx(37.0)


def test_what_is_too_old_counts_no_more_and_nothing_is_kept_of_it():
    ledger = Ledger(FADING)
    ledger.merge("kiri", batch(row(7.0)))
    ledger.merge("ume", batch(row(100.0), row(3.0, account=BOB), incarnation=2))

    ledger.forget("ume")
    ledger.forget("ume")

    assert use_of(ledger, WALL_S) == {ANN: pytest.approx(7.0)}
    assert "ume" not in ledger.machines
    again = ledger.merge("ume", batch(row(1.0)))  # though its incarnation is an earlier one
    assert (len(again.rows), again.code) == (1, "")


def test_so_many_accounts_of_a_machine_are_counted_and_no_more(monkeypatch):
    monkeypatch.setattr("iriai.protocol.ledger.ledger.ACCOUNTS_KEPT_MAX", 3)
    ledger = Ledger(FADING)
    several = [Account("lab", f"u{number}") for number in range(5)]
    first = ledger.merge("ume", batch(*(row(1.0, account=each) for each in several[:2])))
    second = ledger.merge("ume", batch(*(row(2.0, account=each) for each in several[1:])))
    later = batch(*(row(3.0, account=each) for each in several[2:]), incarnation=1)
    third = ledger.merge("ume", later)

    assert [len(taken.rows) for taken in (first, second, third)] == [2, 2, 1]
    assert [taken.code for taken in (first, second, third)] == ["", *["too-many-accounts"] * 2]
    assert second.words == "3 accounts are counted, which is the limit; 2 more are not"
    told = [each.account for taken in (first, second, third) for each in taken.rows]
    assert set(told) == set(several[:3])
    assert ledger.merge("kiri", later).code == ""


def test_a_machine_whose_clock_is_wrong_is_shown_and_does_not_count():
    ledger = Ledger(FADING)
    year_s = 3.15e7
    ahead = batch_body(batch(row(1.0, WALL_S + year_s), wall_s=WALL_S + year_s))

    taken = ledger.merge_entry("ume", ahead, 0.0, at())

    assert taken.code == "clock-wrong"
    assert use_of(ledger, WALL_S) == {}

    set_right = batch_body(batch(row(2.0, WALL_S), incarnation=1))
    assert ledger.merge_entry("ume", set_right, 0.0, at()).code == ""


def test_a_batch_of_last_week_is_old_and_its_clock_is_right():
    ledger = Ledger(FADING)
    body = batch_body(batch(row(8.0)))
    assert ledger.merge_entry("gone", body, HALF_LIFE_S, at(WALL_S + HALF_LIFE_S)).code == ""
    assert use_of(ledger, WALL_S + HALF_LIFE_S).get(ANN, 0.0) == pytest.approx(4.0)


@pytest.mark.parametrize(
    "body",
    [
        b"\xc1",
        batch_body(LedgerBatch(-1, WALL_S, ())),
        batch_body(LedgerBatch(0, math.nan, ())),
        batch_body(LedgerBatch(0, WALL_S, (BatchRow("lab", "ann", math.inf, 0, 0, 0, 0),))),
        batch_body(LedgerBatch(0, WALL_S, (BatchRow("lab", "ann", -1.0, 0, 0, 0, 0),))),
        batch_body(LedgerBatch(0, WALL_S, (BatchRow("x" * 65, "a", 1, 0, 0, 0, 0),))),
        batch_body(LedgerBatch(0, WALL_S, (BatchRow("g", "a", 1, 9e9, 0, 0, 0),))),
        batch_body(batch(*[row(1.0)] * (ACCOUNTS_MAX + 1))),
    ],
    ids=[
        "noise",
        "incarnation",
        "clock",
        "infinite",
        "negative",
        "name",
        "epoch",
        "accounts",
    ],
)
def test_a_batch_that_no_honest_machine_makes_is_refused(body):
    ledger = Ledger(FADING)
    taken = ledger.merge_entry("ume", body, 0.0, at())
    assert (taken.code, taken.rows) == ("malformed-batch", ())
    assert taken.words
    assert use_of(ledger, WALL_S) == {}


# --- laws ----------------------------------------------------------------------------------------

charges = st.floats(0.01, 1e6)
times = st.floats(WALL_S, WALL_S + 20 * HALF_LIFE_S)
batches = st.builds(
    lambda incarnation, rows: batch(*rows, incarnation=incarnation),
    st.integers(0, 2),
    st.lists(
        st.builds(row, charges, times, st.sampled_from([ANN, BOB])),
        max_size=2,
        unique_by=lambda each: each.account,
    ),
)
arrivals = st.lists(st.tuples(st.sampled_from(["ume", "kiri"]), batches), max_size=8)
END_S = WALL_S + 30 * HALF_LIFE_S


def after(told, fading=FADING) -> Ledger:
    ledger = Ledger(fading)
    for machine, each in told:
        ledger.merge(machine, each)
    return ledger


@given(arrivals, st.randoms(use_true_random=False))
def test_merges_commute_and_may_be_repeated(told, rng):
    again = [*told, *told]
    rng.shuffle(again)

    one, other = after(told), after(again)

    for account in (ANN, BOB):
        assert use_of(one, END_S).get(account, 0.0) == pytest.approx(
            use_of(other, END_S).get(account, 0.0), rel=1e-12
        )
    for machine in ("ume", "kiri"):
        assert one.machines.get(machine) == other.machines.get(machine)


@given(st.lists(batches.map(lambda b: batch(*(r.row for r in b.rows))), max_size=6))
def test_within_an_incarnation_usage_never_falls(told):
    ledger = Ledger(FADING)
    before = {ANN: 0.0, BOB: 0.0}
    for each in told:
        ledger.merge("ume", each)
        for account, known in before.items():
            now = use_of(ledger, END_S).get(account, 0.0)
            assert now >= known * (1 - 1e-9)
            before[account] = now


@given(
    remembered=st.floats(0, 1e5),
    held=st.floats(0, 1e5),
    done_since=st.lists(charges, max_size=4),
)
def test_a_machine_that_lost_its_memory_goes_on_from_what_others_hold(remembered, held, done_since):
    """Nothing that was done is lost or counted twice, and nobody sees a counter fall."""
    others = Ledger(FADING)
    old = batch(row(held), incarnation=4)
    others.merge("ume", old)
    own = OwnCounters(FADING, [row(remembered)], at())

    own.echo(batch_body(old))
    total = remembered
    for charge_s in done_since:
        total += charge_s
        taken = others.merge("ume", own.batch([row(total)], at()))
        assert taken.code == ""

    expected = max(held, remembered) + sum(done_since) if done_since else held
    assert use_of(others, WALL_S).get(ANN, 0.0) == pytest.approx(expected)


def test_an_account_that_was_forgotten_altogether_is_published_again():
    own = OwnCounters(FADING, [], at())
    assert own.echo(batch_body(batch(row(40.0), incarnation=1)))
    assert not own.echo(batch_body(batch(row(40.0), incarnation=1)))

    made = own.batch([row(2.0, account=BOB)], at())

    assert made.incarnation == 2
    ledger = Ledger(FADING)
    ledger.merge("ume", made)
    assert use_of(ledger, WALL_S) == {BOB: pytest.approx(2.0), ANN: pytest.approx(40.0)}


def test_others_are_listened_to_before_anything_is_published():
    own = OwnCounters(FADING, [row(1.0)], Instant(100.0, WALL_S))
    assert not own.may_publish(Instant(100.0 + LISTEN_S - 0.1, WALL_S))
    assert own.may_publish(Instant(100.0 + LISTEN_S, WALL_S))


def test_a_body_that_cannot_be_read_starts_no_incarnation():
    own = OwnCounters(FADING, [row(1.0)], at())
    assert not own.echo(b"noise")
    assert own.incarnation == 0


# --- under a window ------------------------------------------------------------------------------

WINDOW = WindowDecay(HALF_LIFE_S, window_s=32 * 3600.0)


def window_row(*charged: tuple[int, float]) -> LedgerRow:
    """A counter with charges (hours after the beginning, seconds)."""
    counter = WINDOW.counter()
    for hour, charge_s in sorted(charged):
        counter = counter.charged(charge_s, 0.0, WALL_S + 3600.0 * hour)
    return counter.row(ANN, RunTimes(1, 1.0))


window_charges = st.lists(st.tuples(st.integers(0, 31), charges), max_size=4)
window_batches = st.builds(
    lambda each, incarnation: batch(window_row(*each), incarnation=incarnation, wall_s=END_S),
    window_charges,
    st.integers(0, 1),
)


@given(st.lists(window_batches, max_size=5), st.randoms(use_true_random=False))
def test_merges_commute_under_a_window_too(told, rng):
    again = [*told, *told]
    rng.shuffle(again)
    at_s = WALL_S + 31 * 3600.0

    one = after([("ume", each) for each in told], WINDOW)
    other = after([("ume", each) for each in again], WINDOW)

    assert use_of(one, at_s).get(ANN, 0.0) == pytest.approx(
        use_of(other, at_s).get(ANN, 0.0), rel=1e-9
    )


@given(remembered=window_charges, more=window_charges)
def test_a_window_that_was_forgotten_in_part_is_published_whole(remembered, more):
    """Others hold what the machine did before its disk was set back to an earlier state."""
    at_s = WALL_S + 31 * 3600.0
    held = batch(window_row(*remembered, *more), wall_s=at_s)
    others = after([("ume", held)], WINDOW)
    whole_s = use_of(others, at_s).get(ANN, 0.0)
    row = window_row(*remembered)
    own = OwnCounters(WINDOW, [row], at(at_s))

    own.echo(batch_body(held))

    assert others.merge("ume", own.batch([row], at(at_s))).code == ""
    assert use_of(others, at_s).get(ANN, 0.0) == pytest.approx(whole_s)


def test_a_batch_with_buckets_of_next_year_is_refused():
    year_ahead = batch(window_row((9000, 5.0)))
    assert (
        Ledger(WINDOW).merge_entry("ume", batch_body(year_ahead), 0.0, at()).code
        == "malformed-batch"
    )


def test_a_batch_of_very_many_accounts_fits_into_an_entry_and_has_those_who_used_most():
    hours = [(hour, 100.0 + hour) for hour in range(32)]
    long_row = window_row(*hours)
    rows = [
        msgspec.structs.replace(long_row, account=Account("lab", f"user{number}"))
        for number in range(3000)
    ]
    rows.append(msgspec.structs.replace(window_row((31, 1e6)), account=BOB))
    made = OwnCounters(WINDOW, [], at()).batch(rows, at(WALL_S + 31 * 3600.0), 1000.0)

    assert len(batch_body(made)) <= BODY_BYTES_MAX[EntryKind.LEDGER]
    assert made.rows[0].account == BOB
    assert Ledger(WINDOW).merge_entry("ume", batch_body(made), 0.0, at(made.wall_s)).code == ""
