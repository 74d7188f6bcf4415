"""A reservation gets another version at all its nodes, or stays as it is (docs/spec/017, 4)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.model.claim import Phase
from iriai.model.problem import NotFound, Refused, UsageProblem
from iriai.model.reservation import TRIES_MAX, ReservationEnd, ReservationLimits, ReservationState
from iriai.protocol.messages.effects import LinkUp
from iriai.protocol.messages.reservations import Book, NotBooked, SeekNodes, Unbook
from tests.home.reservations.test_series import RepeatingHome, at
from tests.home.reserving import (
    DAY_S,
    ReservingHome,
    answers,
    confirmed,
    held,
    offer,
    refused,
    stored,
    terms,
)
from tests.support.told import WALL_S, Told, only

HOUR = 3_600.0
LONGER = terms(length_s=2 * HOUR)


def standing(*machines: str, **changes) -> ReservingHome:
    """A home with a reservation that these have confirmed."""
    home = ReservingHome()
    home.confirmed(*machines, **changes)
    return home


def modify(home: ReservingHome, wanted=LONGER) -> Told:
    return home.do(lambda its: its.reservations.modify(1, wanted, home.now))


def freed(machine: str, version: int = 1) -> NotBooked:
    return refused(machine, version)


def unbooked(home: ReservingHome) -> list[tuple[str, int, int]]:
    """Who was told in the last turn to free which versions."""
    sent = [each for each in home.effects if isinstance(getattr(each, "message", None), Unbook)]
    return [(each.machine, each.message.first, each.message.version) for each in sent]


# --- all nodes -----------------------------------------------------------------------------------


def test_nodes_keep_the_old_version_until_all_have_the_new_one():
    home = standing("a", "b")
    said = modify(home)
    seek = only(said.broker, SeekNodes)
    assert (seek.version, seek.kept, seek.terms) == (2, ("a", "b"), LONGER)
    home.tell(offer("a", "c", version=2))
    assert home.sent(Book) == ["a", "c"]
    assert home.of().nodes == ("a", "b")
    home.tell(held("a", 2), held("c", 2))
    assert home.of().next.state is ReservationState.DECIDING
    said = home.tell(confirmed("a", 2))
    assert (answers(said), unbooked(home)) == ([], [])
    said = home.tell(confirmed("c", 2))
    [answer] = answers(said)
    assert answer.is_confirmed
    assert answer.is_change
    assert unbooked(home) == [("a", 0, 1), ("b", 0, 1)]
    [*_, last] = stored(said)
    assert (last.version, last.nodes, last.terms) == (2, ("a", "c"), LONGER)
    assert last.unanswered == ("a", "b")
    home.tell(freed("a"), freed("b"))
    assert home.of().unanswered == ()


def test_what_a_node_refuses_changes_nothing():
    home = standing("a")
    before = home.of()
    modify(home, replace(LONGER, nodes=1))
    for version in range(2, 2 + TRIES_MAX):
        machine = "bcde"[version - 2]
        home.tell(offer(machine, version=version))
        said = home.tell(refused(machine, version))
        home.wait(1.0)
    [answer] = answers(said)
    assert not answer.is_confirmed
    assert answer.is_change
    assert replace(home.of(), tried=0) == before
    assert home.of().tried == TRIES_MAX + 1


def test_what_the_broker_cannot_offer_changes_nothing():
    home = standing("a")
    modify(home, replace(LONGER, nodes=1))
    [answer] = answers(home.tell(offer(version=2, earliest_wall_s=WALL_S + DAY_S)))
    assert (answer.is_confirmed, answer.earliest_wall_s) == (False, WALL_S + DAY_S)
    assert home.of().terms.length_s == HOUR


def test_the_new_version_is_freed_where_it_was_held_and_the_old_one_is_not():
    home = standing("a", "b")
    modify(home)
    home.tell(offer("a", "c", version=2))
    home.tell(held("a", 2), refused("c", 2))
    assert unbooked(home) == [("a", 2, 2)]
    home.wait(1.0)
    [seek] = [e.message for e in home.effects if isinstance(getattr(e, "message", 0), SeekNodes)]
    assert (seek.version, seek.without) == (3, ("a", "c"))


def test_a_machine_that_has_freed_it_may_be_asked_again():
    home = standing("a", "b")
    modify(home)
    home.tell(offer("a", "c", version=2))
    home.tell(held("a", 2), refused("c", 2), freed("a", 2))
    home.wait(1.0)
    home.tell(offer("a", "d", version=3))
    assert home.sent(Book) == ["a", "d"]


def test_the_last_version_is_never_used_again():
    home = standing("a")
    modify(home, replace(LONGER, nodes=1))
    home.tell(offer(version=2))
    said = modify(home, replace(LONGER, nodes=1))
    assert only(said.broker, SeekNodes).version == 3


def test_one_modification_is_under_way_at_a_time():
    home = standing("a", "b")
    modify(home)
    with pytest.raises(Refused, match="is being modified"):
        modify(home)


# --- what cannot be ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (terms(start_s=-DAY_S), UsageProblem),
        (terms(length_s=30.0), UsageProblem),
        (terms(start_s=15 * DAY_S), Refused),
        (terms(nodes=5_000), UsageProblem),
    ],
)
def test_limits_are_checked_anew(wanted, problem):
    home = standing("a", "b")
    with pytest.raises(problem):
        modify(home, wanted)
    assert home.of().next is None


def test_one_that_is_open_keeps_its_start():
    home = standing("a", start_s=60.0, length_s=HOUR)
    home.wait(61.0)
    assert home.of().state is ReservationState.OPEN
    with pytest.raises(Refused, match="its start stays"):
        modify(home, terms(start_s=120.0, nodes=1))
    home.wait(60.0)
    with pytest.raises(UsageProblem, match="over already"):
        modify(home, terms(start_s=60.0, length_s=60.0, nodes=1))


def test_one_that_is_over_or_not_confirmed_is_not_modified():
    home = ReservingHome()
    home.ask()
    with pytest.raises(Refused, match="is not confirmed"):
        modify(home)
    home.cancel()
    with pytest.raises(Refused, match="is over"):
        modify(home)
    with pytest.raises(NotFound):
        home.home.reservations.modify(9, LONGER, home.now)


# --- what happens meanwhile ----------------------------------------------------------------------


def test_a_cancellation_frees_all_versions():
    home = standing("a", "b")
    modify(home)
    home.tell(offer("a", "c", version=2))
    said = home.cancel()
    [answer] = answers(said)
    assert not answer.is_confirmed
    assert unbooked(home) == [("a", 0, 2), ("b", 0, 2), ("c", 0, 2)]
    home.tell(*(freed(each, 2) for each in "abc"))
    assert (home.of().unanswered, home.of().next) == ((), None)


def test_it_opens_while_it_is_modified():
    home = standing("a", "b", start_s=5.0)
    modify(home, terms(start_s=5.0, length_s=2 * HOUR))
    home.tell(offer("a", "b", version=2))
    home.tell(held("a", 2))
    home.wait(5.0)
    assert home.of().state is ReservationState.OPEN
    assert home.of().next.version == 2


def test_one_that_moves_away_while_it_opens_is_refused():
    home = standing("a", start_s=1.0)
    modify(home, terms(start_s=HOUR, nodes=1))
    home.wait(1.0)
    [answer] = answers(home.tell(offer("a", version=2)))
    assert "start stays" in answer.reasons[0].had
    assert home.of().state is ReservationState.OPEN


def test_its_end_waits_for_a_longer_version_that_is_decided():
    home = standing("a", start_s=0.0, length_s=60.0)
    home.wait(55.0)
    modify(home, terms(start_s=0.0, length_s=120.0, nodes=1))
    home.tell(offer("a", version=2))
    home.tell(held("a", 2))
    home.wait(6.0)
    assert home.of().state is ReservationState.OPEN
    home.tell(confirmed("a", 2))
    assert (home.of().state, home.of().version) == (ReservationState.OPEN, 2)
    home.wait(60.0)
    assert home.of().end is ReservationEnd.ENDED


def test_a_decision_that_fails_lets_it_end():
    home = standing("a", start_s=0.0, length_s=60.0)
    home.wait(55.0)
    modify(home, terms(start_s=0.0, length_s=120.0, nodes=1))
    home.tell(offer("a", version=2))
    home.tell(held("a", 2))
    home.wait(6.0)
    home.tell(refused("a", 2))
    home.wait(1.0)
    home.tell(offer(version=3))
    home.wait(0.0)
    assert home.of().end is ReservationEnd.ENDED


# --- a home that comes back ----------------------------------------------------------------------


def test_a_home_that_comes_back_frees_an_undecided_version():
    home = standing("a", "b")
    modify(home)
    home.tell(offer("a", "c", version=2))
    back = home.restarted()
    assert back.of().nodes == ("a", "b")
    assert back.of().state is ReservationState.CONFIRMED
    assert unbooked(back) == [("a", 2, 2), ("c", 2, 2)]
    back.tell(freed("a", 2), freed("c", 2))
    assert (back.of().next, back.of().tried) == (None, 2)


def test_a_home_that_comes_back_goes_on_with_a_decided_version():
    home = standing("a", "b")
    modify(home)
    home.tell(offer("a", "c", version=2))
    home.tell(held("a", 2), held("c", 2))
    back = home.restarted()
    assert back.sent(Book) == ["a", "c"]
    said = back.tell(confirmed("a", 2), confirmed("c", 2))
    assert answers(said) == [], "whoever asked is gone"
    assert (back.of().version, back.of().nodes) == (2, ("a", "c"))


def test_what_a_machine_says_of_a_version_that_is_gone_is_freed():
    home = standing("a", "b")
    home.tell(held("c", 2))
    assert unbooked(home) == [("c", 2, 2)]
    modify(home)
    home.tell(offer("a", "b", version=2))
    home.tell(held("a", 2), held("b", 2))
    home.tell(confirmed("a", 2), confirmed("b", 2))
    home.tell(confirmed("c", 1))
    assert ("c", 0, 1) in unbooked(home)


def test_a_machine_that_is_back_is_told_all():
    home = standing("a", "b")
    modify(home)
    home.tell(offer("a", "b", version=2))
    home.tell(held("a", 2), held("b", 2))
    home.tell(LinkUp("a"))
    books = [each.message.booking for each in home.effects if hasattr(each.message, "booking")]
    assert [(each.version, each.phase) for each in books] == [
        (1, Phase.CONFIRMED),
        (2, Phase.CONFIRMED),
    ]


# --- occurrences of a series ---------------------------------------------------------------------


def one_of_a_series() -> RepeatingHome:
    home = RepeatingHome(limits=ReservationLimits(horizon_s=0.5 * DAY_S))
    home.every()
    home.agrees(1)
    return home


def test_an_occurrence_is_modified_and_its_series_is_not():
    home, number = one_of_a_series(), at(1)
    home.do(lambda its: its.reservations.modify(number, terms(length_s=60.0, nodes=1), home.now))
    home.tell(offer("b", version=2, number=number))
    home.tell(held("b", 2, number))
    home.tell(confirmed("b", 2, number))
    assert home.of(number).terms.length_s == 60.0
    with pytest.raises(Refused, match="is a series"):
        modify(home)


def test_an_undecided_change_of_an_occurrence_is_freed_after_a_restart_as_well():
    home, number = one_of_a_series(), at(1)
    home.do(lambda its: its.reservations.modify(number, terms(length_s=60.0, nodes=1), home.now))
    home.tell(offer("b", version=2, number=number))
    back = home.again()
    assert back.of(number).state is ReservationState.CONFIRMED
    assert unbooked(back) == [("b", 2, 2)]
