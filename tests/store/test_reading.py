"""What clients are told of the past."""

from __future__ import annotations

import pytest

from iriai.model.history import Selection
from iriai.model.problem import NotFound
from iriai.model.state import EndCause
from tests.store.records import ANN, BOB, NOW, accepted, event, finished, result, spec


def numbers(jobs):
    return [job.number for job in jobs]


@pytest.fixture
def past(store):
    """Job 1 of ann and job 2 of bob have ended, in this order; job 3 of ann has not."""
    store.write([accepted(1, ANN, name="sweep-a"), accepted(2, BOB, name="sweep-b")])
    store.write([accepted(3, ANN, name="other")])
    store.write([result(1, ended_wall_s=NOW + 10), finished(1, wall_s=NOW + 10)])
    store.write(
        [
            result(2, cause=EndCause.FAILED, ended_wall_s=NOW + 20, message="no such file"),
            finished(2, EndCause.FAILED, wall_s=NOW + 20),
        ]
    )
    return store


def test_finished_jobs_are_listed_the_latest_first(past):
    jobs = past.finished_jobs()
    assert numbers(jobs) == [2, 1]
    assert jobs[1].spec == spec(ANN, name="sweep-a")
    assert jobs[1].cause is EndCause.COMPLETED
    assert (jobs[0].cause, jobs[0].finished_wall_s) == (EndCause.FAILED, NOW + 20)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(owner="ann"), [1]),
        (Selection(group="guests"), [2]),
        (Selection(group="guests", user="ann"), []),
        (Selection(name="sweep-*"), [2, 1]),
        (Selection(name="sweep-[!b]"), [1]),
        (Selection(since_wall_s=NOW + 11), [2]),
        (Selection(until_wall_s=NOW + 20), [1]),
        (Selection(job=3), []),
    ],
)
def test_a_selection_narrows_a_listing(past, selection, expected):
    assert numbers(past.finished_jobs(selection)) == expected
    assert [row.job for row in past.history(selection)] == expected


def test_the_attempts_of_one_task_are_told_apart(store):
    store.write([accepted(1), result(1, 0), result(1, 1, 1, EndCause.LOST), result(1, 1, 2)])
    rows = store.history(Selection(job=1, task_index=1))
    assert [(row.task_index, row.attempt) for row in rows] == [(1, 2), (1, 1)]


def test_a_limit_keeps_the_latest(past):
    assert numbers(past.finished_jobs(limit=1)) == [2]
    assert [row.job for row in past.history(limit=1)] == [2]


def test_a_job_is_found_by_its_number_finished_or_not(past):
    assert past.job(2).cause is EndCause.FAILED
    assert (past.job(3).spec, past.job(3).cause) == (spec(ANN, name="other"), None)
    assert past.job(4) is None


def test_the_events_of_a_finished_job_are_still_there(past):
    past.write([event(2, 1), event(2, 2)])
    assert past.events(2) == [event(2, 1), event(2, 2)]
    assert past.events(1) == []


def test_a_row_of_the_history_has_what_the_paper_asks_and_more(past):
    (row,) = past.history(Selection(job=2))
    assert (row.user_name, row.group_name, row.job_name) == ("bob", "guests", "sweep-b")
    assert (row.cpu_s, row.memory_peak_bytes, row.exit_code) == (1.5, 1 << 20, 1)
    assert (row.started_wall_s, row.ended_wall_s) == (NOW + 18, NOW + 20)
    assert (row.machine, row.charge_s, row.message) == ("ume", 2.0, "no such file")
    assert row.cause is EndCause.FAILED


def test_a_second_result_of_one_attempt_is_dropped(store):
    store.write([accepted(1), result(1, charge_s=2.0)])
    store.write([result(1, charge_s=5.0)])
    (row,) = store.history()
    assert row.charge_s == 2.0


def test_a_finished_array_says_how_many_tasks_succeeded(store):
    store.write([accepted(1, array=((0, 3, 1),))])
    store.write([result(1, 0, 1, EndCause.LOST), result(1, 1, 1, EndCause.FAILED)])
    store.write([result(1, 0, 2), result(1, 2, 1), finished(1, EndCause.FAILED)])
    (job,) = store.finished_jobs()
    assert job.succeeded == 2


