"""A job starts after those that it waits for, or never does, and says why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.home import completion
from iriai.home.core import Home
from iriai.model.alteration import Alteration
from iriai.model.job import Condition, Dependency
from iriai.model.problem import NotFound, Refused
from iriai.model.reason import Rule
from iriai.model.records import DependencyFailed, DependencyMet, JobFinished
from iriai.model.state import EndCause, TaskState
from iriai.protocol.messages.effects import WakeAt
from tests.home.lone_home import LoneHome, changes, end, wants
from tests.support.told import HOME, instant, only, spec


def on(number: int, task: int | None = None, condition: Condition = Condition.OK) -> Dependency:
    return Dependency(condition, HOME, number, task)


def any_end(number: int, task: int | None = None) -> Dependency:
    return on(number, task, Condition.ANY)


def failure(number: int, task: int | None = None) -> Dependency:
    return on(number, task, Condition.FAIL)


def test_a_job_is_wanted_when_what_it_waits_for_completed():
    home = LoneHome()
    home.submit()
    assert wants(home.submit(after=(on(1),))) == []
    [reason] = home.home.explain(2)
    assert (reason.rule, reason.needed) == (Rule.DEPENDENCY, "ume-1 to complete")
    said = home.tell(end(home.start()))
    assert wants(said) == [(2, 1)]
    assert DependencyMet(((on(1), EndCause.COMPLETED),)) in changes(said)
    assert home.home.explain(2) == []


def test_a_job_whose_dependency_fails_ends_cancelled_and_so_do_those_after_it():
    home = LoneHome()
    home.submit()
    home.submit(after=(on(1),))
    home.submit(after=(on(2),), array=((1, 5, 1),), is_array=True)
    said = home.tell(end(home.start(), EndCause.FAILED, 1))
    assert DependencyFailed(on(1), EndCause.FAILED) in changes(said)
    finished = [(r.number, r.cause) for r in said.records if isinstance(r, JobFinished)]
    assert finished == [(1, "failed"), (2, "cancelled"), (3, "cancelled")]
    assert home.home.jobs == {}


@pytest.mark.parametrize(
    ("cause", "starts"),
    [(EndCause.COMPLETED, [2, 3]), (EndCause.FAILED, [3, 4]), (EndCause.TIME_LIMIT, [3, 4])],
)
def test_each_condition_holds_for_its_ends(cause, starts):
    home = LoneHome()
    home.submit()
    for dependency in (on(1), any_end(1), failure(1)):
        home.submit(after=(dependency,))
    said = home.tell(end(home.start(), cause, None))
    assert [number for number, _ in wants(said)] == starts


def test_all_dependencies_must_hold():
    home = LoneHome()
    home.submit()
    home.submit()
    home.submit(after=(on(1), any_end(2)))
    assert wants(home.tell(end(home.start(1)))) == []
    assert [r.needed for r in home.home.explain(3)] == ["ume-2 to end"]
    assert wants(home.tell(end(home.start(2), EndCause.FAILED, 1))) == [(3, 1)]


def test_a_task_is_waited_for_alone():
    home = LoneHome()
    home.submit(array=((1, 3, 1),), is_array=True)
    home.submit(after=(on(1, 2),))
    first, second = home.start(), home.start()
    assert wants(home.tell(end(first, EndCause.FAILED, 1))) == []
    assert wants(home.tell(end(second))) == [(2, 1)]


def test_an_array_that_has_failed_in_part_will_not_complete():
    """Whoever waits for all of it need not wait for the rest; who waits for its end, must."""
    home = LoneHome()
    home.submit(array=((1, 3, 1),), is_array=True)
    home.submit(after=(on(1),))
    home.submit(after=(failure(1),))
    home.tell(end(home.start(), EndCause.FAILED, 1))
    assert list(home.home.jobs) == [1, 3]
    with pytest.raises(Refused, match="ume-1 ended failed, so ok:ume-1 can never hold"):
        home.submit(after=(on(1),))


def test_a_task_that_waits_again_has_not_ended():
    home = LoneHome()
    home.submit()
    home.submit(after=(any_end(1, 0),))
    assert wants(home.tell(end(home.start(), EndCause.LOST, None))) == [(1, 1)]
    assert home.home.jobs[2].task_state(0) is TaskState.QUEUED


def test_cancelled_tasks_have_ended():
    home = LoneHome()
    home.submit(array=((1, 3, 1),), is_array=True)
    home.submit(after=(any_end(1, 3),))
    home.submit(after=(on(1, 2),))
    said = home.do(lambda home: home.cancel(1, (2, 3), "ann"))
    assert (2, 1) in wants(said)
    assert list(home.home.jobs) == [1, 2]


def test_what_has_ended_already_is_settled_at_submission():
    home = LoneHome()
    home.submit()
    home.tell(end(home.start()))
    assert wants(home.submit(after=(on(1),))) == [(2, 1)]
    with pytest.raises(Refused, match="ume-1 ended completed, so fail:ume-1 can never hold"):
        home.submit(after=(failure(1),))
    assert list(home.home.jobs) == [2]


def test_what_the_home_has_forgotten_is_told_by_the_store():
    first = LoneHome()
    first.submit()
    first.tell(end(first.start(), EndCause.FAILED, 3))
    home = LoneHome(first.store)
    assert home.home.unknown_ends((on(1), any_end(1))) == [on(1), any_end(1)]
    ended = {(1, None): EndCause.FAILED}
    with pytest.raises(Refused, match="ended failed"):
        home.home.submit(spec(after=(on(1),)), (), instant(0), ended)
    said = home.do(lambda home: home.submit(spec(after=(failure(1),)), (), instant(0), ended))
    assert wants(said) == [(2, 1)]


@pytest.mark.parametrize(
    ("dependency", "words"),
    [(on(9), "there is no job ume-9"), (on(2), "no job ume-2"), (on(1, 7), "no task ume-1.7")],
)
def test_what_never_was_is_refused_with_its_id(dependency, words):
    home = LoneHome()
    home.submit()
    with pytest.raises(NotFound, match=words):
        home.submit(after=(dependency,))
    assert list(home.home.jobs) == [1]


def test_many_dependents_are_told_in_several_turns(monkeypatch):
    monkeypatch.setattr("iriai.home.completion.TOLD_MAX", 10)
    home = LoneHome()
    home.submit()
    for _ in range(25):
        home.submit(after=(on(1),))
    said = home.tell(end(home.start()))
    numbers = [number for number, _ in wants(said)]
    assert numbers == list(range(2, 12))
    assert only(said.others, WakeAt).steady_s == home.now_s
    # The others are not forgotten by a crash in between.
    again = LoneHome(home.store)
    told = [number for number, _ in wants(again.first)]
    while len(told) < 25:
        told += [number for number, _ in wants(again.do(lambda home: None))]
    assert sorted(told) == list(range(2, 27))


def test_whoever_waits_is_found_again_after_a_restart():
    first = LoneHome()
    first.submit()
    first.submit(after=(on(1),))
    attempt = first.start()
    home = LoneHome(first.store)
    assert wants(home.first) == []
    assert wants(home.tell(end(attempt))) == [(2, 1)]


def after(*dependencies: Dependency) -> Alteration:
    return Alteration(after=dependencies)


def alter(home: LoneHome, number: int, *dependencies: Dependency):
    return home.do(lambda each: each.alter(number, after(*dependencies), "ann"))


def test_a_job_may_wait_for_something_else_later():
    home = LoneHome()
    home.submit()
    home.submit()
    home.submit(after=(on(1),))
    assert wants(alter(home, 3, on(2))) == []
    assert wants(home.tell(end(home.start(1)))) == []
    assert wants(alter(home, 3)) == [(3, 1)]
    [withdraw] = alter(home, 3, on(2)).broker
    assert withdraw.job.number == 3


def test_nobody_waits_for_themselves():
    home = LoneHome()
    home.submit()
    home.submit(after=(on(1),))
    home.submit(after=(any_end(2, 0),))
    with pytest.raises(Refused, match="itself: ume-1 after ume-3 after ume-2 after ume-1"):
        alter(home, 1, failure(3))
    with pytest.raises(Refused, match="itself: ume-2 after ume-2"):
        alter(home, 2, on(2))
    alter(home, 2)
    alter(home, 1, failure(3))  # now it is none


@given(st.data())
def test_whatever_is_altered_nothing_waits_for_ever(data):
    """Of jobs that wait for each other all end: there is no cycle, and nobody is forgotten."""
    home = LoneHome()
    home.submit()
    for number in range(2, 8):
        others = st.lists(st.integers(1, number - 1), max_size=2, unique=True)
        home.submit(after=tuple(any_end(each) for each in data.draw(others)))
    pairs = st.tuples(st.integers(1, 7), st.lists(st.integers(1, 7), max_size=3, unique=True))
    for number, others in data.draw(st.lists(pairs, max_size=8)):
        try:
            alter(home, number, *(any_end(each) for each in others))
        except Refused as problem:
            assert "after" in str(problem)  # noqa: PT017 - some alterations are fine
    ended = 0
    while home.home.jobs:
        ready = [number for number, job in home.home.jobs.items() if job.ready]
        assert ready, "all wait for each other"
        home.tell(end(home.start(data.draw(st.sampled_from(ready)))))
        ended += 1
        if data.draw(st.booleans()):
            home = LoneHome(home.store)
    assert ended == 7


def test_the_index_forgets_with_the_jobs():
    home = Home(HOME, 1, ())
    for after_these in ((), (on(1),), (on(1, 0), any_end(2))):
        home.submit(spec(after=after_these), (), instant(0))
    for number in (3, 2, 1):
        home.cancel(number, (), "ann")
        home.end_turn(instant(0))
        home.record(instant(0))
    assert vars(home._completion.dependents) == vars(completion.Dependents())
