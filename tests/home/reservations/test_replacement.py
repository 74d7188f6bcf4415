"""A reservation that loses a node is degraded until another one has its place, or it is back."""

from __future__ import annotations

import pytest

from iriai.home.reservations.replacement import AGAIN_FIRST_S
from iriai.model.claim import Phase
from iriai.model.reason import Reason, Rule
from iriai.model.reservation import LOST_S, ReservationState
from iriai.protocol.messages.effects import LinkDown, LinkUp
from iriai.protocol.messages.reservations import Book, Booked, SeekNodes
from tests.home.reservations.test_modification import freed, modify, standing, unbooked
from tests.home.reserving import (
    DAY_S,
    ReservingHome,
    answers,
    confirmed,
    held,
    named,
    offer,
    refused,
    terms,
)
from tests.support.told import HOME, Told, only

HOUR = 3_600.0
DRAINED = Reason(Rule.DRAINED, "iriai resume b", "kim drained it: dust", "b")


def unable(machine: str, version: int = 1) -> Booked:
    return Booked(named(), version, machine, Phase.CONFIRMED, DRAINED)


def sought(said: Told) -> SeekNodes:
    return only(said.broker, SeekNodes)


def degraded(*machines: str, **changes) -> ReservingHome:
    """A home that has lost the last of these nodes of its reservation."""
    home = standing(*machines, **changes)
    home.tell(refused(machines[-1]))
    assert home.of().is_degraded
    return home


# --- which nodes are lost ------------------------------------------------------------------------


@pytest.mark.parametrize("said", [refused("b"), unable("b")])
def test_a_node_that_has_nothing_or_can_run_nothing_is_replaced(said):
    home = standing("a", "b")
    seek = sought(home.tell(said))
    assert (seek.version, seek.kept, seek.without) == (2, ("a",), ("b",))
    assert seek.terms == terms()
    assert home.of().missing == ("b",)


def test_a_node_that_is_away_for_long_is_replaced():
    home = standing("a", "b")
    home.tell(LinkDown("b"))
    home.wait(LOST_S - 1.0)
    assert not home.of().is_degraded
    assert sought(home.wait(1.0)).without == ("b",)
    assert home.of().missing == ("b",)


def test_a_node_that_is_back_in_time_is_not_replaced():
    home = standing("a", "b")
    home.tell(LinkDown("b"))
    home.wait(LOST_S - 1.0)
    home.tell(LinkUp("b"), confirmed("b"))
    home.wait(2.0)
    assert not home.of().is_degraded


def test_the_link_of_a_machine_without_a_reservation_is_of_no_interest():
    home = standing("a", "b")
    home.tell(LinkDown("c"))
    home.wait(LOST_S)
    assert not home.of().is_degraded


def test_a_home_that_comes_back_counts_from_then():
    home = standing("a", HOME)
    back = home.restarted(later_s=5.0)
    back.wait(LOST_S)
    assert back.of().missing == ("a",), "it reaches itself"


# --- another one in its place --------------------------------------------------------------------


def replaced(home: ReservingHome, *machines: str, version: int = 2) -> Told:
    """These hold and confirm the next version."""
    home.tell(offer(*machines, version=version))
    home.tell(*(held(each, version) for each in machines))
    return home.tell(*(confirmed(each, version) for each in machines))


def test_another_node_takes_its_place():
    home = degraded("a", "b")
    said = replaced(home, "a", "c")
    assert answers(said) == [], "nobody asked"
    assert (home.of().nodes, home.of().version, home.of().is_degraded) == (("a", "c"), 2, False)
    assert unbooked(home) == [("a", 0, 1), ("b", 0, 1)]
    home.tell(freed("a"))
    assert home.of().unanswered == ("a", "b"), "stored once all have"
    home.tell(LinkUp("b"))
    assert unbooked(home) == [("b", 0, 1)]
    home.tell(freed("b"))
    assert home.of().unanswered == ()


