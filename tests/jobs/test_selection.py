import pytest

from iriai.home.job import JobState
from iriai.jobs.selection import (
    JOBS_AT_ONCE,
    TASKS_AT_ONCE,
    SelectedJobs,
    check_ids,
    parse_selection,
    parts,
    select,
)
from iriai.model.ids import Account, JobId
from iriai.model.job import JobSpec
from iriai.model.problem import NotFound, Refused, UsageProblem
from iriai.wire.exchange import IDS_MAX

JOB = JobId("ume", 42)


def job(number: int, name: str, user: str = "ann") -> JobState:
    return JobState(number, JobSpec(Account("lab", user), user, name, ("true",), "/"), 0.0)


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("ume-42", SelectedJobs(JOB)),
        ("ume-42.7", SelectedJobs(JOB, (7,))),
        ("ume-42.3-5", SelectedJobs(JOB, range(3, 6))),
        ("ume-42.3-3", SelectedJobs(JOB, range(3, 4))),
        ("big-box-1.0", SelectedJobs(JobId("big-box", 1), (0,))),
    ],
)
def test_ids_and_ranges(text, selected):
    assert parse_selection(text) == selected


@pytest.mark.parametrize(
    "text", ["", "42", "ume", "ume-42.", "ume-42.5-3", "ume-42.1-9999999", "Ü-1"]
)
def test_what_is_no_id_is_refused_with_an_example(text):
    with pytest.raises(UsageProblem) as raised:
        parse_selection(text)
    assert "ume-42" in raised.value.hint


def test_an_id_of_another_home_is_not_found_here():
    with pytest.raises(NotFound, match="oak-1 is not a job of this home"):
        list(select("oak-1", "ume", {}, None))


def test_a_pattern_selects_by_name_and_only_among_the_jobs_one_may_see():
    jobs = {1: job(1, "sweep-a"), 2: job(2, "sweep-b", "bob"), 3: job(3, "other")}
    assert list(select("name:sweep*", "ume", jobs, None)) == [
        SelectedJobs(JobId("ume", 1)),
        SelectedJobs(JobId("ume", 2)),
    ]
    assert list(select("name:sweep*", "ume", jobs, "ann")) == [SelectedJobs(JobId("ume", 1))]


def test_a_pattern_that_nothing_matches_is_not_found():
    with pytest.raises(NotFound, match="no waiting or running job has a name like 'x\\*'"):
        list(select("name:x*", "ume", {}, None))


def test_a_pattern_has_a_bound():
    with pytest.raises(UsageProblem) as raised:
        list(select("name:" + "[" * 12_000, "ume", {1: job(1, "x")}, None))
    assert raised.value.code == "pattern-too-long"


def test_others_are_served_while_many_names_are_looked_at():
    jobs = {number: job(number, "x") for number in range(1000)}
    found = select("name:y", "ume", jobs, None)
    assert [next(found) for _ in range(1000 // JOBS_AT_ONCE)] == [None] * (1000 // JOBS_AT_ONCE)
    with pytest.raises(NotFound):
        next(found)


def test_jobs_that_end_while_names_are_looked_at_are_left_out():
    jobs = {number: job(number, "x") for number in range(JOBS_AT_ONCE + 2)}
    found = select("name:x", "ume", jobs, None)
    first = next(found)
    jobs.clear()
    assert [first, *found] == [SelectedJobs(JobId("ume", 0)), None]


def test_many_ids_are_several_requests():
    check_ids(("ume-1",) * IDS_MAX)
    with pytest.raises(Refused):
        check_ids(("ume-1",) * (IDS_MAX + 1))


def test_a_long_range_is_done_in_parts():
    item = parse_selection("ume-42.1-5000")
    pieces = list(parts(item))
    assert [index for piece in pieces for index in piece.indices] == list(range(1, 5001))
    assert all(len(piece.indices) <= TASKS_AT_ONCE for piece in pieces)
