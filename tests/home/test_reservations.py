"""All nodes of a reservation have it or none does, and only then its user is told."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest

from iriai.home.reservations import stored_reservations
from iriai.home.reservations.stored_reservations import KEPT_S
from iriai.machine.core import Machine
from iriai.model.claim import Phase
from iriai.model.ids import Account, ReservationId
from iriai.model.problem import NotFound, Problem, Refused, UsageProblem
from iriai.model.reason import Reason, Rule
from iriai.model.records import ReservationsDropped
from iriai.model.reservation import COUNT_MAX, ReservationEnd, ReservationState
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Delivered, LinkUp, Part, Send, Wake
from iriai.protocol.messages.reservations import Book, NodesOffered, SeekNodes, Unbook
from tests.home.reserving import (
    DAY_S,
    FULL,
    ReservingHome,
    answers,
    confirmed,
    held,
    named,
    offer,
    refused,
    states,
    stored,
    terms,
)
from tests.support.told import WALL_S, instant, only


@pytest.fixture
def home() -> ReservingHome:
    return ReservingHome()


# --- how it comes about ----------------------------------------------------------------------


def test_it_is_stored_and_the_broker_is_asked_before_anybody_is_answered(home):
    said = home.ask()
    assert states(said) == ["seeking"]
    assert said.broker == [SeekNodes(named(), 1, terms())]
    assert not answers(said)


def test_the_broker_is_asked_each_second_until_it_answers(home):
    home.ask()
    assert not home.wait(0.5).broker
    assert only(home.wait(0.5).broker, SeekNodes)
    assert only(home.wait(1.0).broker, SeekNodes)
    home.tell(offer("a", "b"))
    assert not home.wait(1.0).broker


def test_nodes_are_asked_to_hold_it_in_the_order_of_their_names(home):
    home.ask()
    said = home.tell(offer("b", "a"))
    assert stored(said)[0].nodes == ("a", "b"), "durable before they are asked"
    assert home.sent(Book) == ["a", "b"]
    [book, _] = said.node
    booking = book.booking
    assert (booking.reservation, booking.version, booking.phase) == (named(), 1, Phase.HELD)
    assert (booking.start_wall_s, booking.end_wall_s) == (WALL_S + 3_600, WALL_S + 7_200)


def test_a_decision_is_stored_before_nodes_confirm_and_the_user_is_told_last(home):
    home.ask()
    home.tell(offer("a", "b"))
    assert not home.tell(held("a")).records
    said = home.tell(held("b"))
    assert states(said) == ["deciding"]
    assert [each.booking.phase for each in said.node] == [Phase.CONFIRMED] * 2
    assert not answers(said)
    assert not answers(home.tell(confirmed("b")))
    said = home.tell(confirmed("a"))
    assert states(said) == ["confirmed"]
    [answer] = answers(said)
    assert (answer.number, answer.is_confirmed) == (1, True)


ANSWERS = [
    ("a", held),
    ("b", held),
    ("c", held),
    ("a", confirmed),
    ("b", confirmed),
    ("c", confirmed),
]


@pytest.mark.parametrize("order", [p for p in permutations(range(6)) if p[0] < 3][::17])
def test_in_whatever_order_nodes_answer_it_is_told_after_the_last(home, order):
    home.ask(nodes=3)
    home.tell(offer("a", "b", "c"))
    told = 0
    for place in order:
        machine, says = ANSWERS[place]
        told += len(answers(home.tell(says(machine))))
        is_decided = home.of().state is not ReservationState.SEEKING
        assert told == (home.of().state is ReservationState.CONFIRMED)
        assert is_decided or not home.sent(Unbook)
    for machine in "abc":
        told += len(answers(home.tell(confirmed(machine))))
    assert told == 1


def test_the_earliest_start_is_that_of_the_offer(home):
    home.ask(is_earliest=True)
    said = home.tell(offer("a", "b", start_wall_s=WALL_S + 9_000))
    booking = said.node[0].booking
    assert (booking.start_wall_s, booking.end_wall_s) == (WALL_S + 9_000, WALL_S + 12_600)
    assert home.of().terms.start_wall_s == WALL_S + 9_000


def test_without_that_the_start_of_an_offer_changes_nothing(home):
    home.ask()
    said = home.tell(offer("a", "b", start_wall_s=WALL_S + 9_000))
    assert said.node[0].booking.start_wall_s == WALL_S + 3_600


# --- how it is refused -----------------------------------------------------------------------


def test_without_machines_it_is_refused_with_reasons_and_the_earliest_start(home):
    home.ask()
    busy = Reason(Rule.MACHINE_BUSY, "2 machines", "1 has room")
    said = home.tell(NodesOffered(named(), 1, reasons=(busy,), earliest_wall_s=WALL_S + 9_000))
    [answer] = answers(said)
    assert not answer.is_confirmed
    assert (answer.reasons, answer.earliest_wall_s) == ((busy,), WALL_S + 9_000)
    assert home.of().end is ReservationEnd.REFUSED


def test_one_refusal_frees_all_and_it_seeks_again_without_that_machine(home):
    home.ask()
    home.tell(offer("a", "b"))
    home.tell(held("a"))
    said = home.tell(refused("b"))
    assert home.sent(Unbook) == ["a"]
    assert said.node == [Unbook(named(), 1)], "what the next try holds is not meant"
    assert (stored(said)[0].version, stored(said)[0].nodes) == (2, ())
    home.tell(refused("a"))
    said = home.wait(1.0)
    assert said.broker == [SeekNodes(named(), 2, terms(), ("b",))]
    home.tell(offer("a", "c", version=2))
    home.tell(held("a", 2), held("c", 2))
    assert answers(home.tell(confirmed("a", 2), confirmed("c", 2)))[0].is_confirmed


def test_a_machine_that_did_not_answer_is_not_sought_again_before_it_has_freed_it(home):
    home.ask()
    home.tell(offer("a", "b"))
    home.tell(held("a"))
    home.wait(9.0)
    assert home.sent(Unbook) == ["a", "b"]
    home.tell(refused("a"))
    assert home.wait(1.0).broker == [SeekNodes(named(), 2, terms(), ("b",))]
    assert not home.tell(offer("b", "c", version=2)).node, "it was not to be offered"
    home.tell(refused("b"))
    assert home.wait(1.0).broker == [SeekNodes(named(), 2, terms(), ())]


def test_after_the_count_of_the_hold_it_is_not_decided_any_more(home):
    home.ask()
    home.tell(offer("a", "b"))
    home.tell(held("a"))
    home.now_s += 9.0
    home.tell(held("b"))
    assert home.of().state is ReservationState.SEEKING
    assert home.of().unanswered == ("a", "b")


def test_it_is_sought_three_more_times_and_then_refused_with_the_last_reasons(home):
    home.ask(nodes=1)
    for version, machine in enumerate("abc", start=1):
        home.tell(offer(machine, version=version))
        assert not answers(home.tell(refused(machine, version)))
        home.wait(1.0)
    home.tell(offer("d", version=4))
    reason = Reason(Rule.MACHINE_BUSY, "the machine", "it has tasks", "d")
    [answer] = answers(home.tell(refused("d", 4, reason=reason)))
    assert answer.reasons == (reason,)
    assert home.of().end is ReservationEnd.REFUSED
    assert not home.wait(1.0).broker


def test_a_node_that_lost_its_hold_before_it_confirmed_frees_all(home):
    home.ask()
    home.tell(offer("a", "b"))
    home.tell(held("a"), held("b"))
    home.tell(confirmed("a"))
    home.tell(refused("b"))
    assert home.sent(Unbook) == ["a"]
    assert home.of().state is ReservationState.SEEKING


def test_a_node_that_does_not_confirm_keeps_the_others_for_a_minute_at_most(home):
    home.ask()
    home.tell(offer("a", "b"))
    home.tell(held("a"), held("b"))
    home.tell(confirmed("a"))
    home.wait(2.0)
    assert home.sent(Book) == ["b"], "it is asked again"
    home.wait(60.0)
    assert home.sent(Unbook) == ["a", "b"]


def test_offers_that_are_no_answer_are_ignored(home):
    home.ask()
    for wrong in (
        offer("a", "b", version=2),
        offer("a", "b", number=2),
        NodesOffered(ReservationId("take", 1), 1, ("a", "b")),
        offer("a"),
        offer("a", "a"),
        offer("a", "b", "c"),
    ):
        said = home.tell(wrong)
        assert (said.node, said.records) == ([], [])
    home.tell(offer("a", "b"))
    said = home.tell(offer("c", "d"))
    assert (said.node, said.records) == ([], []), "it came twice"


def test_the_broker_alone_offers_machines(home):
    home.ask()
    machine = Machine("ume", None, home.home, None, broker_at="front")
    for sender in ("stranger", "front"):
        machine.handle(Delivered(sender, Part.HOME, offer("a", "b")), home.now)
        sent = [each for each in machine.end_turn(home.now).outward if isinstance(each, Send)]
        asked = [each.machine for each in sent if isinstance(each.message, Book)]
        assert asked == ([] if sender == "stranger" else ["a", "b"])


def test_a_hold_of_a_stranger_does_not_count_and_is_freed(home):
    home.ask()
    home.tell(offer("a", "b"))
    home.tell(held("a"), held("z"))
    assert home.sent(Unbook) == ["z"]
    home.tell(held("b", version=2))
    assert home.of().state is ReservationState.SEEKING
    assert not home.tell(refused("z"), refused("b", version=2)).records


def test_what_an_earlier_try_left_behind_is_freed_when_it_is_heard_of(home):
    home.ask(nodes=1)
    home.tell(offer("a"))
    home.tell(refused("a"))
    home.wait(1.0)
    home.tell(offer("b", version=2))
    said = home.tell(held("a"))
    assert said.node == [Unbook(named(), 1)]
    home.tell(confirmed("z", number=9))
    assert home.sent(Unbook) == ["z"], "of a reservation that is not known either"


# --- restarts --------------------------------------------------------------------------------


def test_a_home_that_comes_back_frees_what_it_had_not_decided(home):
    home.ask()
    home.tell(offer("a", "b"))
    home.tell(held("a"))
    again = home.restarted()
    assert again.sent(Unbook) == ["a", "b"]
    assert again.of().end is ReservationEnd.REFUSED
    again.tell(refused("a"))
    once_more = again.restarted()
    assert set(once_more.sent(Unbook)) >= {"b"}
    once_more.tell(refused("a"), refused("b"))
    assert once_more.of().unanswered == ()


def test_a_home_that_comes_back_goes_on_with_what_it_had_decided(home):
    home.ask()
    home.tell(offer("a", "b"))
    home.tell(held("a"), held("b"))
    home.tell(confirmed("a"))
    again = home.restarted()
    assert again.sent(Book) == ["a", "b"]
    assert all(each.booking.phase is Phase.CONFIRMED for each in again.first.node)
    again.tell(confirmed("a"))
    assert states(again.tell(confirmed("b"))) == ["confirmed"]


def test_a_decision_whose_holds_ended_meanwhile_is_given_up_by_a_home_that_comes_back(home):
    home.ask()
    home.tell(offer("a", "b"))
    home.tell(held("a"), held("b"))
    again = home.restarted(later_s=60.0)
    again.tell(refused("a"))
    assert again.sent(Unbook) == ["b"]
    assert again.of().end is ReservationEnd.REFUSED


def test_a_home_that_comes_back_says_nothing_of_what_is_confirmed(home):
    home.confirmed("a", "b")
    again = home.restarted()
    assert not again.first.node
    assert again.of().state is ReservationState.CONFIRMED
    assert again.home.reservations.ask(terms(), again.now) == named(2)


# --- what time brings ------------------------------------------------------------------------


def test_it_opens_and_ends_by_the_wall_clock(home):
    home.confirmed("a", "b")
    assert states(home.wait(3_600.0)) == ["open"]
    said = home.wait(3_600.0)
    assert states(said) == ["over"]
    assert not said.node, "nodes end it by themselves"
    assert home.of().end is ReservationEnd.ENDED
    assert home.home.reservations.all() == []


def test_what_opened_and_ended_while_the_home_was_away_is_over(home):
    home.confirmed("a", "b")
    again = home.restarted(later_s=DAY_S)
    assert (again.of().state, again.of().end) == (ReservationState.OVER, ReservationEnd.ENDED)


def test_the_home_is_woken_for_its_start_and_looks_at_the_clock_before(home):
    home.confirmed("a", "b", start_s=1_000.0)
    home.now_s = 500.0
    home.tell(Wake(Part.HOME))
    in_s = home.home.reservations.next_s(home.now) - home.now_s
    assert in_s == pytest.approx(500.0)
    home.confirmed("c", "d", start_s=2 * DAY_S)
    home.now_s = 4_700.0
    home.tell()
    assert home.home.reservations.next_s(home.now) - home.now_s < 3_600.0


def test_what_was_sought_until_its_time_was_over_is_refused(home):
    home.ask(start_s=10.0, length_s=60.0)
    [answer] = answers(home.wait(71.0))
    assert not answer.is_confirmed
    assert home.of().end is ReservationEnd.REFUSED


def test_one_that_is_over_is_forgotten_after_thirty_days_and_its_number_is_not(home):
    home.confirmed("a", "b")
    home.wait(7_200.0)
    home.wait(KEPT_S - 1.0)
    assert len(home.home.reservations.all(over=True)) == 1
    assert home.wait(2.0).records == [ReservationsDropped((1,))]
    with pytest.raises(NotFound, match="ume-r1"):
        home.of()
    again = home.restarted()
    assert again.home.reservations.ask(terms(start_s=40 * DAY_S), again.now) == named(2)


def test_too_many_that_are_over_are_forgotten_earlier_unless_machines_have_to_free_them(
    home, monkeypatch
):
    monkeypatch.setattr(stored_reservations, "OVER_MAX", 2)
    home.confirmed("a", "b")
    home.cancel()  # its machines do not answer
    dropped = []
    for number in range(2, 12):
        records = home.ask(start_s=number * 3_600.0).records
        records += home.tell(offer(number=number)).records + home.tell().records
        dropped += [each for each in records if isinstance(each, ReservationsDropped)]
    numbers = [number for each in dropped for number in each.numbers]
    assert numbers == list(range(2, 2 + len(numbers)))
    kept = [each.number for each in home.home.reservations.all(over=True)]
    assert kept == [1, *range(2 + len(numbers), 12)]
    assert len(kept) == 2
    assert home.restarted().home.reservations.next_number == 12


# --- giving it back --------------------------------------------------------------------------


def test_a_cancelled_one_is_stored_as_over_and_its_nodes_are_told_until_they_answer(home):
    home.confirmed("a", "b")
    said = home.cancel()
    assert states(said) == ["over"]
    assert said.node == [Unbook(named(), 1)] * 2
    assert home.of().by == "ann"
    home.tell(refused("a"))
    home.wait(2.0)
    assert home.sent(Unbook) == ["b"]
    home.tell(LinkUp("b"))
    assert home.sent(Unbook) == ["b"]
    assert stored(home.tell(refused("b")))[0].unanswered == ()
    assert not home.wait(600.0).node


def test_the_pauses_between_two_of_these_words_grow(home):
    home.confirmed("a")
    home.cancel()
    heard = []
    for _ in range(300):
        home.wait(1.0)
        heard += [home.now_s] * bool(home.sent(Unbook))
    pauses = [after - before for before, after in pairwise(heard)]
    assert pauses == sorted(pauses)
    assert pauses[-1] >= 64.0


def test_a_home_that_comes_back_tells_them_again(home):
    home.confirmed("a", "b")
    home.cancel()
    assert home.restarted().sent(Unbook) == ["a", "b"]


def test_whoever_waits_for_one_that_is_cancelled_is_answered(home):
    home.ask()
    home.tell(offer("a", "b"))
    home.tell(held("a"))
    said = home.cancel()
    [answer] = answers(said)
    assert not answer.is_confirmed
    assert "ann cancelled it" in str(answer.reasons[0])
    assert home.sent(Unbook) == ["a", "b"]
    assert not home.tell(offer("c", "d")).node


def test_an_open_one_can_be_ended_and_others_cannot(home):
    home.confirmed("a", "b")
    with pytest.raises(Refused, match="it is confirmed"):
        home.end()
    home.wait(3_600.0)
    home.end()
    assert home.of().end is ReservationEnd.ENDED
    assert home.sent(Unbook) == ["a", "b"]
    for again in (home.end, home.cancel):
        with pytest.raises(Refused, match="ume-r1 is over: ended"):
            again()
    with pytest.raises(NotFound):
        home.cancel(2)


# --- degraded --------------------------------------------------------------------------------


def test_a_node_that_has_lost_it_is_missing_until_it_has_it_again(home):
    home.confirmed("a", "b")
    home.tell(LinkUp("b"))
    assert home.sent(Book) == ["b"]
    said = home.tell(refused("b"))
    assert stored(said)[0].missing == ("b",)
    assert home.of().state is ReservationState.CONFIRMED
    assert not home.tell(refused("b"), refused("c"), refused("a", version=9)).records
    assert home.restarted().of().missing == ("b",)
    assert stored(home.tell(confirmed("b")))[0].missing == ()


# --- what is refused at once -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        ({"length_s": 59.0}, UsageProblem, "1m00s to 31d00h"),
        ({"length_s": 32 * DAY_S}, UsageProblem, "1m00s to 31d00h"),
        ({"length_s": -60.0}, UsageProblem, "less than nothing"),
        ({"start_s": -7_200.0}, UsageProblem, "started 2h00m ago"),
        ({"start_s": -700.0}, UsageProblem, "started 11m40s ago"),
        ({"start_s": 14 * DAY_S + 1.0}, Refused, "14d00h ahead"),
        ({"nodes": 0}, UsageProblem, "1 to 4,096"),
        ({"nodes": 4_097}, UsageProblem, "1 to 4,096"),
        ({"hold_s": 0.0}, UsageProblem, "at most 600 s"),
        ({"hold_s": 601.0}, UsageProblem, "at most 600 s"),
        ({"resources": Resources(0)}, UsageProblem, "give nothing"),
    ],
)
def test_terms_that_can_never_be_met_are_refused_with_what_is_right(home, wrong, kind, words):
    with pytest.raises(Problem, match=words) as raised:
        home.ask(**wrong)
    assert type(raised.value) is kind
    assert raised.value.hint
    assert not home.home.reservations.all(over=True)


def test_an_offer_beyond_the_horizon_is_refused(home):
    home.ask(is_earliest=True)
    start_wall_s = WALL_S + 15 * DAY_S
    [answer] = answers(home.tell(offer("a", "b", start_wall_s=start_wall_s)))
    assert not answer.is_confirmed
    assert answer.earliest_wall_s == start_wall_s


def test_an_account_has_so_many_that_are_not_over_at_most(home):
    for _ in range(COUNT_MAX):
        home.ask()
    with pytest.raises(Refused, match=f"lab/ann may have at most {COUNT_MAX}"):
        home.ask()
    home.cancel(3)
    home.ask()


def test_a_user_of_nobody_s_list_may_not_use_it(home):
    home.confirmed("a", users=("bob",), group="guests")
    check = home.home.reservations.check_may_use
    check(named(), "bob", Account("lab", "bob"), instant(0.0))
    check(named(), "eve", Account("guests", "eve"), instant(0.0))
    with pytest.raises(Refused, match="not for eve") as raised:
        check(named(), "eve", Account("lab", "eve"), instant(0.0))
    assert raised.value.code == "not-reserved-for"
    with pytest.raises(Refused, match="--host take"):
        check(ReservationId("take", 1), "ann", Account("lab", "ann"), instant(0.0))


def test_a_refusal_of_all_nodes_frees_nobody(home):
    home.ask(nodes=1)
    home.tell(offer("a"))
    home.tell(refused("a"))
    assert not home.sent(Unbook)
    assert home.of().unanswered == ()


def test_reasons_of_one_answer_are_bounded(home):
    home.ask()
    said = home.tell(NodesOffered(named(), 1, reasons=(FULL,) * 500))
    assert len(answers(said)[0].reasons) == 64
