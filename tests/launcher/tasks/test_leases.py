"""When the launcher ends what has a lease; what runs is played by the test."""

from __future__ import annotations

from iriai.launcher.contract.messages import StartOrder
from iriai.launcher.system.timers import Timers
from iriai.launcher.tasks.limit_monitor import OVER, LeaseTimers
from tests.support.told import HOME, attempt


class Running:
    """A task, and the launcher's table of tasks with this one in it."""

    def __init__(self) -> None:
        self.is_over = False
        self.ended_s: float | None = None
        self.timers = Timers()
        self.leases = LeaseTimers(self, self.timers)

    def end(self, task, reason, grace_s, now_s) -> None:
        assert (task, reason, grace_s) == (self, OVER, 0.0)
        self.ended_s, self.is_over = now_s, True

    def look(self, now_s: float) -> bool:
        """Whether it is alive after the launcher has looked."""
        self.timers.run_due(now_s)
        return not self.is_over


def order(leased_s: float, lease_s: float | None = 10.0) -> StartOrder:
    return StartOrder(attempt(1), 0, lease_s=lease_s, leased_s=leased_s)


def started(leased_s: float = 100.0) -> Running:
    task = Running()
    task.leases.begin(task, order(leased_s))
    return task


def test_a_task_is_ended_when_its_lease_is_over():
    task = started()
    assert task.look(109.9)
    assert not task.look(110.0)


def test_without_a_lease_it_goes_on():
    task = Running()
    task.leases.begin(task, order(100.0, None))
    assert task.look(1e9)


def test_a_renewal_counts_from_when_it_was_asked():
    task = started()
    task.leases.renew(HOME, 105.0)
    assert task.look(114.9)
    assert not task.look(115.0)


def test_an_older_renewal_shortens_nothing():
    task = started()
    task.leases.renew(HOME, 105.0)
    task.leases.renew(HOME, 90.0)
    assert task.look(114.9)


def test_another_home_s_answer_is_nothing_to_it():
    task = started()
    task.leases.renew("other", 105.0)
    assert not task.look(110.0)


def test_what_was_over_before_it_could_start_is_not_started_for_a_later_renewal():
    """The launcher slept with both orders unread."""
    leases = Running().leases
    late = order(100.0)
    assert leases.may_start(late, 109.9)
    leases.renew(HOME, 115.0)
    assert not leases.may_start(late, 116.0)
    assert leases.may_start(order(100.0, None), 1e9)
