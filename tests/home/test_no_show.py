"""A reservation that no task uses in time is given back, and what waits for it is told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.home.reservations.home_reservations import NO_SHOW_LOOK_S
from iriai.home.reservations.use_inside import TOLD_S
from iriai.model.claim import Phase
from iriai.model.problem import Refused
from iriai.model.ranks import RankShape
from iriai.model.reason import Reason, Rule
from iriai.model.records import ReservationOver
from iriai.model.reservation import (
    NO_SHOW_S,
    ReservationEnd,
    ReservationLimits,
    ReservationState,
)
from iriai.model.usage import Usage
from iriai.protocol.messages.effects import Persist, Send
from iriai.protocol.messages.reservations import Unbook
from iriai.protocol.messages.scheduling import (
    Accepted,
    Begun,
    Capability,
    End,
    Match,
    Refusal,
    SeatOffer,
    Want,
)
from tests.home.lone_home import changes, end, match
from tests.home.reserving import ReservingHome, named, refused, states, stored
from tests.support.told import HOME, WALL_S, attempt, job, only

HOUR_S = 3_600.0


@pytest.fixture
def home() -> ReservingHome:
    """With a reservation of ann's that has just opened, for an hour."""
    home = ReservingHome()
    home.confirmed("a", "b", HOME)
    home.wait(HOUR_S)
    return home


def begun(index: int = 0, at_s: float = HOUR_S, *, is_used: bool | None = None) -> Begun:
    """A task has started, and was measured or not."""
    return Begun(attempt(1, index), HOME, WALL_S + at_s, is_used)


def idle_end(index: int = 0) -> End:
    """A task that slept for five seconds has ended."""
    result = end(attempt(1, index)).result
    return End(replace(result, usage=Usage(0.04)))


def ended(home: ReservingHome) -> ReservationEnd | None:
    return home.of().end


def test_it_is_stored_as_over_before_its_nodes_are_told(home):
    assert not home.wait(NO_SHOW_S - 1.0).records
    said = home.wait(1.0)
    assert states(said) == ["over"]
    assert ended(home) is ReservationEnd.NO_SHOW
    assert not home.of().by
    assert home.sent(Unbook) == ["a", "b", HOME]
    kinds = [type(each) for each in home.effects if isinstance(each, (Persist, Send))]
    assert kinds[0] is Persist


def test_its_nodes_are_told_until_they_answer(home):
    home.wait(NO_SHOW_S)
    home.tell(refused("a"))
    home.wait(2.0)
    assert home.sent(Unbook) == ["b", HOME]


def test_a_task_that_has_used_it_keeps_it_though_it_is_over(home):
    home.submit(reservation=named())
    home.tell(match())
    assert not stored(home.tell(begun()))
    said = home.tell(end(attempt(1)))
    assert [each.is_used for each in stored(said)] == [True]
    home.wait(NO_SHOW_S)
    assert home.of().state is ReservationState.OPEN
    home.wait(HOUR_S - NO_SHOW_S)
    assert ended(home) is ReservationEnd.ENDED


def test_the_end_of_a_short_task_tells_its_use(home):
    home.submit(reservation=named())
    home.tell(match())
    assert stored(home.tell(end(attempt(1))))[0].is_used


def test_it_is_stored_once_that_a_task_has_used_it(home):
    home.submit(reservation=named(), array=((0, 1, 1),))
    home.tell(match())
    assert [each.is_used for each in stored(home.tell(begun(is_used=True)))] == [True]
    assert not stored(home.tell(begun(is_used=True)))
    home.tell(match())
    assert not stored(home.tell(begun(1, is_used=True)))


def test_a_task_outside_keeps_nothing(home):
    home.submit()
    home.tell(match(), begun(is_used=True))
    home.wait(NO_SHOW_S)
    assert ended(home) is ReservationEnd.NO_SHOW


