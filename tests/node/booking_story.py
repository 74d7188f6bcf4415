"""A node with bookings: the test plays homes and launcher, and sets the clock."""

from __future__ import annotations

from iriai.model.claim import HOLD_S, Phase
from iriai.model.ids import Account, AttemptId, ReservationId
from iriai.model.reason import Rule
from iriai.model.reservation import Booking
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendReason
from iriai.protocol.messages.effects import (
    AttemptFrozen,
    AttemptStarted,
    FreezeAttempt,
    LauncherAttached,
    Part,
    TerminateAttempt,
    Wake,
)
from iriai.protocol.messages.reservations import Book, Booked, NotBooked
from iriai.protocol.messages.scheduling import Refusal
from tests.node.lone_node import LoneNode
from tests.support.told import HOME, WALL_S, Told, attempt, only, spec

HOUR, DAY, GRACE_S = 3600.0, 86_400.0, 10.0
YAMA = "yama"
WAKE = Wake(Part.NODE)
ANN = Account("lab", "ann")


def named(number: int = 7, home: str = HOME) -> ReservationId:
    return ReservationId(home, number)


def booking(
    number: int = 7,
    start_s: float = HOUR,
    length_s: float = HOUR,
    *,
    cpus: int | None = None,
    version: int = 1,
    home: str = HOME,
    phase: Phase = Phase.HELD,
    **changes,
) -> Booking:
    """Of ann, from an hour after the beginning on, for an hour, and of the whole machine."""
    resources = None if cpus is None else Resources(cpus)
    start, end = WALL_S + start_s, WALL_S + start_s + length_s
    fields = {"user": "ann", **changes}
    its = (named(number, home), version, ANN, start, end, resources)
    return Booking(*its, phase=phase, **fields)


def hold(node: LoneNode, *args, hold_s: float = HOLD_S, **changes) -> Told:
    asked = booking(*args, **changes)
    return node.tell(Book(asked, hold_s, is_later=asked.version > 1))


def confirm(node: LoneNode, *args, **changes) -> Told:
    hold(node, *args, **changes)
    return hold(node, *args, phase=Phase.CONFIRMED, **changes)


def booked(*args, **changes) -> LoneNode:
    """A machine of four cpus with a booking that is confirmed."""
    node = LoneNode()
    said = confirm(node, *args, **changes)
    assert only(said.home, Booked).phase is Phase.CONFIRMED
    return node


def until(node: LoneNode, at_s: float) -> Told:
    """Its alarm rings then."""
    node.now_s = at_s
    return node.tell(WAKE)


def opened(*args, **changes) -> LoneNode:
    """The same, an hour later: it is open."""
    node = booked(*args, **changes)
    until(node, HOUR)
    return node


def again(node: LoneNode, *alive: int, **changes) -> LoneNode:
    """Its daemon is started again, and hears which tasks run."""
    kept = {"claims": node.node.claims(), "bookings": node.node.bookings.stored()}
    fields = {"incarnation": 2, "now_s": node.now_s, "attached": False, **kept, **changes}
    came = LoneNode(4, **fields)
    came.tell(LauncherAttached(tuple((attempt(number), WALL_S) for number in alive)))
    return came


def freeze(
    node: LoneNode, reason: SuspendReason, number: int = 1, *, is_given: bool = True
) -> Told:
    """A task is suspended, and its launcher says so."""
    node.node.suspend([attempt(number)], reason, node.instant(), is_given=is_given)
    [order] = [each for each in node.settle().others if isinstance(each, FreezeAttempt)]
    told = AttemptFrozen(attempt(number), order.number, order.reasons, 0.0, node.now_s)
    return node.tell(told)


def thaw(node: LoneNode, reason: SuspendReason, number: int = 1) -> Told:
    """It goes on, and its launcher says so."""
    return freeze(node, reason, number, is_given=False)


def refusal(said: Told) -> Rule:
    return only(said.home, Refusal).reason.rule


def not_booked(said: Told) -> Rule:
    return only(said.home, NotBooked).reason.rule


def inside(number: int = 1, *, user: str = "ann", **changes):
    return spec(user, reservation=named(), kill_grace_s=GRACE_S, **changes)


def begin(node: LoneNode, number: int = 1) -> None:
    node.tell(AttemptStarted(attempt(number), node.instant().wall_s))


def terminated(said: Told) -> list[tuple[AttemptId, EndCause]]:
    found = [each for each in said.others if isinstance(each, TerminateAttempt)]
    return [(each.attempt, each.cause) for each in found]
