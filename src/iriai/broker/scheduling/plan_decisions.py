"""Judges the decisions of a policy: what does not fit, or breaks a promise, is refused in words.

Each refusal has the nearest decision that would do.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING

from iriai.broker.machines.beside_bookings import is_beside
from iriai.broker.queue.entries import QueuedJob, TaskClass
from iriai.broker.scheduling.plan_view import free_now
from iriai.broker.scheduling.promised_places import PromisedPlaces, length_beside, stay_beside
from iriai.broker.state.reserved_heads import could_hold, has_capacity, kept_for
from iriai.broker.state.state import BrokerState
from iriai.config.values import is_name
from iriai.model.ids import JobId
from iriai.model.ranks import RANKS_MAX, has_shape
from iriai.model.resources import FIELDS, Resources
from iriai.policy.placement.calendar import OPEN_END_S
from iriai.policy.placement.policy_api import PlannedStart, Start
from iriai.policy.placement.seats import Room, Seat, Seats, rank_fit, seats_of
from iriai.policy.policy_error import Mistake

if TYPE_CHECKING:
    from iriai.policy.placement.bookings import RoomProfile

SHOWN_MAX = 4
"""Names, or seats, in the message about what is wrong."""
LOOKS_MAX = 64
"""Machines that are looked at for the nearest decision that would do."""


class DecisionJudge:
    """Judges starts and promises against machines, bookings and the promises of other jobs."""

    def __init__(self, state: BrokerState, promised: PromisedPlaces) -> None:
        self._state = state
        self._promised = promised

    # --- starts ----------------------------------------------------------------------------------

    def start(
        self, start: Start, now_s: float, *, is_own: bool
    ) -> tuple[QueuedJob, Seats] | Mistake:
        """Return the task that starts, and where; or what is wrong.

        `is_own`: the policy is built in, and minds promises itself.
        """
        entry = self._waiting(start.job)
        if isinstance(entry, Mistake):
            return entry
        given = start.seats or (Seat(start.machine, 1),)
        seats = given if is_own else _seats(given)
        if isinstance(seats, Mistake):
            return seats
        wrong = self._wrong_shape(entry.kind, seats)
        if wrong:
            return Mistake(f"{start.job}: {wrong}", self._nearest(entry, now_s))
        for seat in seats:
            what = self._wrong_seat(entry, seat, now_s)
            if what:
                return Mistake(what, self._nearest(entry, now_s))
            if not is_own and self._promised.by_job:
                delays = self._delays(entry, seat, now_s)
                if delays is not None:
                    return delays
        cap = self._state.running_cap(entry)
        if not cap.allowed:
            return Mistake(
                f"{start.job}: {cap.reason()}", "pass over its account's jobs until then"
            )
        return entry, seats

    def _waiting(self, job: object) -> QueuedJob | Mistake:
        entries = self._state.queues.entries
        entry = entries.get(job) if isinstance(job, JobId) else None
        if entry is not None and entry.want.reservation is None:
            return entry
        if entry is not None:
            return Mistake(f"{job} waits for its reservation", "the broker starts it there itself")
        name = str(job) if isinstance(job, JobId) else f"{job!r:.60}"
        waiting = _some(map(str, entries))
        nearest = f"the id of a job of view.queue(): {waiting}" if waiting else "nothing waits"
        return Mistake(f"no job {name} is waiting", nearest)

    def _wrong_shape(self, kind: TaskClass, seats: Seats) -> str:
        """Return what is wrong with the seats of a task, or an empty text."""
        if not has_shape(seats, kind.key.shape):
            ranks = ", ".join(f"{seat.ranks} on {seat.machine!r:.60}" for seat in seats[:SHOWN_MAX])
            return f"it asks for {kind.key.shape.words()}, not for {ranks or 'none'}"
        machines = self._state.machines
        pools = {machines[seat.machine].pool for seat in seats if seat.machine in machines}
        if len(pools) > 1 and not kind.key.across_pools:
            return "it asks for machines of one pool"
        return ""

    def _wrong_seat(self, entry: QueuedJob, seat: Seat, now_s: float) -> str:
        """Return why ranks cannot start on a machine now, or an empty text."""
        kind, job = entry.kind, entry.want.job
        view = self._state.machines.get(seat.machine)
        if view is None:
            return self._no_machine(seat.machine)
        if not could_hold(kind, view):
            return f"{job} and {view.name} do not match: see iriai why {job}"
        needed = kept_for(kind, view, seat.ranks)
        has_room = has_capacity(view, kind, now_s)
        if seat.ranks > 1 and view.calendar.bookings:
            has_room &= is_beside(view.calendar, kind.key, needed, now_s)
        if has_room and needed.fits_in(view.calendar.free):
            return ""
        had = f"{view.name} has {_amount(free_now(view))} free"
        if view.calendar.bookings:
            had += ", and reservations (see PlannedMachine.bookings)"
        return f"{job} needs {_amount(needed)}; {had}"

    def _no_machine(self, name: str) -> str:
        known = _some(sorted(self._state.machines))
        return f"there is no machine {name!r:.60}" + (f", but {known}" if known else "")

    def _delays(self, entry: QueuedJob, seat: Seat, now_s: float) -> Mistake | None:
        """Return whose promise a start would break; None: nobody's."""
        job = entry.want.job
        view = self._state.machines[seat.machine]
        needed = kept_for(entry.kind, view, seat.ranks)
        until_s = now_s + stay_beside(view, entry.kind.key, needed, now_s)
        others = self._promised.before(view, job, now_s, until_s)
        if not others:
            return None
        profile = view.calendar.profile([held for _, held in others])
        if profile.is_room(needed, now_s, until_s):
            return None
        first, held = min(others, key=lambda other: other[1].from_s)
        in_s = max(0.0, held.from_s - now_s)
        return Mistake(
            f"{job} would be in the way of {first}, which was promised {view.name} in {in_s:.0f} s",
            _when(profile, needed, until_s - now_s, now_s, view.name),
        )

    # --- promises --------------------------------------------------------------------------------

    def promise(self, promise: PlannedStart, now_s: float, *, is_own: bool) -> Mistake | None:
        """Return what is wrong with a promise; None: it may be given.

        `is_own`: the policy is built in, and plans with what is there.
        """
        if is_own:
            return None
        entry = self._waiting(promise.job)
        if isinstance(entry, Mistake):
            return entry
        pool: object = promise.pool
        if pool != "" and not (isinstance(pool, str) and is_name(pool)):
            return Mistake(f"{promise.pool!r:.60} is no name of a pool", "PlannedMachine.pool")
        start_s: object = promise.start_s
        if start_s is None:
            return None
        is_number = isinstance(start_s, int | float) and not isinstance(start_s, bool)
        if not is_number or not isfinite(promise.start_s or 0.0):
            return Mistake(f"{start_s!r:.60} is not a time", "now.steady_s and seconds, or None")
        machine: object = promise.machine
        if not promise.seats and machine == "":
            return None
        seats = _seats(promise.seats or (Seat(promise.machine, 1),))
        if isinstance(seats, Mistake):
            return seats
        for seat in seats:
            if seat.machine not in self._state.machines:
                return Mistake(self._no_machine(seat.machine))
        if promise == self._promised.by_job.get(promise.job):
            return None
        wrong = self._wrong_shape(entry.kind, seats) if promise.seats else ""
        if wrong:
            return Mistake(f"{promise.job}: {wrong}")
        return self._wrong_promise(entry, seats, max(now_s, promise.start_s or 0.0), now_s)

    def _wrong_promise(
        self, entry: QueuedJob, seats: Seats, start_s: float, now_s: float
    ) -> Mistake | None:
        kind, job = entry.kind, entry.want.job
        for seat in seats:
            view = self._state.machines[seat.machine]
            if not could_hold(kind, view):
                return Mistake(f"{job} and {view.name} do not match: see iriai why {job}")
            needed, length_s = kept_for(kind, view, seat.ranks), length_beside(kind.planned_s)
            profile = self._promised.profile(view, job, now_s)
            if not profile.is_room(needed, start_s, start_s + length_s):
                return Mistake(
                    f"{job} needs {_amount(needed)}, which {view.name} does not have in "
                    f"{start_s - now_s:.0f} s beside tasks, reservations and promises",
                    _when(profile, needed, length_s, now_s, view.name),
                )
        return None

    # --- the nearest that would do ---------------------------------------------------------------

    def _nearest(self, entry: QueuedJob, now_s: float) -> str:
        """Return where a task could start now; else where first."""
        kind = entry.kind
        views = self._state.machines
        able = [views[name] for name in sorted(views) if could_hold(kind, views[name])][:LOOKS_MAX]
        able = [view for view in able if view.is_available]
        rooms: dict[str, list[Room]] = {}
        for view in able:
            if has_capacity(view, kind, now_s):
                fit = 1 if kind.key.exclusive else rank_fit(kind.key.resources, view.calendar.free)
                pool = "" if kind.key.across_pools else view.pool
                rooms.setdefault(pool, []).append(Room(view.name, fit))
        for alike in rooms.values():
            seats = seats_of(alike, kind.key.shape)
            if seats:
                where = ", ".join(f"{ranks} on {name}" for name, ranks in seats[:SHOWN_MAX])
                where = where if kind.is_wide else seats[0].machine
                return f"it could start now on {where}" + ("..." if len(seats) > SHOWN_MAX else "")
        if kind.is_wide:
            return "it fits nowhere now"
        best: tuple[float, str] | None = None
        for view in able:
            slot = view.calendar.earliest(kept_for(kind, view), now_s, stay_s=kind.planned_s)
            if slot is not None and (best is None or slot.start_s < best[0]):
                best = slot.start_s, view.name
        if best is None or best[0] > now_s + OPEN_END_S / 2:
            return "it fits nowhere now, and no end is known of what runs"
        return f"it fits on {best[1]} in {best[0] - now_s:.0f} s"


