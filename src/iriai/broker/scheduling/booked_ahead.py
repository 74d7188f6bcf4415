"""Why a task does not start on a machine where a reservation is in its way."""

from __future__ import annotations

from iriai.broker.machines.beside_bookings import EARLIER_S, is_beside
from iriai.broker.machines.machine_view import MachineView
from iriai.broker.queue.entries import TaskClass
from iriai.broker.state.reserved_heads import kept_for
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources, describe_amount
from iriai.policy.placement.bookings import BookedSpan


def ahead_of_task(
    view: MachineView, kind: TaskClass, now: Instant, ranks: int = 1
) -> Reason | None:
    """Return the reservation that keeps a task from starting on a machine; None: none does."""
    calendar, now_s = view.calendar, now.steady_s
    resources = kept_for(kind, view, ranks)
    kept = [each for each in calendar.bookings if each.is_open]
    if not resources.fits_in(calendar.free):
        left = calendar.free
        for each in kept:
            left = left.plus(calendar.left_in(each.reservation))
        if not kept or not resources.fits_in(left):
            return None  # it would not fit without them
        return _behind(kept[0], kind, view.name, now_s)
    if is_beside(calendar, kind.key, resources, now_s):
        return None
    lacks_s = now_s + calendar.fitting_s(resources, now_s)
    ahead = [each for each in calendar.bookings if not each.is_open and each.end_s > lacks_s]
    return _behind(ahead[0], kind, view.name, now_s) if ahead else None


def _behind(booked: BookedSpan, kind: TaskClass, machine: str, now_s: float) -> Reason:
    needed = f"resources that {booked.reservation} leaves"
    if not booked.is_open:
        needed = f"to end before {booked.reservation} starts, or {needed}"
        if kind.key.stay_s is None and kind.key.least_s is None:
            needed += " (it has no time limit)"
    return Reason(Rule.RESERVED_AHEAD, needed, when_words(booked, now_s), machine)


def when_words(booked: BookedSpan, now_s: float) -> str:
    """Return when a booking takes what."""
    had, left_s = resources_words(booked.resources), max(0.0, booked.end_s - now_s)
    if booked.is_open:
        return f"it has {had} for {left_s:.0f} s more"
    start_s = booked.start_s + EARLIER_S
    in_s = max(0.0, start_s - now_s)
    return f"it starts in {in_s:.0f} s, with {had}, for {booked.end_s - start_s:.0f} s"


def resources_words(resources: Resources) -> str:
    """Return an amount of resources, for people."""
    told = [describe_amount(name, amount) for name, amount in resources.amounts() if amount]
    return ", ".join(told) or "nothing"
