"""Intake of what machines tell of their bookings (docs/spec/017, section 3)."""

from __future__ import annotations

from iriai.broker.machines.beside_bookings import EARLIER_S
from iriai.broker.machines.machine_view import MachineView
from iriai.broker.state.state import BrokerState
from iriai.model.instant import Instant
from iriai.policy.placement.bookings import BookedSpan
from iriai.protocol.messages.reservations import BookedTime, BookedTimes


def take_bookings(
    state: BrokerState, view: MachineView, bookings: BookedTimes, now: Instant
) -> None:
    """Take all bookings of a machine: other tasks may start there, and where they are open."""
    view.calendar.set_bookings([_span(each, now.steady_s) for each in bookings])
    if state.index.booked.put(view) and state.queues.classes.reserved:
        state.queues.review()
    state.heads.changes += 1
    view.ended += 1  # others may have more room


def _span(booked: BookedTime, now_s: float) -> BookedSpan:
    start_s, end_s = now_s + booked.starts_in_s, now_s + booked.ends_in_s
    is_open = booked.left is not None
    if not is_open:
        start_s -= EARLIER_S
    of, resources, is_beside = booked.reservation, booked.resources, booked.is_beside
    is_open = is_open and not is_beside
    return BookedSpan(of, start_s, end_s, resources, is_open, booked.account, is_beside)
