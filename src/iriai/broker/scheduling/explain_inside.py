"""Why a task of a reservation does not start in it."""

from __future__ import annotations

from iriai.broker.machines.beside_bookings import EARLIER_S
from iriai.broker.machines.machine_view import MachineView
from iriai.broker.queue.entries import QueuedJob, TaskClass
from iriai.broker.scheduling.booked_ahead import resources_words, when_words
from iriai.broker.scheduling.machine_reasons import (
    distance,
    one_per_machine,
    out_of_question,
    pool_full,
    starting,
    summary,
    why_unavailable,
)
from iriai.broker.state.booking_placement import booking_of, left_for
from iriai.broker.state.reserved_heads import kept_for
from iriai.broker.state.state import BrokerState
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.resources import describe_amount
from iriai.policy.placement.bookings import BookedSpan


def explain_inside(state: BrokerState, entry: QueuedJob, now: Instant) -> list[Reason]:
    """Return why a task does not start in its reservation; the main reason first."""
    kind, views = entry.kind, list(state.index.booked.of(entry.want.reservation))
    if not views:
        return [_not_open(state, entry, now)]
    cap = state.running_cap(entry)
    if not cap.allowed:
        return [cap.reason()]
    found = [_inside(state, entry, view, now) for view in views]
    is_matched = not kind.is_choosy or any(kind.may_run_on(view.name) for view in views)
    if is_matched and not state.placement.inside.could_hold(kind):
        when = when_words(_open_on(views[0], kind), now.steady_s)
        had = f"{entry.want.reservation} is not so large: {when}"
        shape = kind.key.shape.words() if kind.is_wide else resources_words(kind.key.resources)
        return [Reason(Rule.NOT_RESERVED, shape, had), *summary(found)]
    return summary(sorted(found, key=distance))


def _not_open(state: BrokerState, entry: QueuedJob, now: Instant) -> Reason:
    reservation = entry.want.reservation
    spans = [
        each
        for view in state.index.booked.machines.values()
        for each in view.calendar.bookings
        if each.reservation == reservation and not each.is_beside
    ]
    had = "no machine has told of it"
    if spans:
        in_s = max(0.0, min(each.start_s for each in spans) + EARLIER_S - now.steady_s)
        plural = "" if len(spans) == 1 else "s"
        had = f"it opens in {in_s:.0f} s, on {len(spans)} machine{plural}"
    return Reason(Rule.NOT_RESERVED, f"{reservation} to be open", had)


def _open_on(view: MachineView, kind: TaskClass) -> BookedSpan:
    booking = booking_of(view, kind)
    assert booking is not None, f"{view.name} has an open booking"
    return booking


def _inside(state: BrokerState, entry: QueuedJob, view: MachineView, now: Instant) -> list[Reason]:
    """Return why a task does not start in its reservation on one of its machines."""
    unavailable = why_unavailable(view, now)
    if unavailable is not None:
        return [unavailable]
    kind = entry.kind
    if kind.is_choosy and not kind.may_run_on(view.name):
        return out_of_question(state, entry, view)
    left = left_for(view, kind)
    lacking = kept_for(kind, view).lacking_in(left)
    if lacking:
        resource, needed, there = lacking[0]
        had = f"{describe_amount(resource, there)} left in {entry.want.reservation}"
        return [Reason(Rule.MACHINE_BUSY, describe_amount(resource, needed), had, view.name)]
    reasons = []
    booking, least_s = _open_on(view, kind), kind.key.least_s or 0.0
    if booking.end_s <= now.steady_s + least_s + EARLIER_S:
        longer = f"{entry.want.reservation} for more than {least_s + EARLIER_S:.0f} s"
        when = when_words(booking, now.steady_s)
        reasons.append(Reason(Rule.NOT_RESERVED, longer, when, view.name))
    if view.is_pool_full:
        reasons.append(pool_full(state, view))
    if kind.key.tenant in view.tenants:
        reasons.append(one_per_machine(kind.key.tenant, view))
    return reasons or [starting(view)]
