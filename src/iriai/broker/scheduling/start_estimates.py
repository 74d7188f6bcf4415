"""Estimates of start times for listings, computed on request.

Waiting tasks are placed, in the order of the queue, where and when each fits first if runs take as
long as their accounts' mean run times; each may fill in as under conservative backfill. An estimate
is not a promise: later jobs, other draws and shorter runs change it. Smith, Foster, Taylor: "Using
run-time predictions to estimate queue wait times" (JSSPP 1999) is the same idea.
"""

from __future__ import annotations

from itertools import islice
from operator import itemgetter
from random import Random
from typing import NamedTuple

from iriai.broker.machines.machine_view import MachineView
from iriai.broker.queue.entries import QueuedJob
from iriai.broker.state.queue_order import in_order
from iriai.broker.state.reserved_heads import could_hold
from iriai.broker.state.state import BrokerState
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.policy.accounting.decay import ChargeRule
from iriai.policy.placement.availability_profile import AvailabilityProfile
from iriai.policy.placement.policy_api import Claimed

JOBS_MAX = 200
"""Waiting jobs that get an estimate, from the head of the queue: as many as a person reads; it
takes a few milliseconds on one machine."""
TASKS_MAX = 16
"""Tasks of an array that are placed; the others are left out, so estimates behind a long array are
too early."""
MACHINES_MAX = 16
"""Machines on which places are sought, those with the most free first. With more machines,
estimates are too late."""
OVERDUE_S = 60.0
"""Time after which a task that has run longer than expected counts as ended."""


class _Place(NamedTuple):
    """A machine, and when it may take what."""

    view: MachineView
    free: AvailabilityProfile
    """Of it, as far as runs take as long as is expected."""
    unbooked: AvailabilityProfile | None
    """What bookings alone leave; None: there are none."""


def estimated_starts(state: BrokerState, now: Instant) -> dict[JobId, float]:
    """Return seconds from now until the first waiting task of each job may start."""
    now_s = now.steady_s
    places = [_Place(view, *_profiles(state, view, now_s)) for view in _machines(state)]
    if not places:
        return {}
    rule = ChargeRule.of(state.settings.configuration.order)
    found: dict[JobId, float] = {}
    for entry in islice(in_order(state, Random(0), now), JOBS_MAX):
        run_s = _run_s(state, entry, rule)
        start_s = _placed(entry, run_s, places, now_s)
        if start_s is not None:
            found[entry.want.job] = start_s - now_s
    return found


def _machines(state: BrokerState) -> list[MachineView]:
    able = [view for view in state.machines.values() if view.is_available]
    return sorted(able, key=lambda view: (-view.calendar.free.cpus, view.name))[:MACHINES_MAX]


def _profiles(
    state: BrokerState, view: MachineView, now_s: float
) -> tuple[AvailabilityProfile, AvailabilityProfile | None]:
    """Return what is expected to be free on a machine, and what bookings alone leave, if any."""
    claimed = []
    calendar = view.calendar
    for key, resources, end_s in calendar.in_order():
        if calendar.bookings and calendar.inside(key) is not None:
            continue
        left_s = state.usage.expected_left_s(key) or OVERDUE_S
        claimed.append(Claimed(resources, min(end_s, now_s + left_s)))
    booked = [Claimed(each.resources, each.end_s, each.from_s) for each in calendar.bookings]
    free = AvailabilityProfile(calendar.capacity, claimed, now_s, booked)
    return free, AvailabilityProfile(calendar.capacity, (), now_s, booked) if booked else None


def _run_s(state: BrokerState, entry: QueuedJob, rule: ChargeRule) -> float:
    """Return the mean run time of the account, or the limit if that is less."""
    want = entry.want
    charge_s = state.usage.expected_s(want.account, want.resources, want.limit_s)
    return charge_s / rule.rate(want.resources)


def _placed(
    entry: QueuedJob,
    run_s: float,
    places: list[_Place],
    now_s: float,
) -> float | None:
    """Place all tasks of a job; return when the first starts."""
    resources = entry.want.resources
    if entry.want.reservation is not None:
        return None  # nobody knows when others of its reservation end
    able = [place for place in places if could_hold(entry.kind, place.view)]
    planned_s = entry.kind.planned_s
    first_s: float | None = None
    for _ in range(min(entry.count, TASKS_MAX)):
        starts = ((_earliest_s(each, resources, run_s, planned_s, now_s), each) for each in able)
        found = ((start_s, place) for start_s, place in starts if start_s is not None)
        best = min(found, key=itemgetter(0), default=None)
        if best is None:
            break
        start_s, place = best
        place.free.reserve(resources, start_s, run_s)
        first_s = start_s if first_s is None else first_s
    return first_s


def _earliest_s(
    place: _Place, resources: Resources, run_s: float, planned_s: float | None, now_s: float
) -> float | None:
    """Return when a task may start there first; None: never.

    It runs for `run_s`, and its machine grants it only beside bookings until its latest end.
    """
    start_s = place.free.earliest_s(resources, run_s, now_s)
    while place.unbooked is not None and start_s is not None:
        granted_s = place.unbooked.earliest_s(resources, planned_s, start_s)
        if granted_s is None or granted_s <= start_s:
            return granted_s
        start_s = place.free.earliest_s(resources, run_s, granted_s)
    return start_s
