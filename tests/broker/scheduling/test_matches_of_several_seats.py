"""A match with several seats: each machine settles its own, and no place is lost or freed twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.broker.health import failure_attribution
from iriai.broker.machines.machine_view import FAILURES_MIN, MATCH_UNTIL_S, RESEND_S, SEAT_S
from iriai.model.ids import Account, JobId
from iriai.model.ranks import SEATS_MAX
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import LinkDown
from iriai.protocol.messages.scheduling import (
    Decline,
    FailedAtOnce,
    SeatOffer,
    Withdraw,
)
from tests.broker.lone_broker import want
from tests.broker.wide_matches import CPUS, WideMatches, seat_of, wide
from tests.support.told import attempt, job

ANN = Account("lab", "ann")


def test_one_match_names_all_seats_in_the_order_of_their_ranks():
    wides = WideMatches(machines=3)
    [match] = wides.submit(10)
    assert [(seat.machine, seat.ranks) for seat in match.seats] == [("m0", 4), ("m1", 4), ("m2", 2)]
    assert match.until_s == pytest.approx(MATCH_UNTIL_S + 2 * SEAT_S)
    assert wides.free() == [0, 0, 2]
    assert wides.waiting() == 0


def test_each_claim_takes_the_place_of_its_seat():
    wides = WideMatches()
    [match] = wides.submit(6)
    first, second = match.seats
    wides.granted(match, second)
    assert wides.free() == [0, 2]
    wides.granted(match, first)
    assert wides.free() == [0, 2]
    assert wides.state.usage.running_cpus(ANN) == 6
    wides.ended(match, first)
    assert wides.free() == [4, 2]
    wides.ended(match, second)
    assert wides.free() == [4, 4]
    assert wides.state.usage.running_cpus(ANN) == 0


@pytest.mark.parametrize("told", [0, 1, None], ids=["the first seat", "the last", "all"])
def test_a_declined_match_gives_back_all_its_places_once(told):
    wides = WideMatches()
    [match] = wides.submit(6)
    seats = match.seats if told is None else (match.seats[told],)
    decline = Decline(match.job, seats)
    wides.tell(decline)
    wides.tell(decline)
    assert wides.free() == [4, 4]
    assert wides.waiting() == 0
    [again] = wides.submit(8, number=2)
    assert [seat.ranks for seat in again.seats] == [4, 4]


def test_a_match_of_which_nothing_is_heard_waits_again_once():
    wides = WideMatches()
    [match] = wides.submit(6)
    wides.broker.now_s = match.until_s - 0.001
    assert not wides.wake()
    wides.broker.now_s = match.until_s
    [again] = wides.wake()
    assert again.job == match.job
    assert wides.waiting() == 0
    assert wides.free() == [0, 2]


def test_it_is_looked_at_in_time_though_its_home_is_the_brokers():
    wides = WideMatches()
    wides.submit(6)
    review_s = wides.broker.broker._pending.review_in_s
    assert review_s == RESEND_S


def test_one_that_a_machine_has_seen_does_not_wait_again():
    """Its home has it, and tells what waits."""
    wides = WideMatches()
    [match] = wides.submit(6)
    wides.granted(match, match.seats[1])
    wides.broker.now_s = match.until_s
    assert not wides.wake()
    assert wides.waiting() == 0
    assert wides.free() == [4, 2]


def test_after_a_refusal_the_other_seats_keep_their_places_until_their_machines_free_them():
    wides = WideMatches()
    [match] = wides.submit(8)
    first, second = match.seats
    wides.granted(match, first)
    assert not wides.refused(second)
    assert wides.free() == [0, 4]
    [again] = wides.tell(
        wide(8, front=1), wides.idle("m0", 1, ended=(seat_of(match, first).attempt,))
    )
    assert [seat.ranks for seat in again.seats] == [4, 4]


def test_seats_that_a_home_let_go_of_are_no_evidence_against_their_machines():
    wides = WideMatches()
    [match] = wides.submit(8)
    for _ in range(FAILURES_MIN - 1):
        wides.refused(match.seats[0])
        again = wides.idle("m1", 1, spent=(match.seats[1].capability,))
        [match] = wides.tell(wide(8, front=1), again)
    wides.refused(match.seats[0])
    wides.tell(wides.idle("m1", 1, spent=(match.seats[1].capability,)))
    assert wides.view("m0").back_off.until_s is not None
    assert wides.view("m1").back_off.until_s is None


def test_it_is_sent_again_as_a_whole_until_a_machine_has_seen_it():
    wides = WideMatches()
    away = replace(wide(8), job=JobId("w1", 1))
    [match] = wides.tell(away)
    wides.broker.now_s += RESEND_S
    [again] = wides.wake()
    assert again.seats == match.seats
    assert again.until_s == pytest.approx(match.until_s - RESEND_S)
    wides.granted(match, match.seats[1])
    wides.broker.now_s += RESEND_S
    assert not wides.wake()


def test_the_places_of_a_home_that_is_gone_are_free_in_time_and_nothing_waits():
    wides = WideMatches()
    [match] = wides.tell(replace(wide(8), job=JobId("w1", 1)))
    wides.tell(LinkDown("w1"))
    assert wides.free() == [0, 0]
    wides.broker.now_s = match.until_s
    assert not wides.wake()
    assert wides.free() == [4, 4]


def test_a_machine_that_is_forgotten_frees_the_places_on_the_others():
    wides = WideMatches()
    wides.submit(8)
    wides.forget("m1")
    assert wides.free() == [4]
    assert wides.waiting() == 1
    [again] = wides.tell(wides.idle("m1", CPUS, whole=True))
    assert [seat.machine for seat in again.seats] == ["m0", "m1"]


def test_unless_its_home_is_known_to_have_it():
    wides = WideMatches()
    [match] = wides.submit(8)
    wides.granted(match, match.seats[0])
    wides.forget("m1")
    assert wides.free() == [0]
    assert wides.waiting() == 0


def test_a_machine_that_began_anew_leaves_the_other_seats_to_their_machines():
    wides = WideMatches()
    [match] = wides.submit(8)
    wides.restart("m1")
    assert wides.free() == [0, 4]
    wides.broker.now_s = match.until_s
    wides.wake()
    assert wides.free() == [0, 0], "matched again"


def test_a_claim_for_a_match_that_counted_as_lost_takes_the_places_of_another():
    """The latest match of that machine is given up with all its seats, and waits again."""
    wides = WideMatches()
    [lost] = wides.submit(8)
    wides.submit(6, number=2, urgency=9.0)
    wides.broker.now_s = lost.until_s
    [latest] = wides.wake()
    assert latest.job == job(2)
    wides.granted(lost, lost.seats[0])
    assert wides.free() == [0, 4]
    assert wides.waiting() == 2


def test_a_broker_that_came_back_counts_one_task_on_all_its_machines():
    """Each machine reports its seat; the cpus of all count for the account."""
    before = WideMatches(machines=3)
    [match] = before.submit(10)
    after = WideMatches(machines=0, cap_cpus=12)
    for seat in match.seats:
        began = (seat_of(match, seat),)
        after.tell(after.idle(seat.machine, 0, whole=True, began=began))
    assert after.state.usage.running_cpus(ANN) == 10
    assert after.free() == [0, 0, 2]
    after.tell(after.idle("m3", CPUS, whole=True))
    assert not after.submit(4, number=2), "14 cpus are more than its cap"
    after.tell(Withdraw(job(2)))
    assert after.submit(2, number=3)


def test_a_seat_that_a_second_machine_claims_to_run_is_not_believed():
    wides = WideMatches()
    [match] = wides.submit(4)
    wides.begin(match)
    wides.tell(wides.idle("m1", began=(seat_of(match, match.seats[0]),)))
    assert sum(wides.free()) == 4


def test_seats_that_nobody_knows_free_nothing():
    wides = WideMatches()
    [match] = wides.submit(8)
    unknown = wides.broker.capabilities(SEATS_MAX)
    wides.tell(Decline(job(1), tuple(SeatOffer("m0", each, 1) for each in unknown)))
    wides.tell(Decline(job(1), tuple(SeatOffer(f"x{n}", c) for n, c in enumerate(unknown))))
    assert wides.free() == [0, 0]
    wides.begin(match)


def test_nothing_is_prefetched_behind_a_seat_and_no_parallel_task_anywhere():
    wides = WideMatches(order="fifo")
    [match] = wides.submit(8, limit_s=1.0)
    for seat in match.seats:
        ahead = wides.broker.capabilities(1)
        assert not wides.granted(match, seat, ahead=ahead)
    assert not wides.tell(want(2, limit_s=1.0))


def test_no_parallel_task_is_sent_ahead_nor_any_other_before_it():
    wides = WideMatches(order="fifo")
    short = [wides.tell(want(number, cpus=4, limit_s=1.0))[0] for number in (1, 2)]
    wides.submit(2, number=3, limit_s=1.0)
    wides.tell(want(4, limit_s=1.0))
    for match in short:
        [seat] = match.seats
        running = (replace(seat_of(match, seat), resources=Resources(4), limit_s=1.0),)
        news = {"began": running, "spent": (seat.capability,)}
        assert not wides.tell(wides.idle(seat.machine, ahead=wides.broker.capabilities(2), **news))
    assert list(wides.state.heads.by_job) == [job(3)]


def test_seats_that_were_stopped_because_of_another_are_no_success():
    """Else a program that fails at once would be taken for a fault of the machine of rank 0."""
    wides = WideMatches()
    for number in range(1, 2 * failure_attribution.FAILURES_MIN):
        [match] = wides.submit(8, number=number)
        wides.begin(match)
        first, second = match.seats
        failed = (FailedAtOnce(attempt(number), 1),)
        wides.broker.now_s += 0.05
        wides.ended(match, first, failed=failed)
        wides.ended(match, second)
    assert not wides.broker.broker.failing_on("m0")
    assert wides.submit(8, number=99)


def test_a_cap_counts_the_cpus_of_all_seats():
    wides = WideMatches(machines=3, cap_cpus=10)
    [match] = wides.submit(6, count=2)
    wides.begin(match)
    assert wides.waiting() == 1
    assert wides.tell(wide(6, number=2, user="bob"))


# --- any story -----------------------------------------------------------------------------------

acts = st.lists(
    st.tuples(
        st.sampled_from(
            ["submit", "grant", "refuse", "decline", "end", "wait", "drop", "restart", "away"]
        ),
        st.integers(0, 7),
    ),
    max_size=30,
)


@given(acts)
def test_whatever_becomes_of_matches_all_places_are_free_in_the_end(story):
    """The broker checks after each turn that claims, counts and places agree."""
    wides = WideMatches(machines=3)
    open_matches = []
    running = []
    number = attempts = 0
    for act, which in story:
        found = []
        match act:
            case "submit":
                number += 1
                found = wides.submit(1 + which, number=number)
            case "wait":
                wides.broker.now_s += which
                found = wides.wake()
            case "restart":
                name = f"m{which % 3}"
                running = [each for each in running if each[1].machine != name]
                found = wides.restart(name)
            case "away":
                name = f"m{which % 3}"
                began = tuple(seat_of(*each) for each in running if each[1].machine == name)
                found = wides.tell(LinkDown(name), wides.idle(name, 0, whole=True, began=began))
            case "drop":
                name = f"m{which % 3}"
                wides.forget(name)
                running = [each for each in running if each[1].machine != name]
                found = wides.restart(name)
            case "end" if running:
                matched, seat, of = running.pop(which % len(running))
                found = wides.ended(matched, seat, of)
            case "decline" if open_matches:
                matched, _ = open_matches.pop(which % len(open_matches))
                found = wides.declined(matched)
            case "grant" | "refuse" if open_matches:
                matched, left = open_matches[which % len(open_matches)]
                if not left:
                    continue
                seat = left.pop()
                attempts += 1
                of = attempts
                is_there = seat.capability in wides.view(seat.machine).matched
                if act == "grant" and is_there:
                    running.append((matched, seat, of))
                    found = wides.granted(matched, seat, of)
                else:
                    found = wides.refused(seat)
        open_matches += [(each, list(each.seats)) for each in found]
    for each in range(1, number + 1):
        wides.tell(Withdraw(job(each)))
    for matched, seat, of in running:
        wides.ended(matched, seat, of)
    for pending in wides.pending():
        wides.tell(Decline(pending.entry.want.job, tuple(pending.seats)))
    assert wides.free() == [CPUS] * 3
    assert wides.state.usage.running_cpus(ANN) == 0
    assert not wides.waiting()
