"""Series of reservations: each occurrence is one of its own, made when the horizon reaches it."""

from collections.abc import Iterator

import pytest

from iriai.home.reservations.occurrence import Occurrence
from iriai.model.ids import ReservationId, occurrence_number, parse_reservation_id
from iriai.model.problem import Refused, UsageProblem
from iriai.model.reservation import ReservationEnd, ReservationLimits, ReservationState
from iriai.protocol.messages.reservations import Book, NodesOffered, Unbook
from tests.home.reserving import (
    DAY_S,
    ReservingHome,
    answers,
    confirmed,
    held,
    named,
    offer,
    refused,
    states,
    terms,
)
from tests.support.told import HOME, WALL_S

BERLIN = "Europe/Berlin"
DAILY = "FREQ=DAILY"


def at(place: int, series: int = 1) -> int:
    """The number of an occurrence."""
    return occurrence_number(series, place)


class RepeatingHome(ReservingHome):
    """A home that series are asked of."""

    def every(self, rule: str = DAILY, zone: str = BERLIN, **changes):
        asked = terms(**{"nodes": 1, **changes})
        return self.do(lambda home: home.reservations.ask_every(asked, rule, zone, self.now))

    def agrees(self, place: int, machine: str = "b", series: int = 1) -> None:
        """Let a machine have an occurrence."""
        number = at(place, series)
        self.tell(offer(machine, number=number))
        self.tell(held(machine, number=number))
        self.tell(confirmed(machine, number=number))

    def made(self, series: int = 1) -> int:
        repetition = self.of(series).repetition
        assert repetition is not None
        return repetition.made

    def again(self, later_s: float = 0.0) -> "RepeatingHome":
        """The next process with the same store."""
        return RepeatingHome(self.store, self.now_s + later_s, self.home.limits)


def test_occurrences_are_made_one_after_the_other_as_far_as_the_horizon_reaches():
    home = RepeatingHome(limits=ReservationLimits(horizon_s=2.5 * DAY_S))
    [seek] = home.every().broker
    assert str(seek.reservation) == f"{HOME}-r1.1"
    assert seek.terms.start_wall_s == WALL_S + 3_600.0
    home.agrees(1)
    home.agrees(2)
    home.agrees(3)
    assert home.made() == 3, "the fourth begins beyond the horizon"
    starts = [home.of(at(place)).terms.start_wall_s for place in (1, 2, 3)]
    assert starts == [WALL_S + 3_600.0 + day * DAY_S for day in range(3)]
    assert home.of().state is ReservationState.REPEATING
    home.wait(0.6 * DAY_S)
    assert home.made() == 4
    home.agrees(4)
    assert home.home.reservations.following(1, 2) == [
        WALL_S + 3_600.0 + day * DAY_S for day in (4, 5)
    ]


def test_the_home_wakes_for_the_next_occurrence_itself():
    home = RepeatingHome(limits=ReservationLimits(horizon_s=DAY_S))
    home.every()
    home.agrees(1)
    next_s = home.home.reservations.next_s(home.now)
    assert home.now_s < next_s <= home.now_s + 3_600.0


def test_the_answer_about_the_first_is_told_to_whoever_asked():
    home = RepeatingHome()
    home.every("FREQ=DAILY;COUNT=1")
    home.tell(offer("b", number=at(1)))
    home.tell(held("b", number=at(1)))
    [answer] = answers(home.tell(confirmed("b", number=at(1))))
    assert (answer.number, answer.is_confirmed) == (at(1), True)


def test_a_series_goes_on_after_an_occurrence_that_does_not_fit():
    home = RepeatingHome()
    home.every()
    reason = refused("b").reason
    home.tell(NodesOffered(named(at(1)), 1, reasons=(reason,)))
    first = home.of(at(1))
    assert (first.end, first.reasons) == (ReservationEnd.REFUSED, (reason,))
    assert home.made() == 2
    home.agrees(2)
    assert home.of(at(2)).state is ReservationState.CONFIRMED


def test_a_home_that_restarts_makes_no_occurrence_twice_and_forgets_none():
    home = RepeatingHome(limits=ReservationLimits(horizon_s=2.5 * DAY_S))
    home.every()
    home.agrees(1)
    again = home.again()
    assert again.made() == 2, "the second was sought when it died"
    [seek] = [each for each in again.first.broker if each.reservation == named(at(2))]
    assert seek.terms.start_wall_s == WALL_S + 3_600.0 + DAY_S
    again.agrees(2)
    assert again.of(at(2)).state is ReservationState.CONFIRMED
    assert again.of(at(1)).asked_wall_s == home.of(at(1)).asked_wall_s
    again.agrees(3)
    assert [str(named(each)) for each in again.home.reserved] == [
        *(f"{HOME}-r1", f"{HOME}-r1.1", f"{HOME}-r1.2", f"{HOME}-r1.3")
    ]


def test_a_home_that_died_while_machines_held_an_occurrence_asks_them_again():
    home = RepeatingHome()
    home.every("FREQ=DAILY;COUNT=1")
    home.tell(offer("b", number=at(1)))
    again = home.again()
    assert again.sent(Book) == ["b"]
    again.tell(held("b", number=at(1)))
    again.tell(confirmed("b", number=at(1)))
    assert again.of(at(1)).state is ReservationState.CONFIRMED


