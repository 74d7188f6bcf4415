"""News of reservations: stored with what happened, told once, and only if they are wanted."""

from iriai.home.reservations.news import with_news
from iriai.model.reservation_news import (
    UNTOLD_MAX,
    NewsWanted,
    Notification,
    ReservationNews,
)
from iriai.protocol.messages.effects import ReservationNewsDue
from iriai.protocol.messages.reservations import NodesOffered
from tests.home.reservations.test_series import BERLIN, DAILY, RepeatingHome, at
from tests.home.reserving import confirmed, held, named, offer, refused, terms

TELL = Notification("tell-me")
CONFIRMED, STARTED = ReservationNews.CONFIRMED, ReservationNews.STARTED
DEGRADED, NO_SHOW, REFUSED = (
    ReservationNews.DEGRADED,
    ReservationNews.NO_SHOW,
    ReservationNews.REFUSED,
)


class TellingHome(RepeatingHome):
    """A home whose users want to be told of their reservations."""

    def reserve(self, notification: Notification | None = TELL) -> None:
        asked = terms(nodes=1)
        self.do(lambda home: home.reservations.ask(asked, self.now, notification))
        self.tell(offer("b"))
        self.tell(held("b"))
        self.tell(confirmed("b"))

    def repeat(self) -> None:
        asked = terms(nodes=1)
        self.do(lambda home: home.reservations.ask_every(asked, DAILY, BERLIN, self.now, TELL))

    def untold(self, number: int = 1) -> list[ReservationNews]:
        notification = self.of(number).notification
        assert notification is not None
        return [each.news for each in notification.untold]

    @property
    def is_told(self) -> bool:
        """Whether the daemon was told in the last turn that there is something to tell."""
        return any(isinstance(each, ReservationNewsDue) for each in self.effects)


def test_a_user_is_told_at_confirm_start_and_no_show():
    home = TellingHome()
    home.reserve()
    assert home.untold() == [CONFIRMED]
    assert home.is_told
    home.wait(3_600.0)
    assert home.untold() == [CONFIRMED, STARTED]
    home.wait(901.0)
    home.wait(60.0)
    assert home.untold() == [CONFIRMED, STARTED, NO_SHOW]


def test_a_user_is_told_once_that_nodes_are_lacking():
    home = TellingHome()
    home.reserve()
    home.tell(refused("b"))
    home.tell(refused("b"))
    assert home.untold() == [CONFIRMED, DEGRADED]
    home.tell(confirmed("b"))
    home.tell(refused("b"))
    assert home.untold() == [CONFIRMED, DEGRADED, DEGRADED]


def test_a_user_is_told_of_occurrences_and_of_those_that_cannot_be_had():
    home = TellingHome()
    home.repeat()
    home.agrees(1)
    home.tell(NodesOffered(named(at(2)), 1, reasons=(refused("b").reason,)))
    assert (home.untold(at(1)), home.untold(at(2))) == ([CONFIRMED], [REFUSED])
    assert home.untold() == [], "the series itself has no news"


def test_who_wants_to_hear_of_what_went_wrong_hears_of_nothing_else():
    home = TellingHome()
    home.reserve(Notification("tell-me", NewsWanted.FAIL))
    assert home.untold() == []
    assert not home.is_told
    home.tell(refused("b"))
    assert home.untold() == [DEGRADED]


def test_who_wants_to_hear_nothing_is_told_nothing():
    home = TellingHome()
    home.reserve(None)
    assert home.of().notification is None
    assert not home.is_told


def test_what_was_told_is_forgotten_and_what_was_not_is_there_after_a_restart():
    home = TellingHome()
    home.reserve()
    home.wait(3_600.0)
    home.do(lambda each: each.reservations.told(1, 1))
    again = home.again()
    notification = again.home.reserved[1].notification
    assert notification is not None
    assert [(each.serial, each.news) for each in notification.untold] == [(2, STARTED)]
    again.do(lambda each: each.reservations.told(1, 2))
    again.do(lambda each: each.reservations.told(1, 2))
    again.do(lambda each: each.reservations.told(99, 2))
    assert again.home.reserved[1].notification == Notification("tell-me", serial=2)


def test_what_nobody_takes_is_bounded():
    notification = with_news(TELL, [DEGRADED] * 100)
    assert len(notification.untold) == UNTOLD_MAX
    assert notification.untold[-1].serial == notification.serial == 100
