"""Questions of homes for nodes, which a broker keeps until it can answer them."""

from __future__ import annotations

from iriai.broker.scheduling.booking_offers import SEEKS_MAX, SEEKS_OF_HOME_MAX
from iriai.model.ids import Account, ReservationId
from iriai.model.reservation import ReservationTerms
from iriai.protocol.messages.reservations import NodesOffered, SeekNodes
from tests.broker.lone_broker import LoneBroker
from tests.support.told import HOME, WALL_S


def seek(home: str, number: int) -> SeekNodes:
    terms = ReservationTerms(Account("lab", "ann"), "ann", WALL_S + 100.0, WALL_S + 200.0, 1)
    return SeekNodes(ReservationId(home, number), 1, terms)


def test_a_home_that_asks_without_end_leaves_room_for_others():
    many = [seek("kaki", number) for number in range(SEEKS_MAX)]
    said = LoneBroker().tell(*many, seek(HOME, 1))
    homes = [each.reservation.home for each in said.home if isinstance(each, NodesOffered)]
    assert homes == ["kaki"] * SEEKS_OF_HOME_MAX + [HOME]