def _seats(given: object) -> Seats | Mistake:
    """Return seats as a policy gave them; or what is wrong, whatever it is."""
    seats = []
    for each in given if isinstance(given, list | tuple) else (given,):
        match each:
            case (str() as machine, int() as ranks) if 0 < ranks <= RANKS_MAX:
                seats.append(Seat(machine, ranks))
            case _:
                return Mistake(
                    f"{each!r:.60} is not a machine's name with its ranks",
                    "Start(job.id, machine.name), or what seats_now returns",
                )
    return tuple(seats)


def _when(
    profile: RoomProfile, needed: Resources, length_s: float, now_s: float, machine: str
) -> str:
    """Return in words when that much is free there for so long."""
    run = profile.run_from(needed, length_s, now_s)
    if run is None:
        return f"it fits on {machine} at no time"
    return f"it fits on {machine} in {run[0] - now_s:.0f} s"


def _some(names: Iterable[str]) -> str:
    """Return the first of them, in words."""
    shown = list(islice(names, SHOWN_MAX + 1))
    return ", ".join(shown[:SHOWN_MAX]) + ("..." if len(shown) > SHOWN_MAX else "")


def _amount(resources: Resources) -> str:
    amounts = ((getattr(resources, field), field) for field in FIELDS)
    return ", ".join(f"{amount} {field}" for amount, field in amounts if amount) or "nothing"