def test_what_waits_for_it_is_cancelled_with_the_reason(home):
    home.submit(reservation=named())
    said = home.wait(NO_SHOW_S)
    [over] = [each for each in changes(said) if isinstance(each, ReservationOver)]
    assert over == ReservationOver(named(), ReservationEnd.NO_SHOW)
    assert not home.home.jobs


def test_or_waits_on_without_it(home):
    home.submit(reservation=named(), or_queue=True)
    said = home.wait(NO_SHOW_S)
    assert only(said.broker, Want).reservation is None


def test_a_task_that_has_a_claim_may_have_started(home):
    """Its machine may have been out of reach since: the home looks again until it knows."""
    home.submit(reservation=named())
    home.tell(match())
    home.wait(NO_SHOW_S)
    assert home.of().state is ReservationState.OPEN
    home.wait(NO_SHOW_LOOK_S)
    assert home.of().state is ReservationState.OPEN
    home.tell(Refusal(attempt(1), Reason(Rule.MACHINE_BUSY, "a cpu", "none", HOME)))
    home.wait(NO_SHOW_LOOK_S)
    assert ended(home) is ReservationEnd.NO_SHOW


def test_a_task_that_idles_keeps_nothing(home):
    home.submit(reservation=named())
    home.tell(match(), begun())
    home.wait(NO_SHOW_S - 10.0)
    home.tell(begun(is_used=False))
    home.wait(10.0)
    assert ended(home) is ReservationEnd.NO_SHOW
    assert home.sent(Unbook) == ["a", "b", HOME]
    assert all(each.message.is_no_show for each in home.effects if is_unbook(each))


def is_unbook(effect) -> bool:
    return isinstance(effect, Send) and isinstance(effect.message, Unbook)


def test_nor_one_that_idled_until_its_end(home):
    home.submit(reservation=named())
    home.tell(match(), begun())
    assert not stored(home.tell(idle_end()))
    home.wait(NO_SHOW_S)
    assert ended(home) is ReservationEnd.NO_SHOW


def test_what_idled_and_works_at_last_has_used_it(home):
    home.submit(reservation=named())
    home.tell(match(), begun(), begun(is_used=False))
    home.tell(begun(is_used=True))
    home.wait(NO_SHOW_S)
    assert home.of().state is ReservationState.OPEN


def test_one_that_was_not_measured_yet_may_use_it(home):
    home.submit(reservation=named())
    home.tell(match(), begun(at_s=HOUR_S + NO_SHOW_S - 1.0))
    home.wait(NO_SHOW_S)
    home.wait(NO_SHOW_LOOK_S)
    assert home.of().state is ReservationState.OPEN
    home.tell(begun(is_used=False))
    home.wait(NO_SHOW_LOOK_S)
    assert ended(home) is ReservationEnd.NO_SHOW


def test_a_word_that_is_older_than_a_measurement_does_not_count(home):
    """Its machine may be out of reach, and have seen more since."""
    home.submit(reservation=named())
    home.tell(match(), begun())
    home.wait(NO_SHOW_S - TOLD_S - 1.0)
    home.tell(begun(is_used=False))
    home.wait(TOLD_S + 1.0)
    assert home.of().state is ReservationState.OPEN


def test_tasks_that_start_later_do_not_put_it_off(home):
    """Or short ones that sleep, one after the other, would for ever."""
    home.submit(reservation=named(), array=((0, 1, 1),))
    home.tell(match(), begun())
    home.wait(NO_SHOW_S)
    home.tell(idle_end())
    home.tell(match(), begun(1, at_s=HOUR_S + NO_SHOW_S + 1.0))
    home.wait(NO_SHOW_LOOK_S)
    assert ended(home) is ReservationEnd.NO_SHOW