def test_causes_count_tasks_by_how_they_ended(store):
    store.write([accepted(1, array=((0, 4, 1),))])
    store.write([result(1, 0, 1, EndCause.LOST), result(1, 0, 2)])  # lost, then repeated
    store.write([result(1, 1, 1, EndCause.LOST)])  # lost for good
    store.write([result(1, 2, 1, EndCause.EVICTED), result(1, 3, 1, EndCause.REFUSED)])
    store.write([result(1, 2, 2, EndCause.FAILED)])
    assert store.causes(1) == {EndCause.COMPLETED: 1, EndCause.LOST: 1, EndCause.FAILED: 1}


def test_usage_sums_every_attempt_but_counts_each_task_once(store):
    store.write([accepted(1, ANN, NOW - 10), accepted(2, ANN, NOW - 10), accepted(3, BOB)])
    store.write([result(1, 0, 1, EndCause.EVICTED, ended_wall_s=NOW), result(1, 0, 2)])
    store.write([result(2, cause=EndCause.FAILED, charge_s=7.0, started_wall_s=NOW)])
    store.write([result(3, charge_s=1.0, returned_s=0.5)])
    ann, bob = store.usage()
    assert (ann.group, ann.user, ann.tasks, ann.failed) == ("lab", "ann", 2, 1)
    assert (ann.cpu_s, ann.charge_s, ann.waited_s) == (4.5, 11.0, 9.0)
    assert (ann.job, ann.job_name) == (None, "")
    assert (bob.user, bob.tasks, bob.failed) == ("bob", 1, 0)
    assert (ann.returned_s, bob.returned_s) == (0.0, 0.5)


def test_usage_by_job_names_the_jobs(past):
    first, second = past.usage(Selection(name="sweep-*"), by_job=True)
    assert {(row.job, row.job_name) for row in (first, second)} == {
        (1, "sweep-a"),
        (2, "sweep-b"),
    }


def test_usage_of_a_period_leaves_out_the_rest(past):
    (row,) = past.usage(Selection(since_wall_s=NOW + 15))
    assert row.user == "bob"


def test_large_texts_stay_as_they_were_written(store):
    texts = {f"d{number}": bytes([number]) * 100_000 for number in range(7)}
    store.write([accepted(1, payloads=tuple(texts.items()))])
    store.write([accepted(2, payloads=tuple(texts.items()))])
    assert {digest: store.payload(digest) for digest in texts} == texts
    assert store.payload_sizes() == dict.fromkeys(texts, 100_000)


def test_jobs_with_large_commands_are_all_written(store, reopened):
    commands = [("true", str(number) * 400_000) for number in range(5)]
    store.write([accepted(n, command=command) for n, command in enumerate(commands, 1)])
    assert [job.spec.command for job in reopened().load().jobs] == commands


def test_a_text_is_stored_once_under_its_digest(store):
    store.write([accepted(1, payloads=(("d1", b"PATH=/bin"), ("d2", b"#!/bin/sh\n")))])
    store.write([accepted(2, payloads=(("d1", b"PATH=/bin"),))])
    assert (store.payload("d1"), store.payload("d2")) == (b"PATH=/bin", b"#!/bin/sh\n")
    with pytest.raises(NotFound, match="d3"):
        store.payload("d3")


def test_a_reader_sees_what_was_committed_and_never_waits(store):
    store.write([accepted(1)])
    connection = store._connection
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM jobs")
    assert store.job(1) is not None
    connection.execute("COMMIT")
    assert store.job(1) is None


def test_the_factors_of_a_charge_come_back_where_some_of_it_was_off_peak(past):
    mixed = ((1.0, 10.0), (0.5, 20.0))
    past.write([result(3, attempt=1, factors=mixed), result(3, attempt=2, factors=((1.0, 5.0),))])
    found = past.history(Selection(job=3))
    assert {row.attempt: row.factors for row in found} == {1: mixed, 2: ()}
