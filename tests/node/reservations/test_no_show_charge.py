"""What a machine tells of use inside its bookings, and charges for one that nobody used."""

from __future__ import annotations

import pytest

from iriai.model.ids import AttemptId
from iriai.model.usage import Usage
from iriai.node.metering import SLICE_S
from iriai.protocol.messages.effects import AttemptsSampled, LinkUp
from iriai.protocol.messages.reservations import Unbook
from iriai.protocol.messages.scheduling import Begun
from tests.node.booking_story import HOUR, again, begin, confirm, inside, named, opened, until
from tests.node.lone_node import LoneNode
from tests.node.test_unused_charges import BOB, FOR_EVER_S, pass_time, reserved, used_s
from tests.support.told import HOME, attempt

NO_SHOW = Unbook(named(), 1, is_no_show=True)
WHOLE_S = 4 * HOUR
"""What an hour of the machine costs."""


# --- charges -------------------------------------------------------------------------------------


def test_a_part_of_the_whole_is_charged_at_least():
    node = reserved()
    pass_time(node, HOUR + 600.0)
    node.tell(NO_SHOW)
    assert used_s(node) == pytest.approx(0.25 * WHOLE_S)
    pass_time(node, 2 * HOUR)
    assert used_s(node) == pytest.approx(0.25 * WHOLE_S)


def test_the_time_until_then_is_if_that_is_more():
    node = reserved()
    pass_time(node, HOUR + 1800.0)
    node.tell(NO_SHOW)
    assert used_s(node) == pytest.approx(0.5 * WHOLE_S)


def test_it_is_charged_once():
    node = reserved()
    pass_time(node, HOUR + 600.0)
    node.tell(NO_SHOW, NO_SHOW)
    node.tell(NO_SHOW)
    assert used_s(node) == pytest.approx(0.25 * WHOLE_S)


@pytest.mark.parametrize(("charged", "part"), [(0.0, 1 / 6), (0.5, 0.5), (1.0, 1.0)])
def test_the_part_is_set(charged, part):
    node = reserved(no_show_charge=charged)
    pass_time(node, HOUR + 600.0)
    node.tell(NO_SHOW)
    assert used_s(node) == pytest.approx(part * WHOLE_S)


def test_what_is_not_used_costs_less_where_a_factor_says_so():
    node = reserved(unused_factor=0.5)
    pass_time(node, HOUR + 600.0)
    node.tell(NO_SHOW)
    assert used_s(node) == pytest.approx(0.125 * WHOLE_S)


def test_a_task_that_idles_inside_pays_for_itself_and_saves_nothing():
    node = reserved()
    node.run(1, inside(user="bob", cpus=4))
    begin(node)
    pass_time(node, HOUR + 600.0)
    node.tell(NO_SHOW)
    assert used_s(node) == pytest.approx(0.25 * WHOLE_S - 4 * 600.0)
    node.tell(sampled(0.0))
    assert used_s(node, BOB) == pytest.approx(4 * 600.0)


def test_one_that_is_not_open_costs_nothing_whatever_a_home_says():
    node = LoneNode(half_life_s=FOR_EVER_S)
    confirm(node)
    until(node, HOUR / 2)
    node.tell(NO_SHOW)
    assert used_s(node) == 0.0


def test_what_others_give_back_costs_what_it_kept():
    node = reserved()
    pass_time(node, HOUR + 600.0)
    node.tell(Unbook(named(), 1))
    assert used_s(node) == pytest.approx(WHOLE_S / 6)


# --- use -----------------------------------------------------------------------------------------


def sampled(cpu_s: float, number: int = 1) -> AttemptsSampled:
    return AttemptsSampled(((attempt(number), Usage(cpu_s)),))


def told(said) -> list[tuple[AttemptId, bool | None]]:
    return [(each.attempt, each.is_used) for each in said.home if isinstance(each, Begun)]


def running(**changes) -> LoneNode:
    """A task of two cpus began as its reservation opened."""
    node = opened()
    node.run(1, inside(**{"cpus": 2, **changes}))
    begin(node)
    return node


@pytest.mark.parametrize(("cpu_s", "is_used"), [(0.0, False), (1.19, False), (1.2, True)])
def test_its_home_hears_whether_a_task_used_a_hundredth_of_its_cpus(cpu_s, is_used):
    node = running()
    node.wait(SLICE_S)
    assert told(node.tell(sampled(cpu_s))) == [(attempt(1), is_used)]


def test_not_before_it_has_run_for_a_minute():
    node = running()
    node.wait(SLICE_S - 1.0)
    assert told(node.tell(sampled(50.0))) == []


def test_that_it_idles_is_told_each_time_and_that_it_works_once():
    node = running()
    for number, cpu_s, words in (
        (1, 0.0, [False]),
        (2, 0.0, [False]),
        (3, 9.0, [True]),
        (4, 9.0, []),
    ):
        node.now_s = HOUR + number * SLICE_S
        assert [is_used for _, is_used in told(node.tell(sampled(cpu_s)))] == words


def test_what_was_told_may_have_been_lost():
    node = running()
    node.wait(SLICE_S)
    node.tell(sampled(9.0))
    assert told(node.tell(LinkUp(HOME))) == []  # a home beside it hears all
    elsewhere = opened()
    elsewhere.run(1, inside(cpus=2), lease_s=1e4)
    begin(elsewhere)
    elsewhere.wait(SLICE_S)
    elsewhere.tell(sampled(9.0))
    assert told(elsewhere.tell(LinkUp(HOME))) == [(attempt(1), True)]


def test_one_that_has_the_whole_machine_is_measured_by_what_it_asked_for():
    node = running(cpus=1, exclusive=True)
    node.wait(SLICE_S)
    assert told(node.tell(sampled(0.7))) == [(attempt(1), True)]


def test_nothing_is_told_of_tasks_outside():
    node = LoneNode()
    node.run(1)
    begin(node)
    node.wait(SLICE_S)
    assert told(node.tell(sampled(0.0))) == []


def test_a_daemon_that_comes_back_measures_anew_once_it_knows_the_task():
    node = running()
    node.wait(SLICE_S)
    came = again(node, 1)
    assert told(came.tell(sampled(0.0))) == []
    came.run(1, inside(cpus=2))
    came.wait(SLICE_S)
    assert told(came.tell(sampled(0.0))) == [(attempt(1), False)]