def test_it_is_sought_again_less_and_less_often():
    home = degraded("a", "b")
    home.tell(offer(version=2))
    assert (home.of().is_degraded, home.of().next, home.of().tried) == (True, None, 2)
    home.wait(AGAIN_FIRST_S - 1.0)
    assert home.of().next is None
    said = home.wait(1.0)
    assert sought(said).version == 3
    assert home.sent(Book) == ["b"], "it may be back"
    home.tell(offer(version=3))
    home.wait(AGAIN_FIRST_S)
    assert home.of().next is None
    assert sought(home.wait(AGAIN_FIRST_S)).version == 4


def test_a_node_that_refuses_frees_the_try_and_not_what_stands():
    home = degraded("a", "b")
    home.tell(offer("a", "c", version=2))
    home.tell(held("a", 2), refused("c", 2))
    assert unbooked(home) == [("a", 2, 2)]
    assert (home.of().nodes, home.of().version) == (("a", "b"), 1)


def test_one_that_is_back_stands_again():
    home = degraded("a", "b")
    home.tell(offer("a", "c", version=2))
    home.tell(confirmed("b"))
    assert not home.of().is_degraded
    assert unbooked(home) == [("a", 2, 2), ("c", 2, 2)]
    home.tell(freed("a", 2), freed("c", 2))
    home.wait(DAY_S / 48)
    assert (home.of().nodes, home.of().next) == (("a", "b"), None)


def test_one_that_is_back_after_the_decision_is_freed():
    home = degraded("a", "b")
    home.tell(offer("a", "c", version=2))
    home.tell(held("a", 2), held("c", 2))
    home.tell(confirmed("b"))
    home.tell(confirmed("a", 2), confirmed("c", 2))
    assert home.of().nodes == ("a", "c")
    assert ("b", 0, 1) in unbooked(home)


def test_one_that_is_open_is_replaced_too():
    home = standing("a", "b", start_s=0.0)
    home.wait(800.0)
    assert home.of().state is ReservationState.OPEN
    home.tell(refused("b"))
    home.tell(offer("a", "c", version=2))
    books = [each.message for each in home.effects if isinstance(getattr(each, "message", 0), Book)]
    assert all(each.is_later for each in books)
    home.tell(held("a", 2), held("c", 2))
    home.tell(confirmed("a", 2), confirmed("c", 2))
    assert (home.of().state, home.of().nodes) == (ReservationState.OPEN, ("a", "c"))


def test_a_reservation_that_is_almost_over_is_left_as_it_is():
    home = standing("a", "b", start_s=0.0, length_s=100.0)
    home.wait(50.0)
    said = home.tell(refused("b"))
    assert not [each for each in said.broker if isinstance(each, SeekNodes)]
    assert home.of().is_degraded


def test_what_a_user_asks_for_comes_before_a_replacement():
    home = degraded("a", "b")
    home.tell(offer("a", "c", version=2))
    said = modify(home)
    assert sought(said).version == 3
    assert sought(said).kept == ("a",)
    assert unbooked(home) == [("a", 2, 2), ("c", 2, 2)] * 2


def test_a_decided_replacement_comes_before_what_a_user_asks_for():
    home = degraded("a", "b")
    home.tell(offer("a", "c", version=2))
    home.tell(held("a", 2), held("c", 2))
    with pytest.raises(Exception, match="is being modified"):
        modify(home)


def test_a_home_that_comes_back_seeks_again():
    back = degraded("a", "b").restarted()
    assert back.of().is_degraded
    assert sought(back.first).kept == ("a",)


def test_a_machine_that_says_now_this_now_that_costs_no_more_seeking():
    home = degraded("a", "b")
    for _ in range(5):
        home.tell(confirmed("b"))
        assert not home.of().is_degraded
        said = home.tell(unable("b"))
        assert not [each for each in said.broker if isinstance(each, SeekNodes)]
    assert sought(home.wait(AGAIN_FIRST_S)).without == ("b",)
