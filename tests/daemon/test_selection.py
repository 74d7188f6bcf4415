import pytest

from iriai.daemon.selection import Selected, parse_selection, select
from iriai.home.job import JobState
from iriai.model.account import Account
from iriai.model.ids import JobId
from iriai.model.job import JobSpec
from iriai.model.problem import NotFound, UsageProblem

JOB = JobId("ume", 42)


def job(number: int, name: str, user: str = "ann") -> JobState:
    return JobState(number, JobSpec(Account("lab", user), user, name, ("true",), "/"), 0.0)


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("ume-42", Selected(JOB)),
        ("ume-42.7", Selected(JOB, (7,))),
        ("ume-42.3-5", Selected(JOB, (3, 4, 5))),
        ("ume-42.3-3", Selected(JOB, (3,))),
        ("big-box-1.0", Selected(JobId("big-box", 1), (0,))),
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
    with pytest.raises(NotFound, match="oak-1 is not of this home"):
        select("oak-1", "ume", {}, None)


def test_a_pattern_selects_by_name_and_only_among_the_jobs_one_may_see():
    jobs = {1: job(1, "sweep-a"), 2: job(2, "sweep-b", "bob"), 3: job(3, "other")}
    assert select("name:sweep*", "ume", jobs, None) == [
        Selected(JobId("ume", 1)),
        Selected(JobId("ume", 2)),
    ]
    assert select("name:sweep*", "ume", jobs, "ann") == [Selected(JobId("ume", 1))]


def test_a_pattern_that_nothing_matches_is_not_found():
    with pytest.raises(NotFound, match="no job that waits or runs has a name like 'x\\*'"):
        select("name:x*", "ume", {}, None)
