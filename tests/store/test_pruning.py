"""History that is deleted a little at a time, and what must outlive it."""

import os
import random

from msgspec.structs import replace

from iriai.model.records import HistoryDropped, NoticeDue, NoticesDropped, SeatEnded
from iriai.store import Store
from tests.store.records import NOW, accepted, event, finished, result

DAY_S = 86_400.0


def count(store: Store, table: str) -> int:
    return store._connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def drop(store: Store, until_wall_s: float | None = None, keep: int | None = None) -> int:
    """Delete everything that is old enough; returns in how many portions."""
    for portions in range(10_000):
        expired = store.expired(until_wall_s, keep, 10)
        if not expired:
            return portions
        store.write([HistoryDropped(number, 20) for number in expired])
    raise AssertionError("there is no end to it")


def test_what_ended_long_ago_is_deleted_with_all_that_belongs_to_it(store):
    for number in range(1, 6):
        store.write([accepted(number), event(number, 1), result(number)])
        store.write([finished(number, wall_s=NOW + number * DAY_S)])
    drop(store, NOW + 3.5 * DAY_S)
    assert [job.number for job in store.finished_jobs()] == [5, 4]
    assert sorted(row.job for row in store.history()) == [4, 5]
    assert store.events(1) == []
    assert count(store, "events") == 2
    assert store.history_from_wall_s() == NOW + 3 * DAY_S
    assert store.last_deleted() == 3


def test_the_latest_jobs_are_kept_where_a_number_is_given(store):
    for number in range(1, 31):
        store.write([accepted(number), finished(number, wall_s=NOW + number)])
    drop(store, keep=7)
    assert [job.number for job in store.finished_jobs()] == list(range(30, 23, -1))
    drop(store, NOW + 27.5, keep=7)
    assert [job.number for job in store.finished_jobs()] == [30, 29, 28]


def test_what_has_not_finished_is_never_deleted(store):
    store.write([accepted(1), event(1, 1), result(1)])
    store.write([HistoryDropped(1, 100), HistoryDropped(2, 100)])
    drop(store, NOW + 1e9, keep=0)
    assert [job.number for job in store.load().jobs] == [1]
    assert len(store.history()) == 1


def test_who_is_still_to_be_told_keeps_the_job(store):
    store.write([accepted(1), finished(1), NoticeDue(1)])
    assert store.notices() == [1]
    drop(store, NOW + DAY_S)
    store.write([HistoryDropped(1, 100)])
    assert store.job(1) is not None
    store.write([NoticesDropped((1,))])
    assert store.notices() == []
    drop(store, NOW + DAY_S)
    assert store.job(1) is None


def test_numbers_are_not_given_out_again(store, reopened):
    for number in (1, 2, 3):
        store.write([accepted(number), finished(number)])
    drop(store, keep=0)
    assert reopened().load().next_number == 4


def test_a_large_job_goes_in_portions_and_itself_last(store):
    store.write([accepted(1)])
    store.write([result(1, index) for index in range(95)])
    store.write([finished(1)])
    left = []
    while store.expired(NOW + DAY_S, None, 10):
        store.write([HistoryDropped(1, 20)])
        left.append(count(store, "attempts"))
    assert left == [75, 55, 35, 15, 0]
    assert store.job(1) is None


def test_payloads_go_with_the_last_job_that_needs_them(store):
    texts = (("shared", b"env"), ("one", b"script"))
    store.write([accepted(1, payloads=texts, environment="shared", script="one")])
    store.write([accepted(2, environment="shared")])
    store.write([finished(1)])
    drop(store, NOW + DAY_S)
    assert store.payload("shared") == b"env"
    assert count(store, "payloads") == 1
    store.write([finished(2)])
    drop(store, NOW + DAY_S)
    assert count(store, "payloads") == count(store, "payload_uses") == 0


def test_a_job_that_comes_with_the_deletion_keeps_its_payload(store):
    text = (("shared", b"env"),)
    store.write([accepted(1, payloads=text, environment="shared"), finished(1)])
    again = accepted(2, payloads=text, environment="shared")
    store.write([again, HistoryDropped(1, 100)])
    assert store.payload("shared") == b"env"
    store.write([accepted(3, environment="shared")])
    store.write([finished(2), finished(3)])
    drop(store, NOW + DAY_S)
    assert count(store, "payloads") == 0


def test_counters_stay(store):
    before = store.load().ledger
    store.write([accepted(1), result(1), finished(1)])
    drop(store, keep=0)
    assert store.load().ledger == before


def test_a_large_history_leaves_its_room_to_others(store, path):
    rng = random.Random(1)
    number = 0

    def fill() -> None:
        nonlocal number
        for _ in range(20):
            jobs = range(number, number + 100)
            number += 100
            texts = [(f"text-{each}", rng.randbytes(2000)) for each in jobs]
            store.write(
                [
                    accepted(each, payloads=(text,), script=text[0])
                    for each, text in zip(jobs, texts, strict=True)
                ]
            )
            store.write([result(each) for each in jobs] + [finished(each) for each in jobs])

    fill()
    store.checkpoint()
    full_bytes = os.stat(path).st_size
    drop(store, NOW + DAY_S)
    while store.checkpoint():
        pass
    small_bytes = os.stat(path).st_size
    assert small_bytes < full_bytes / 3
    fill()
    while store.checkpoint():
        pass
    assert os.stat(path).st_size < full_bytes * 1.2


def test_the_seats_of_its_attempts_go_with_a_job_a_little_at_a_time(store):
    ends = [result(1, ended_wall_s=NOW, machine=f"m{rank}") for rank in range(50)]
    seats = [replace(each, attempt=each.attempt.seat(2 * n)) for n, each in enumerate(ends)]
    store.write(
        [
            accepted(1),
            event(1, 1, SeatEnded(tuple((each, 2) for each in seats))),
            result(1),
            finished(1),
        ]
    )
    kept = store.last_seats(1, -1, 3)
    assert kept == store.seats(1, 0, 1)[:3]
    assert [(row.first_rank, row.ranks, row.machine) for row in kept] == [
        (0, 2, "m0"),
        (2, 2, "m1"),
        (4, 2, "m2"),
    ]
    assert drop(store, NOW + DAY_S) == 3
    assert count(store, "seats") == 0
