"""What the launcher does about a freezer that does not do its work; the test plays the task."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace

import pytest

from iriai.launcher.contract.messages import FreezeOrder, FreezeState
from iriai.launcher.system.timers import Timers
from iriai.launcher.tasks import freezing, suspended_tasks
from iriai.launcher.tasks.freezing import KEEPS_FORKING, LOOKS_MAX, TaskFreezing
from iriai.launcher.tasks.parts import Defects
from iriai.launcher.tasks.suspended_tasks import LATE_S, SuspendedTasks
from iriai.launcher.tasks.suspension import TaskSuspension
from iriai.launcher.tasks.turning import TaskTurning
from iriai.model.suspension import NO_REASONS, SuspendReason
from tests.support.told import attempt

SEAT = attempt(1)
OWNER = (SuspendReason.OWNER,)


class Group:
    """A containment whose freezer answers as it is told."""

    freezes_by_signals = False

    def __init__(self) -> None:
        self.calls = 0
        self.settles_after = 1
        self.reports = True
        self.is_thawed = False

    def freeze(self, also: Collection[int], since_s: float) -> bool:
        self.calls += 1
        return self.calls >= self.settles_after

    def is_frozen(self, also: Collection[int], since_s: float) -> bool:
        return self.reports

    def thaw(self, also: Collection[int], since_s: float) -> None:
        self.is_thawed = True


class Task:
    attempt = SEAT
    unreaped: Collection[int] = (7,)
    is_ending = is_over = False

    def __init__(self) -> None:
        self.container = Group()
        self.suspension: TaskSuspension | None = None


class Running:
    """The launcher's table, with one task, and a clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(suspended_tasks, "steady_s", lambda: self.now_s)
        self.task = Task()
        self.steps = SimpleNamespace(pids_of=lambda seat: [])
        self.ended: list[object] = []
        self.resumed: list[object] = []
        self.timers, self.defects = Timers(), Defects()
        monkeypatch.setattr(freezing, "steady_s", lambda: self.now_s)
        self.kept: list[object] = []
        owner = SimpleNamespace(keeps=self.kept.__contains__)
        parts = SimpleNamespace(
            timers=self.timers, defects=self.defects, switcher=None, owner=owner
        )
        freezes = TaskFreezing(parts, self)
        turns = TaskTurning(parts, self, self, freezes)
        self.suspended = SuspendedTasks(parts, self, self, freezes, turns)

    def __iter__(self):
        return iter([self.task])

    def get(self, wanted):
        return self.task if wanted == SEAT else None

    def end(self, task, reason, grace_s, now_s) -> None:
        self.ended.append((reason, grace_s))
        task.is_ending = True

    def give_up(self, task, words, now_s) -> None:
        self.ended.append(words)
        task.is_ending = True

    def hold_ranks(self, task) -> None: ...

    def resume_ranks(self, task) -> None: ...

    def resume(self, task, now_s) -> None:
        self.resumed.append(task)

    def order(self, number: int, reasons=OWNER) -> list[FreezeState]:
        self.suspended.take([FreezeOrder(SEAT, number, reasons)], lambda _: False)
        return self.suspended.drain_news()

    def later(self, now_s: float) -> list[FreezeState]:
        """What is told until then."""
        while (due_s := self.timers.next_s()) is not None and due_s <= now_s:
            self.now_s = due_s
            assert self.timers.run_due(due_s) == []
        self.now_s = now_s
        return self.suspended.drain_news()


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Running:
    return Running(monkeypatch)


def test_what_is_frozen_at_once_is_told_at_once(running: Running):
    (state,) = running.order(1)
    assert state == FreezeState(SEAT, 1, OWNER, 0.0, 100.0)
    assert running.later(1000.0) == []
    assert len(running.timers) == 0


def test_nothing_is_told_until_the_freezer_has_reported(running: Running):
    running.task.container.reports = False
    assert running.order(1) == []
    assert running.later(101.0) == []
    running.task.container.reports = True
    (state,) = running.later(101.5)
    assert (state.is_complete, state.changed_s) == (True, 100.0)


def test_a_freezer_that_does_not_report_is_told_as_such_and_then_again(running: Running):
    running.task.container.reports = False
    assert running.order(1) == []
    assert running.later(100.0 + LATE_S - 0.01) == []
    (late,) = running.later(100.0 + LATE_S + 0.2)
    assert (late.is_complete, late.changed_s) == (False, 100.0)
    assert running.later(200.0) == []
    running.task.container.reports = True
    (state,) = running.later(201.0)
    assert state.is_complete
    assert len(running.timers) == 0


def test_reasons_that_change_meanwhile_are_told_with_it(running: Running):
    running.task.container.reports = False
    running.order(1)
    both = (SuspendReason.USER, *OWNER)
    assert running.order(2, both) == []
    running.task.container.reports = True
    (state,) = running.later(101.0)
    assert (state.number, state.reasons) == (2, both)


def test_what_is_thawed_meanwhile_is_looked_at_no_more(running: Running):
    running.task.container.reports = False
    running.order(1)
    running.now_s = 103.0
    (state,) = running.order(2, NO_REASONS)
    assert (state.is_complete, state.frozen_s, state.changed_s) == (True, 3.0, 103.0)
    assert running.resumed == [running.task]
    assert running.task.container.is_thawed
    assert running.later(200.0) == []


def test_a_freeze_after_that_has_its_own_time(running: Running):
    running.task.container.reports = False
    running.order(1)
    running.now_s = 103.0
    running.order(2, NO_REASONS)
    assert running.order(3) == []
    assert running.later(103.0 + LATE_S - 0.01) == []
    assert len(running.later(103.0 + LATE_S + 0.2)) == 1


@pytest.mark.parametrize(("looks", "ends"), [(LOOKS_MAX, 0), (LOOKS_MAX + 1, 1)])
def test_one_that_forks_faster_than_it_can_be_stopped_is_ended(running: Running, looks, ends):
    running.task.container.settles_after = looks
    told = running.order(1)
    assert running.ended == [(KEEPS_FORKING, 0.0)] * ends
    assert len(told) == 1 - ends
    assert running.task.container.calls == LOOKS_MAX


@pytest.mark.parametrize("broken", ["freeze", "is_frozen", "thaw"])
def test_an_internal_error_costs_the_task_alone(running: Running, broken: str):
    setattr(running.task.container, broken, lambda also, since_s: 1 // 0)
    running.order(1)
    running.order(2, NO_REASONS)
    assert len(running.ended) == 1
    assert running.defects.count == 1


def test_what_was_stopped_by_signals_is_looked_at_as_long_as_it_is_frozen(running: Running):
    group = running.task.container
    group.freezes_by_signals = True
    assert len(running.order(1)) == 1
    before = group.calls
    assert running.later(105.2) == []
    assert group.calls == before + 10
    running.order(2, NO_REASONS)
    assert running.later(200.0) == []
    assert group.calls == before + 10
