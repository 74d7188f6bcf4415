"""Who asks for a series is told its id and what came of its first occurrence."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from iriai.cluster.broker_questions import BrokerReply
from iriai.home.core import Home
from iriai.model.claim import Phase
from iriai.model.ids import ReservationId, occurrence_number
from iriai.model.problem import Refused, UsageProblem
from iriai.model.reason import Reason, Rule
from iriai.protocol.messages.effects import ReservationAnswered
from iriai.protocol.messages.reservations import Booked, NodesOffered
from iriai.wire.inquiries import NodeOffer
from iriai.wire.reservations import AskReservations, EndReservation, ReservationTable
from tests.daemon.requests.reservations.test_handlers import (
    ANN,
    ASKED,
    BOB,
    HOUR_S,
    NOW,
    Daemon,
)

DAILY = replace(ASKED, nodes=1, every="daily", zone="Europe/Berlin")
DAY_S = 24 * HOUR_S
FULL = Reason(Rule.MACHINE_BUSY, "a machine", "there is none")


class RepeatingDaemon(Daemon):
    """It has a home whose nodes and broker the test plays."""

    def __init__(self, reply=None) -> None:
        super().__init__(reply)
        self.home = Home("ume", 1, [])
        self._handlers._engine.machine.home = self.home

    def tell(self, message) -> None:
        for effect in [*self.home.handle(message, NOW), *self.home.end_turn(NOW)]:
            if isinstance(effect, ReservationAnswered):
                self.routes.tell(effect)

    def agrees(self, place: int, series: int = 1) -> None:
        """Let a machine have an occurrence."""
        named = ReservationId("ume", occurrence_number(series, place))
        self.tell(NodesOffered(named, 1, ("n1",)))
        for phase in (Phase.HELD, Phase.CONFIRMED):
            self.tell(Booked(named, 1, "n1", phase))


def test_the_answer_comes_once_the_first_occurrence_is_decided():
    daemon = RepeatingDaemon()
    asked = daemon.reserve(DAILY)
    assert not asked.is_over
    daemon.agrees(1)
    told = asked.answer
    assert (told.id, told.rule, told.zone) == ("ume-r1", "FREQ=DAILY", "Europe/Berlin")
    assert (told.first, told.nodes, told.reasons) == ("ume-r1.1", ("n1",), ())
    assert told.start_wall_s == ASKED.start_wall_s


def test_a_first_occurrence_that_cannot_be_had_is_told_and_the_series_is():
    daemon = RepeatingDaemon()
    asked = daemon.reserve(DAILY)
    first = ReservationId("ume", occurrence_number(1, 1))
    daemon.tell(NodesOffered(first, 1, reasons=(FULL,)))
    assert (asked.answer.first, asked.answer.nodes) == ("ume-r1.1", ())
    assert asked.answer.reasons[0].had == "there is none"
    listed = {row.id: (row.state, row.cause) for row in daemon.look().rows}
    assert listed["ume-r1.1"] == ("over", "refused")
    assert listed["ume-r1"] == ("repeating", "")


def test_a_series_that_begins_beyond_the_horizon_is_answered_at_once():
    daemon = RepeatingDaemon()
    far = replace(
        DAILY,
        start_wall_s=ASKED.start_wall_s + 60 * DAY_S,
        end_wall_s=ASKED.end_wall_s + 60 * DAY_S,
    )
    assert daemon.reserve(far).answer.first == ""


def test_one_that_is_looked_at_has_its_rule_and_what_comes_next():
    daemon = RepeatingDaemon()
    daemon.reserve(DAILY)
    daemon.agrees(1)
    [row] = daemon.look(AskReservations(id="ume-r1")).rows
    assert (row.rule, row.zone) == ("FREQ=DAILY", "Europe/Berlin")
    assert row.following == tuple(ASKED.start_wall_s + day * DAY_S for day in range(2, 7))
    [row] = daemon.look(AskReservations(id="ume-r1.1")).rows
    assert (row.state, row.rule) == ("confirmed", "")
    [row] = daemon.look(AskReservations(id="ume-r1"), BOB).rows
    assert (row.rule, row.zone, row.following) == ("", "", ())


def test_the_series_or_one_occurrence_is_given_back_by_its_id():
    daemon = RepeatingDaemon()
    daemon.reserve(DAILY)
    daemon.agrees(1)
    daemon.agrees(2)
    daemon.end(EndReservation("ume-r1.2"))
    states = {each.id: each.state for each in daemon.look().rows}
    assert (states["ume-r1"], states["ume-r1.1"]) == ("repeating", "confirmed")
    assert "ume-r1.2" not in states
    daemon.end(EndReservation("ume-r1"))
    assert daemon.look().rows == ()
    with pytest.raises(Refused, match=r"ume-r1 is over: cancelled"):
        daemon.end(EndReservation("ume-r1"))


def test_a_dry_run_tells_the_first_occurrences_and_keeps_nothing():
    daemon = RepeatingDaemon(BrokerReply(NodeOffer(("n1",), ASKED.start_wall_s)))
    plan = daemon.reserve(replace(DAILY, every="weekdays", dry_run=True), ANN).answer
    assert plan.rule == "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"
    assert len(plan.following) == 4
    days = [datetime.fromtimestamp(each, UTC).weekday() for each in plan.following]
    assert max(days) < 5
    assert daemon.home.reserved == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"every": "FREQ=SECONDLY"}, "is not one of"),
        ({"every": "FREQ=DAILY;COUNT=1000000000"}, "is not 1 to 10,000"),
        ({"every": "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"}, "never happens"),
        ({"every": "X" * 1_000_000}, "too long"),
        ({"zone": ""}, "is not a time zone"),
        ({"zone": "/etc/passwd"}, "is not a time zone"),
        ({"zone": "Europe"}, "is not a time zone"),
        ({"zone": "\0" * 99}, "is not a time zone"),
        ({"zone": "x" * 1_000_000}, "is not a time zone"),
        ({"is_earliest": True}, "does not go with"),
        ({"start_wall_s": 1e17, "end_wall_s": 1e17}, "no such time"),
    ],
)
def test_what_cannot_be_repeated_is_refused_in_a_line(changes, message):
    daemon = RepeatingDaemon(BrokerReply(ReservationTable(())))
    for dry_run in (False, True):
        asked = daemon.reserve(replace(DAILY, dry_run=dry_run, **changes))
        assert isinstance(asked.problem, UsageProblem)
        assert message in str(asked.problem)
        assert len(str(asked.problem)) < 500
    assert daemon.home.reserved == {}
