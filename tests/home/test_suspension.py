"""Users suspend their running tasks: what a home records, sends and shows."""

from __future__ import annotations

import pytest

from iriai.home.explain import suspended as explained
from iriai.jobs.views import job_row
from iriai.model.problem import NotFound, Refused
from iriai.model.records import ReasonsTold, SeatReasons, UserSuspended
from iriai.model.state import EndCause, TaskState
from iriai.model.suspension import SuspendReason
from iriai.protocol.messages.effects import LinkUp
from iriai.protocol.messages.scheduling import Begun, Run
from iriai.protocol.messages.suspension import Suspend, Suspended
from tests.home.lone_home import LoneHome, changes, end, match
from tests.support.told import HOME, WALL_S, Told, attempt, spec

USER, OWNER = SuspendReason.USER, SuspendReason.OWNER


def running(**fields) -> LoneHome:
    home = LoneHome()
    home.submit(**fields)
    home.start()
    return home


def suspend(home: LoneHome, *indices: int, is_wanted: bool = True) -> Told:
    return home.do(lambda core: core.suspend(1, indices, "ann", is_wanted=is_wanted))


def told(home: LoneHome, *reasons: SuspendReason, change: int = 1, **fields) -> Told:
    return home.tell(Suspended(attempt(), HOME, change, reasons, **fields))


def state(home: LoneHome) -> TaskState:
    return home.home.jobs[1].task_state(0)


def test_a_task_is_suspended_as_soon_as_its_user_wants_it():
    home = running()
    said = suspend(home)
    assert changes(said) == [UserSuspended(((0, 1),), "ann", True)]
    assert said.node == [Suspend(attempt(), 1, True)]
    assert state(home) is TaskState.SUSPENDED


def test_it_runs_again_when_its_machine_says_so():
    home = running()
    suspend(home)
    told(home, USER)
    said = suspend(home, is_wanted=False)
    assert said.node == [Suspend(attempt(), 2, False)]
    assert state(home) is TaskState.SUSPENDED
    told(home, USER, change=2, is_resuming=True)
    assert state(home) is TaskState.SUSPENDED
    told(home, change=2)
    assert state(home) is TaskState.RUNNING


def test_what_is_wanted_already_changes_nothing():
    home = running()
    suspend(home)
    said = suspend(home)
    assert (changes(said), said.node) == ([], [])


def test_a_machine_gives_reasons_of_its_own():
    home = running()
    assert changes(told(home, OWNER)) == [ReasonsTold((SeatReasons(0, 1, 0, (OWNER,)),))]
    assert state(home) is TaskState.SUSPENDED
    assert changes(told(home, OWNER)) == []
    told(home)
    assert state(home) is TaskState.RUNNING


def test_what_its_machine_saw_of_the_owner_is_kept_until_the_task_goes_on():
    home = running()
    told(home, OWNER, seen="its owner typed at a terminal")
    assert home.home.jobs[1].tasks[0].suspension.text == (
        "suspended by the owner of the machine (its owner typed at a terminal)"
    )
    told(home)
    assert home.home.jobs[1].tasks[0].suspension.seen == ""


def test_the_queue_in_which_a_task_goes_on_is_kept_and_listed():
    home = running(queue=0)
    assert changes(told(home, moved_to=1)) == [ReasonsTold((SeatReasons(0, 1, 0, (), moved_to=1),))]
    assert changes(told(home, moved_to=1)) == []
    assert job_row(HOME, home.home.jobs[1]).queue == 1
    again = LoneHome(home.store)
    assert home.home.jobs[1].equals(again.home.jobs[1])
    assert job_row(HOME, again.home.jobs[1]).queue == 1


def test_the_first_seat_alone_says_where_a_task_goes_on():
    home = running()
    told(home, moved_to=2)
    home.tell(Suspended(attempt()._replace(rank=1), HOME, 1, (), moved_to=1))
    assert home.home.jobs[1].tasks[0].moved_to == 2


def test_tasks_that_wait_are_not_concerned():
    home = LoneHome()
    home.submit(array=((0, 2, 1),), is_array=True)
    with pytest.raises(Refused, match="no task that runs") as caught:
        suspend(home)
    assert caught.value.code == "not-running"
    home.start()
    assert len(suspend(home).node) == 1
    with pytest.raises(Refused, match=rf"{HOME}-1\.2 does not run"):
        suspend(home, 2)


def test_what_was_never_suspended_is_not_unsuspended():
    home = running()
    with pytest.raises(Refused, match="no task that is suspended"):
        suspend(home, is_wanted=False)


def test_what_is_over_or_never_was_is_refused():
    home = running()
    home.tell(end(attempt()))
    with pytest.raises(NotFound):
        suspend(home)


def test_a_claimed_task_is_suspended_once_it_has_started():
    home = LoneHome()
    home.submit()
    home.tell(match())
    suspend(home)
    assert state(home) is TaskState.CLAIMED
    home.tell(Begun(attempt(), HOME, WALL_S))
    assert state(home) is TaskState.SUSPENDED


def test_a_home_that_comes_back_says_again_what_its_user_wants():
    home = running()
    suspend(home)
    told(home, USER)
    again = LoneHome(home.store)
    assert [type(each) for each in again.first.node] == [Run, Suspend]
    assert again.first.node[1] == Suspend(attempt(), 1, True)
    assert state(again) is TaskState.SUSPENDED
    assert home.home.jobs[1].equals(again.home.jobs[1])


def test_it_is_said_again_to_a_machine_that_can_be_reached_again():
    home = LoneHome()
    home.submit()
    home.tell(match(machine="yama"))
    home.tell(Begun(attempt(), "yama", WALL_S))
    suspend(home)
    said = home.tell(LinkUp("yama"))
    assert [type(each) for each in said.node] == [Run, Suspend]


def test_a_snapshot_keeps_who_keeps_a_task_from_running():
    home = running()
    suspend(home)
    told(home, USER, OWNER)
    job = home.home.jobs[1]
    folded = job.folded()
    fresh = type(job)(job.number, job.spec, job.submitted_wall_s)
    fresh.apply(folded)
    assert fresh.tasks[0].suspension == job.tasks[0].suspension
    assert fresh.task_state(0) is TaskState.SUSPENDED


def test_its_next_attempt_is_not_suspended():
    home = running()
    suspend(home)
    told(home, USER)
    home.tell(end(attempt(), EndCause.EVICTED, None))
    home.start()
    assert state(home) is TaskState.RUNNING


def test_another_machine_says_nothing_of_it():
    home = running()
    home.tell(Suspended(attempt(), "yama", 1, (OWNER,)))
    assert state(home) is TaskState.RUNNING
    assert home.home.drain_effects() == []


def test_why_names_who_suspended_it_and_what_it_keeps():
    home = running()
    task = home.home.jobs[1].tasks[0]
    assert explained(attempt().task, task, spec()) is None
    suspend(home)
    reason = explained(attempt().task, task, spec())
    assert reason.needed == f"iriai unsuspend {HOME}-1.0"
    assert "its user" in reason.had
    suspend(home, is_wanted=False)
    told(home, USER, change=2, is_resuming=True)
    assert explained(attempt().task, task, spec()).needed == "its cpus to be free again"
