"""What is written is there, in order, and what has ended is not loaded again."""

from __future__ import annotations

import pytest

from iriai.model.claim import Claim, Phase
from iriai.model.ids import AttemptId, ReservationId
from iriai.model.owner import OwnerWord
from iriai.model.records import (
    AbsencesLearnt,
    BookingsDropped,
    ClaimsDropped,
    Drained,
    Incarnated,
    KeySet,
    OwnerWordGiven,
    ReservationsDropped,
    Resumed,
    SectionSet,
    Snapshot,
)
from iriai.model.reservation import ReservationState
from iriai.store import Store
from tests.store.records import (
    ANN,
    BOB,
    accepted,
    booked,
    claim,
    counter,
    event,
    finished,
    reserved,
    result,
    spec,
)


def test_a_new_store_is_empty_and_gives_out_number_1(tmp_path):
    store = Store.open(tmp_path / "iriai.db")
    state = store.load()
    store.close()
    assert (state.jobs, state.claims, state.ledger) == ([], [], [])
    assert (state.incarnation, state.next_number) == (0, 1)


def test_an_accepted_job_is_there_for_the_next_daemon(store, reopened):
    store.write([accepted(1, name="first"), accepted(2, BOB, wall_s=7.0)])
    jobs = reopened().load().jobs
    assert [job.number for job in jobs] == [1, 2]
    assert jobs[0].spec == spec(name="first")
    assert (jobs[1].spec, jobs[1].submitted_wall_s) == (spec(BOB), 7.0)


def test_events_come_back_in_order_with_their_jobs(store, reopened):
    store.write([accepted(1), accepted(2), accepted(3)])
    store.write([event(1, 1), event(3, 1), event(1, 2)])
    store.write([event(3, 2), event(1, 3)])
    jobs = reopened().load().jobs
    assert [job.events for job in jobs] == [
        [event(1, 1), event(1, 2), event(1, 3)],
        [],
        [event(3, 1), event(3, 2)],
    ]


def test_a_snapshot_replaces_what_came_before(store, reopened):
    store.write([accepted(1), event(1, 1), event(1, 2)])
    store.write([event(1, 3), event(1, 4, Snapshot(b"folded")), event(1, 5)])
    (job,) = reopened().load().jobs
    assert job.events == [event(1, 4, Snapshot(b"folded")), event(1, 5)]


def test_a_finished_job_is_not_loaded_but_its_number_stays_taken(store, reopened):
    store.write([accepted(1), accepted(2), event(2, 1)])
    store.write([finished(2)])
    state = reopened().load()
    assert [job.number for job in state.jobs] == [1]
    assert state.next_number == 3


def test_a_number_given_out_twice_is_refused_whole(store, reopened):
    store.write([accepted(1, name="first")])
    with pytest.raises(Exception, match="UNIQUE"):
        store.write([accepted(2), accepted(1, name="second")])
    (job,) = reopened().load().jobs
    assert job.spec.name == "first"


def test_a_claim_is_there_until_it_is_dropped(store, reopened):
    store.write([claim(1), claim(2)])
    store.write([claim(3), ClaimsDropped((AttemptId("ume", 1, 0, 1), AttemptId("ume", 3, 0, 1)))])
    (left,) = reopened().load().claims
    assert isinstance(left, Claim)
    assert left == claim(2).claim


def test_of_a_section_what_was_set_last_is_there(store, reopened):
    state, group = KeySet("state", "active", "ann"), KeySet("group", "läb", "eve")
    second = SectionSet("queues", "1", (state, group), "eve", 7.0)
    gang = SectionSet("gang", "", (), "bob", 6.0)
    store.write([SectionSet("queues", "1", (state,), "ann", 5.0), gang])
    store.write([second])
    assert reopened().load().settings == [gang, second]