def test_a_series_is_over_when_its_last_occurrence_is():
    home = RepeatingHome()
    home.every("FREQ=DAILY;COUNT=2")
    home.agrees(1)
    home.agrees(2)
    assert home.of().state is ReservationState.REPEATING
    home.wait(1.5 * DAY_S)
    home.wait(0.0)
    series = home.of()
    assert (series.state, series.end, series.by) == (
        ReservationState.OVER,
        ReservationEnd.ENDED,
        "",
    )


def test_to_cancel_a_series_ends_its_occurrences_and_makes_no_more():
    home = RepeatingHome(limits=ReservationLimits(horizon_s=1.5 * DAY_S))
    home.every()
    home.agrees(1)
    home.agrees(2, "c")
    home.cancel()
    assert home.sent(Unbook) == ["b", "c"]
    assert [each.end for each in home.home.reserved.values()] == [ReservationEnd.CANCELLED] * 3
    home.wait(5 * DAY_S)
    assert len(home.home.reserved) == 3
    with pytest.raises(Refused, match="is over: cancelled"):
        home.cancel()


def test_to_cancel_an_occurrence_leaves_the_series_and_its_number_is_not_used_again():
    home = RepeatingHome(limits=ReservationLimits(horizon_s=1.5 * DAY_S))
    home.every()
    home.agrees(1)
    home.agrees(2)
    home.cancel(at(2))
    home.wait(DAY_S)
    home.agrees(3)
    assert home.of(at(2)).end is ReservationEnd.CANCELLED
    assert home.of(at(3)).state is ReservationState.CONFIRMED
    assert home.again().made() == 3


def test_what_was_missed_while_the_home_was_off_is_reported_and_the_rest_is_made():
    home = RepeatingHome(limits=ReservationLimits(horizon_s=0.5 * DAY_S))
    home.every()
    home.agrees(1)
    again = home.again(40 * DAY_S)
    again.wait(0.0)
    again.wait(0.0)
    missed = [again.of(at(place)) for place in range(2, 41)]
    assert all("would have started" in str(each.reasons[0]) for each in missed)
    assert again.of(at(41)).state is ReservationState.SEEKING


def left_out_twice(_rule: str, _zone: str, start_wall_s: float) -> Iterator[Occurrence]:
    """Of three occurrences the second has a time that is none."""
    for day in range(3):
        yield Occurrence(start_wall_s + day * DAY_S, "02:30 is left out" if day == 1 else "")


def test_an_occurrence_at_a_local_time_that_is_none_is_reported(monkeypatch):
    monkeypatch.setattr("iriai.home.reservations.recurrence.occurrences", left_out_twice)
    home = RepeatingHome()
    home.every()
    home.agrees(1)
    second = home.of(at(2))
    assert second.end is ReservationEnd.REFUSED
    assert "02:30 is left out" in str(second.reasons[0])
    home.agrees(3)
    assert home.of(at(3)).state is ReservationState.CONFIRMED


@pytest.mark.parametrize(
    ("rule", "zone", "message"),
    [
        ("FREQ=SECONDLY", BERLIN, "FREQ=SECONDLY is not one of"),
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", BERLIN, "never happens"),
        (DAILY, "Europe/Atlantis", "is not a time zone"),
        (DAILY, "../../etc/passwd", "is not a time zone"),
    ],
)
def test_what_can_never_be_repeated_is_refused_at_once(rule: str, zone: str, message: str):
    home = RepeatingHome()
    with pytest.raises(UsageProblem, match=message):
        home.every(rule, zone)
    assert home.home.reserved == {}


def test_a_series_counts_as_one_reservation_of_its_account():
    home = RepeatingHome(limits=ReservationLimits(count_max=2))
    home.every()
    for place in (1, 2, 3):
        home.agrees(place)
    assert home.ask().broker
    with pytest.raises(Refused, match="at most 2 reservations"):
        home.every()


def test_an_occurrence_is_modified_and_a_series_is_not():
    home = RepeatingHome(limits=ReservationLimits(horizon_s=DAY_S))
    home.every()
    home.agrees(1)
    longer = terms(nodes=1, length_s=7_200.0)
    with pytest.raises(Refused, match="is a series"):
        home.do(lambda each: each.reservations.modify(1, longer, home.now))
    [seek] = home.do(lambda each: each.reservations.modify(at(1), longer, home.now)).broker
    assert seek.reservation == named(at(1))


def test_nobody_submits_into_a_series_but_into_an_occurrence():
    home = RepeatingHome()
    home.every()
    home.agrees(1)
    with pytest.raises(Refused, match="is a series"):
        home.submit(reservation=named(1))
    home.submit(reservation=named(at(1)))
    home.wait(3_600.0)
    assert home.of(at(1)).state is ReservationState.OPEN


@pytest.mark.parametrize("text", ["ume-r7", "ume-r7.1", "ume-r7.999999", "ume-r123456789.3"])
def test_ids_are_read_as_they_are_written(text: str):
    assert str(parse_reservation_id(text)) == text


@pytest.mark.parametrize(
    "text", ["ume-r7.0", "ume-r7.", "ume-r7.03", "ume-r7.1000000", "ume-r1234567890", "ume-r7.3.1"]
)
def test_what_names_no_occurrence_is_no_id(text: str):
    with pytest.raises(UsageProblem, match="no id of a reservation"):
        parse_reservation_id(text)


def test_an_occurrence_of_the_highest_numbers_fits_into_a_message():
    assert ReservationId(HOME, at(999_999, 999_999_999)).number < 2**53
    assert states(RepeatingHome().every())[0] == "repeating"
