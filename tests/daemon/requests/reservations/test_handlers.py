"""Who reserves is told once it is decided; who may see and end what, and what others are told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from iriai.cluster.broker_questions import BrokerReply
from iriai.daemon.loop.pending import Pending
from iriai.daemon.loop.routes import Routes
from iriai.daemon.requests.reservations.handlers import ReservationHandlers
from iriai.home.reservations.modification import standing_problem
from iriai.identity.users.permissions import Caller
from iriai.model.ids import Account, ReservationId
from iriai.model.instant import Instant
from iriai.model.problem import NotAllowed, NotFound, Refused, UsageProblem
from iriai.model.reason import Reason, Rule
from iriai.model.reservation import (
    DEFAULT_LIMITS,
    Reservation,
    ReservationEnd,
    ReservationState,
    ReservationTerms,
)
from iriai.model.resources import Resources
from iriai.policy.placement.bookings import BookedSpan
from iriai.protocol.messages.effects import Part, ReservationAnswered
from iriai.reports.reservations import known_reservations
from iriai.system.passwd_cache import Person
from iriai.wire.exchange import Done
from iriai.wire.inquiries import NodeOffer
from iriai.wire.requests import Why
from iriai.wire.reservations import (
    AskReservations,
    EndReservation,
    ModifyReservation,
    ReservationRow,
    ReservationTable,
    Reserve,
)
from tests.support.handlers import CarriedOut, answer_of

NOW = Instant(500.0, 1_900_000_000.0)
HOUR_S = 3600.0
ANN, BOB, KIM = (
    Person(1001 + n, name, "lab", ("lab",)) for n, name in enumerate(["ann", "bob", "kim"])
)
EVERY = AskReservations()
ASKED = Reserve(NOW.wall_s + HOUR_S, NOW.wall_s + 2 * HOUR_S, 2, 4)


class Kept:
    """The reservations of a home, which decides when a test has it decide."""

    def __init__(self) -> None:
        self.all_of_them: dict[int, Reservation] = {}
        self.changes: list[tuple[str, int, str]] = []

    def ask(self, terms: ReservationTerms, now: Instant, _notification) -> ReservationId:
        number = len(self.all_of_them) + 1
        self.all_of_them[number] = Reservation(number, 1, terms, asked_wall_s=now.wall_s)
        return ReservationId("ume", number)

    def confirm(self, number: int, *nodes: str) -> None:
        kept = self.all_of_them[number]
        state = ReservationState.CONFIRMED
        self.all_of_them[number] = replace(kept, state=state, nodes=nodes)

    def get(self, number: int) -> Reservation:
        if number not in self.all_of_them:
            raise NotFound("no-such-reservation", f"there is no reservation ume-r{number}")
        return self.all_of_them[number]

    def all(self, *, over: bool = False) -> list[Reservation]:
        every = self.all_of_them.values()
        return [each for each in every if over or each.state is not ReservationState.OVER]

    def listed(self, now: Instant) -> list[Reservation]:
        return self.all()

    def check_stands(self, number: int, now: Instant) -> None:
        problem = standing_problem(ReservationId("ume", number), self.get(number))
        if problem is not None:
            raise problem

    def check_change(self, number: int, terms: ReservationTerms, now: Instant) -> None:
        self.changes.append(("check", number, str(terms.nodes)))

    def modify(self, number: int, terms: ReservationTerms, now: Instant) -> None:
        self.changes.append(("modify", number, str(terms.nodes)))
        self.wanted = terms

    def _over(self, how: str, number: int, by: str) -> Reservation:
        self.changes.append((how, number, by))
        kept = replace(self.get(number), state=ReservationState.OVER, end=ReservationEnd.CANCELLED)
        self.all_of_them[number] = kept
        return kept

    def cancel(self, number: int, by: str, now: Instant) -> Reservation:
        return self._over("cancel", number, by)

    def end(self, number: int, by: str, now: Instant) -> Reservation:
        return self._over("end", number, by)


class Daemon:
    """What the handlers are given, without a daemon."""

    def __init__(self, reply: BrokerReply[ReservationTable] | None = None) -> None:
        self.kept = Kept()
        self.routes = Routes()
        machine = SimpleNamespace(
            parts=(Part.HOME, Part.BROKER),
            home=SimpleNamespace(reservations=self.kept, limits=DEFAULT_LIMITS),
        )
        engine = SimpleNamespace(machine=machine, now=NOW, routes=self.routes)
        users = SimpleNamespace(
            check_may_run=lambda _: None,
            account=lambda person, group, account: Account(group or "lab", account or person.name),
            users_and_group=lambda names: (tuple(names), ""),
            groups_of=lambda _: ["lab"],
        )
        stored = Pending[None]()
        stored.resolve(None)
        durability = SimpleNamespace(check=lambda: None, stored=lambda: stored)
        self.answerers: dict[type, object] = {}
        inquirer = SimpleNamespace(answerers=self.answerers, ask=self._ask)
        self._reply = BrokerReply(ReservationTable(())) if reply is None else reply
        self._handlers = ReservationHandlers("ume", engine, users, durability, inquirer)

    async def _ask(self, question, _kind):
        self.question = question
        return self._reply

    def _asked(self, person: Person, *, operator: bool = False):
        return SimpleNamespace(caller=Caller(person, operator), is_changing=False)

    def reserve(self, request: Reserve = ASKED, person: Person = ANN) -> CarriedOut:
        return CarriedOut(self._handlers._reserve(self._asked(person), request))

    def answered(self, number: int, **how) -> None:
        self.routes.tell(ReservationAnswered(number, **how))

    def look(self, request=EVERY, person: Person = ANN, *, operator: bool = False):
        return answer_of(self._handlers._all(self._asked(person, operator=operator), request))

    def modify(self, request: ModifyReservation, person: Person = ANN, *, operator: bool = False):
        return CarriedOut(self._handlers._modify(self._asked(person, operator=operator), request))

    def end(self, request: EndReservation, person: Person = ANN, *, operator: bool = False):
        return answer_of(self._handlers._end(self._asked(person, operator=operator), request))

    def confirmed(self, person: Person = ANN, **changed) -> int:
        """Have a reservation confirmed."""
        self.reserve(replace(ASKED, **changed), person)
        number = len(self.kept.all_of_them)
        self.kept.confirm(number, "n1", "n2")
        self.answered(number, is_confirmed=True)
        return number


def test_who_asks_is_answered_once_it_is_confirmed():
    daemon = Daemon()
    asked = daemon.reserve()
    assert not asked.is_over
    daemon.answered(2, is_confirmed=True)  # another one
    assert not asked.is_over
    daemon.kept.confirm(1, "n1", "n2")
    daemon.answered(1, is_confirmed=True)
    assert asked.answer.id == "ume-r1"
    assert asked.answer.nodes == ("n1", "n2")
    daemon.answered(1, is_confirmed=True)  # told twice


def test_a_refusal_has_the_reasons_and_the_earliest_start():
    daemon = Daemon()
    asked = daemon.reserve()
    reasons = [Reason(Rule.MACHINE_BUSY, "4 cpus", "2 cpus free", f"n{n}") for n in range(20)]
    daemon.answered(
        1, is_confirmed=False, reasons=tuple(reasons), earliest_wall_s=NOW.wall_s + 3 * HOUR_S
    )
    problem = asked.problem
    assert isinstance(problem, Refused)
    assert problem.code == "cannot-be-reserved"
    assert "on n0: needs 4 cpus; 2 cpus free" in problem.message
    assert "and 12 more" in problem.message
    assert "the earliest start is 20" in problem.hint
    assert "--earliest" in problem.hint


def test_a_refusal_without_reasons_says_so():
    daemon = Daemon()
    asked = daemon.reserve()
    daemon.answered(1, is_confirmed=False)
    assert "the nodes did not agree" in asked.problem.message
    assert "another time" in asked.problem.hint


def test_a_dry_run_keeps_nothing():
    daemon = Daemon(BrokerReply(NodeOffer()))
    request = replace(ASKED, dry_run=True, use_by=("bob",))
    asked = daemon.reserve(request)
    assert asked.answer.resources == {"cpus": 4}
    assert asked.answer.users == ("bob",)
    assert daemon.kept.all_of_them == {}


def test_a_dry_run_tells_what_the_broker_would_offer():
    later_s = ASKED.start_wall_s + HOUR_S
    for offer, start_s in (
        (NodeOffer(("n1", "n2"), later_s), later_s),
        (
            NodeOffer((), 0.0, (Why("machine-busy", "2 machines", "1"),), later_s),
            ASKED.start_wall_s,
        ),
    ):
        plan = Daemon(BrokerReply(offer)).reserve(replace(ASKED, dry_run=True)).answer
        assert (plan.nodes, plan.reasons) == (offer.machines, offer.reasons)
        assert (plan.start_wall_s, plan.end_wall_s) == (start_s, start_s + HOUR_S)
        assert plan.earliest_wall_s == offer.earliest_wall_s
        assert plan.note == ""


def test_a_dry_run_without_the_broker_says_so():
    daemon = Daemon(BrokerReply(missing="it did not answer"))
    plan = daemon.reserve(replace(ASKED, dry_run=True)).answer
    assert (plan.nodes, plan.note) == ((), "it did not answer")


def test_what_cannot_be_does_not_reach_the_home():
    daemon = Daemon()
    assert isinstance(daemon.reserve(replace(ASKED, nodes=0)).problem, UsageProblem)
    assert daemon.kept.all_of_them == {}


# --- looking -------------------------------------------------------------------------------------


def test_its_user_those_for_whom_it_is_and_operators_see_all_of_it():
    daemon = Daemon()
    daemon.confirmed(use_by=("bob",))
    for person, operator in ((ANN, False), (BOB, False), (KIM, True)):
        (row,) = daemon.look(person=person, operator=operator).rows
        assert row.is_detailed
        assert (row.user, row.users, row.account) == ("ann", ("bob",), "lab/ann")
        assert row.resources == {"cpus": 4}
        assert row.is_usable is not operator


def test_others_see_when_and_where_it_is():
    daemon = Daemon()
    daemon.confirmed()
    (row,) = daemon.look(person=BOB).rows
    assert row == ReservationRow(
        "ume-r1", "confirmed", ASKED.start_wall_s, ASKED.end_wall_s, 2, ("n1", "n2")
    )


def test_those_that_are_over_are_told_on_request():
    daemon = Daemon()
    number = daemon.confirmed()
    daemon.end(EndReservation("ume-r1"))
    assert daemon.look().rows == ()
    (row,) = daemon.look(AskReservations(over=True)).rows
    assert (row.id, row.cause, row.is_usable) == (f"ume-r{number}", "cancelled", False)
    assert daemon.look(AskReservations(id="ume-r1")).rows == (row,)


def test_the_broker_adds_those_of_other_homes():
    start_s = NOW.wall_s + 60
    of_momo = ReservationRow("momo-r3", "reserved", start_s, start_s + 60, 1, ("n9",))
    stale = ReservationRow("ume-r1", "reserved", start_s, start_s + 60, 1, ("n9",))
    daemon = Daemon(BrokerReply(ReservationTable((of_momo, stale))))
    daemon.confirmed()
    assert [row.id for row in daemon.look().rows] == ["momo-r3", "ume-r1"]
    assert daemon.look().rows[1].state == "confirmed"
    assert daemon.look(AskReservations(id="momo-r3")).rows == (of_momo,)


def test_without_the_broker_those_of_the_home_are_told_with_a_note():
    daemon = Daemon(BrokerReply(missing="it did not answer"))
    daemon.confirmed()
    table = daemon.look()
    assert [row.id for row in table.rows] == ["ume-r1"]
    assert "it did not answer" in table.note
    with pytest.raises(NotFound) as missing:
        daemon.look(AskReservations(id="momo-r1"))
    assert "it did not answer" in missing.value.hint


@pytest.mark.parametrize("text", ["ume-r9", "momo-r9"])
def test_one_that_is_not_there_is_not_found(text):
    with pytest.raises(NotFound):
        Daemon().look(AskReservations(id=text))


@pytest.mark.parametrize("text", ["ume-9", "what?", "ume-r9 "])
def test_what_is_no_id_is_refused(text):
    with pytest.raises(UsageProblem):
        Daemon().look(AskReservations(id=text))
    with pytest.raises(UsageProblem):
        Daemon().end(EndReservation(text))


# --- giving back ---------------------------------------------------------------------------------


def test_its_user_and_operators_give_it_back():
    daemon = Daemon()
    for number, (person, operator) in enumerate(((ANN, False), (KIM, True)), start=1):
        daemon.confirmed()
        assert daemon.end(EndReservation(f"ume-r{number}"), person, operator=operator) == Done()
    daemon.confirmed()
    daemon.end(EndReservation("ume-r3", is_open_only=True))
    assert daemon.kept.changes == [("cancel", 1, "ann"), ("cancel", 2, "kim"), ("end", 3, "ann")]


def test_those_for_whom_it_is_do_not():
    daemon = Daemon()
    daemon.confirmed(use_by=("bob",))
    for person in (BOB, KIM):
        with pytest.raises(NotAllowed, match="belongs to ann"):
            daemon.end(EndReservation("ume-r1"), person)
    assert daemon.kept.changes == []


def test_that_of_another_home_is_not_found_here():
    with pytest.raises(NotFound, match="not a reservation of this home"):
        Daemon().end(EndReservation("momo-r1"))
    with pytest.raises(NotFound):
        Daemon().end(EndReservation("ume-r5"))


# --- what the broker knows -----------------------------------------------------------------------


def test_the_broker_tells_when_and_where_by_its_calendars():
    whole = Resources(8)
    later = BookedSpan(ReservationId("momo", 3), 600.0, 4200.0, whole)
    is_open = BookedSpan(ReservationId("momo", 2), 400.0, 550.0, whole, is_open=True)
    views = {
        "n2": SimpleNamespace(name="n2", calendar=SimpleNamespace(bookings=(is_open, later))),
        "n1": SimpleNamespace(name="n1", calendar=SimpleNamespace(bookings=(later,))),
    }
    broker = SimpleNamespace(state=SimpleNamespace(machines=views))
    machine = SimpleNamespace(parts=(Part.BROKER,), broker=broker)
    start_s = NOW.wall_s - NOW.steady_s
    assert known_reservations(machine, NOW).rows == (
        ReservationRow("momo-r2", "open", start_s + 400, start_s + 550, 1, ("n2",)),
        ReservationRow("momo-r3", "reserved", start_s + 600, start_s + 4200, 2, ("n1", "n2")),
    )
    machine.parts = (Part.HOME,)
    assert known_reservations(machine, NOW).rows == ()


# --- changes -------------------------------------------------------------------------------------

WIDER = ModifyReservation("ume-r1", nodes=3)


def test_who_changes_one_is_answered_once_all_nodes_have_it():
    daemon = Daemon()
    daemon.confirmed()
    asked = daemon.modify(WIDER)
    assert not asked.is_over
    assert daemon.kept.changes == [("modify", 1, "3")]
    daemon.answered(1, is_confirmed=True, is_change=True)
    assert asked.answer.id == "ume-r1"


@pytest.mark.parametrize("earliest_s", [None, NOW.wall_s + 3 * HOUR_S])
def test_a_change_that_cannot_be_had_says_that_it_stays(earliest_s):
    daemon = Daemon()
    daemon.confirmed()
    asked = daemon.modify(WIDER)
    told = {"is_confirmed": False, "earliest_wall_s": earliest_s, "is_change": True}
    daemon.answered(1, **told)
    assert asked.problem.code == "cannot-be-reserved"
    assert "it stays as it was" in asked.problem.hint
    assert "--earliest" not in asked.problem.hint


def test_only_its_user_and_operators_change_it():
    daemon = Daemon()
    daemon.confirmed()
    assert isinstance(daemon.modify(WIDER, BOB).problem, NotAllowed)
    assert daemon.kept.changes == []
    assert not daemon.modify(WIDER, BOB, operator=True).is_over


def test_a_dry_run_of_a_change_asks_the_broker_beside_what_it_has():
    offer = NodeOffer(("n1", "n2", "n3"), NOW.wall_s + HOUR_S)
    daemon = Daemon(BrokerReply(offer))
    daemon.confirmed()
    plan = daemon.modify(replace(WIDER, dry_run=True)).answer
    assert (plan.nodes, plan.node_count) == (("n1", "n2", "n3"), 3)
    question = daemon.question
    assert (question.reservation, question.kept) == (ReservationId("ume", 1), ("n1", "n2"))
    assert daemon.kept.changes == [("check", 1, "3")]


@pytest.mark.parametrize("change", [WIDER, replace(WIDER, nodes=2), replace(WIDER, nodes=None)])
def test_of_one_that_is_over_that_is_said_whatever_would_change(change):
    daemon = Daemon()
    daemon.confirmed()
    daemon.kept.cancel(1, "ann", NOW)
    for asked in (change, replace(change, dry_run=True)):
        problem = daemon.modify(asked).problem
        assert (problem.code, "is over: cancelled" in problem.message) == ("reservation-over", True)


def test_one_that_is_so_already_says_that():
    daemon = Daemon()
    daemon.confirmed()
    assert daemon.modify(replace(WIDER, nodes=2)).problem.code == "nothing-changed"


@pytest.mark.parametrize("name", ["ume-7", "momo-r1", "ume-r9"])
def test_what_is_not_here_is_not_changed(name):
    assert isinstance(Daemon().modify(replace(WIDER, id=name)).problem, NotFound | UsageProblem)