def test_a_drained_machine_is_drained_until_it_is_resumed(store, reopened):
    store.write([Drained("new disk", "ann", 5.0)])
    store.write([Resumed("bob"), Drained("new fan", "eve", 7.0)])
    assert reopened().load().drained == Drained("new fan", "eve", 7.0)
    store.write([Drained("new lamp", "eve", 8.0), Resumed("bob")])
    assert reopened().load().drained is None


def test_the_last_word_of_the_owner_is_kept_until_it_is_taken_back(store, reopened):
    here, away = OwnerWordGiven(OwnerWord.HERE, 9.0, True), OwnerWordGiven(OwnerWord.AWAY)
    store.write([away])
    store.write([OwnerWordGiven(None), here])
    assert reopened().load().owner_word == here
    store.write([away])
    assert reopened().load().owner_word == away
    store.write([here, OwnerWordGiven(None)])
    assert reopened().load().owner_word is None


def test_what_was_learnt_last_of_the_owner_is_kept(store, reopened):
    assert store.load().absences == AbsencesLearnt(b"")
    store.write([AbsencesLearnt(b"first")])
    store.write([AbsencesLearnt(b"next"), AbsencesLearnt(b"\x00last")])
    assert reopened().load().absences == AbsencesLearnt(b"\x00last")


def test_of_a_reservation_the_last_state_stands(store, reopened):
    confirmed = reserved(2, state=ReservationState.CONFIRMED, nodes=("a", "b"))
    store.write([reserved(2), reserved(1, BOB)])
    store.write([reserved(2, state=ReservationState.DECIDING), confirmed])
    assert reopened().load().reservations == [
        reserved(1, BOB).reservation,
        confirmed.reservation,
    ]


def test_the_number_of_a_reservation_that_is_forgotten_stays_taken(store, reopened):
    assert store.load().next_reservation == 1
    store.write([reserved(1), reserved(2), reserved(3)])
    store.write([ReservationsDropped((3, 2))])
    state = reopened().load()
    assert state.reservations == [reserved(1).reservation]
    assert state.next_reservation == 4
    store.write([ReservationsDropped((1,))])
    assert reopened().load().next_reservation == 4


def test_bookings_of_several_homes_are_kept_until_they_are_dropped(store, reopened):
    confirmed = booked(1, phase=Phase.CONFIRMED)
    store.write([booked(1), booked(1, "take"), booked(2)])
    store.write([confirmed, BookingsDropped((ReservationId("ume", 2),))])
    assert reopened().load().bookings == [booked(1, "take").booking, confirmed.booking]
    store.write([BookingsDropped((ReservationId("take", 1), ReservationId("ume", 9)))])
    assert reopened().load().bookings == [confirmed.booking]


def test_of_a_counter_and_the_incarnation_the_last_value_stands(store, reopened):
    store.write([counter(ANN, 1.0), Incarnated(4), counter(BOB, 5.0), counter(ANN, 2.0)])
    store.write([counter(ANN, 3.0), Incarnated(5)])
    state = reopened().load()
    assert state.ledger == [counter(BOB, 5.0), counter(ANN, 3.0)]
    assert state.incarnation == 5


@pytest.mark.parametrize("number", [1, 31, 32, 33, 63, 100, 1000])
def test_any_number_of_rows_fits_into_one_write(store, reopened, number):
    """Statements take 32, 16, 8, … rows: what is left over must not be lost, nor go twice."""
    numbers = range(1, number + 1)
    store.write([accepted(job) for job in numbers])
    store.write([record for job in numbers for record in (claim(job), result(job), event(job, 1))])
    again = reopened()
    assert [job.number for job in again.load().jobs] == list(numbers)
    assert len(again.load().claims) == number
    assert sorted(row.job for row in again.history()) == list(numbers)
    attempts = tuple(claim(job).claim.attempt for job in numbers)
    store.write([ClaimsDropped(attempts), *(finished(job) for job in numbers)])
    assert (again.load().claims, again.load().jobs) == ([], [])
    assert all(job.succeeded == 1 for job in again.finished_jobs())
    assert len(again.finished_jobs()) == number