def test_all_seats_of_a_task_idle_or_it_may_use_it(home):
    home.submit(reservation=named(), shape=RankShape(2, 2))
    home.tell(both_seats())
    asked = attempt(1)
    for phase in (Phase.HELD, Phase.CONFIRMED):
        home.tell(*(Accepted(asked.seat(rank), each, phase=phase) for rank, each in SEATS))
    first, second = (Begun(asked.seat(rank), each, WALL_S, False) for rank, each in SEATS)
    home.wait(NO_SHOW_S - 2.0)
    home.tell(first)
    home.wait(2.0)
    assert home.of().state is ReservationState.OPEN
    home.wait(NO_SHOW_LOOK_S - 2.0)
    home.tell(first, second)
    home.wait(2.0)
    assert ended(home) is ReservationEnd.NO_SHOW


SEATS = ((0, "a"), (1, "b"))


def both_seats() -> Match:
    offers = tuple(SeatOffer(each, Capability(1, 1, 1, 1), 1) for _, each in SEATS)
    return Match(job(1), offers, "broker")


def test_others_cost_no_more_than_what_they_kept(home):
    home.cancel()
    assert [each.message.is_no_show for each in home.effects if is_unbook(each)] == [False] * 3


def test_a_home_that_comes_back_knows_what_was_used(home):
    home.submit(reservation=named())
    home.tell(match(), begun())
    home.tell(end(attempt(1)))
    again = home.restarted(later_s=NO_SHOW_S)
    again.wait(NO_SHOW_LOOK_S)
    assert again.of().state is ReservationState.OPEN


def test_a_home_that_comes_back_waits_for_what_machines_tell(home):
    again = home.restarted(later_s=NO_SHOW_S)
    assert again.of().state is ReservationState.OPEN
    again.wait(NO_SHOW_LOOK_S)
    assert ended(again) is ReservationEnd.NO_SHOW
    assert again.sent(Unbook) == ["a", "b", HOME]


def test_a_home_that_slept_lets_tasks_start_first():
    home = ReservingHome()
    home.confirmed("a", "b", HOME)
    home.wait(HOUR_S + NO_SHOW_S + 1.0)
    assert home.of().state is ReservationState.OPEN
    home.wait(NO_SHOW_LOOK_S)
    assert ended(home) is ReservationEnd.NO_SHOW


def test_one_that_is_no_longer_than_that_is_kept():
    home = ReservingHome()
    home.confirmed("a", "b", length_s=NO_SHOW_S)
    home.wait(HOUR_S + NO_SHOW_S)
    assert ended(home) is ReservationEnd.ENDED


def test_without_a_bound_it_is_kept_to_its_end():
    home = ReservingHome(limits=ReservationLimits(no_show_s=None))
    home.confirmed("a", "b", HOME)
    home.wait(HOUR_S)
    home.wait(HOUR_S - 1.0)
    assert home.of().state is ReservationState.OPEN
    home.wait(1.0)
    assert ended(home) is ReservationEnd.ENDED


def test_one_that_was_not_used_takes_no_job_any_more(home):
    home.wait(NO_SHOW_S)
    with pytest.raises(Refused, match="ume-r1 is over: no-show"):
        home.submit(reservation=named())


def test_the_home_is_woken_for_it(home):
    in_s = home.home.reservations.next_s(home.now) - home.now_s
    assert in_s <= NO_SHOW_S
    home.wait(NO_SHOW_S - 100.0)
    in_s = home.home.reservations.next_s(home.now) - home.now_s
    assert in_s == pytest.approx(100.0)


def test_an_account_has_no_more_than_is_set():
    home = ReservingHome(limits=ReservationLimits(count_max=0))
    with pytest.raises(Refused, match="at most 0 reservations"):
        home.ask()


def test_nothing_is_reserved_beyond_the_horizon_that_is_set():
    home = ReservingHome(limits=ReservationLimits(horizon_s=1_800.0))
    with pytest.raises(Refused, match="at most 30m00s ahead"):
        home.ask()
    home.ask(start_s=1_700.0)
