"""What is checked of reservations: (j) to (m) of docs/spec/017, section 11."""

from __future__ import annotations

from msgspec.structs import replace as with_fields

from iriai.machine.core import Machine
from iriai.machine.outbox import Turn
from iriai.model.claim import Claim, Phase
from iriai.model.ids import AttemptId, ReservationId
from iriai.model.instant import Instant
from iriai.model.reason import Rule
from iriai.model.records import (
    AttemptResult,
    BookingsDropped,
    BookingStored,
    ClaimStored,
    ReservationStored,
)
from iriai.model.reservation import (
    USED_PART,
    Booking,
    NextVersion,
    Reservation,
    ReservationEnd,
    ReservationState,
)
from iriai.model.resources import NOTHING, Resources
from iriai.model.state import TaskState
from iriai.policy.placement.bookings import positive
from iriai.protocol.messages.effects import Part, ReservationAnswered
from iriai.sim.faults.checkers.held_outside import lasts_at_most_s, outside
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.work import ProcessModel
from iriai.sim.world.world import World

TOLERANCE_S = 0.1
"""Bookings are mapped to the steady clock anew when that has moved by half as much."""
FOLLOWS_S = 3.0
"""Until a daemon that is there has followed what it knows, beside the time of its commits."""
ENDS_S = 10.0
"""Until what was asked to end has ended, if a launcher or a daemon was away when it had to."""
MEASURED_S = 200.0
"""From when a reservation has to be used until it is given back: the last task before that runs for
a minute, is measured within another, and the home looks within a third."""
SET_S = 80.0
"""Until a machine whose clock was set has ended what is in the way now: it looks each minute, and
ends nothing without its grace (017, section 3)."""
AGREED_S = 60.0
"""Until home and nodes agree, from when nothing breaks any more."""
WANTED = (ReservationState.DECIDING, ReservationState.CONFIRMED, ReservationState.OPEN)
UNDECIDED = (ReservationState.SEEKING, ReservationState.DECIDING)
GOES_ON = (ReservationState.CONFIRMED, ReservationState.OPEN)

SILENT = (Rule.SEATS_NOT_HELD, Rule.HOLD_EXPIRED)
"""Why a reservation is refused where machines or the home answer late, or not at all."""

Bookings = dict[ReservationId, Booking]


class ReservationChecker:
    """Judges bookings and reservations by what is stored, and by what really runs."""

    def __init__(self, world: World, *, is_calm: bool, calm_from_s: float) -> None:
        """From `calm_from_s` on nothing breaks; with `is_calm` nothing ever does."""
        self._world = world
        self._is_calm = is_calm
        self._calm_from_s = calm_from_s
        self._known: dict[str, tuple[Machine, Bookings]] = {}
        """By machine, its core and its bookings after its last turn."""
        self._inside: dict[AttemptId, ReservationId] = {}
        """In whose booking each attempt was started."""
        self._used: dict[ReservationId, None] = {}
        """The reservations in which one was that uses its cpus, in time."""
        self._working: dict[AttemptId, ReservationId] = {}
        """The attempts of these tasks, over or not."""
        self._proven: dict[ReservationId | None, None] = {}
        """The reservations of those of which a home has stored the end."""
        self._ever_used: dict[ReservationId, None] = {}
        """Those in which one was, in time or later."""
        self._over: dict[tuple[str, ReservationId], None] = {}
        """By machine, the reservations whose time is over there."""
        self._stood: dict[tuple[str, int], tuple[Machine, Reservation]] = {}
        """By home and number, each reservation as it was written last, by which process."""
        self._wrong_s: dict[tuple[str, str], float] = {}
        """By machine and what is wrong there, since when."""
        self._begun: dict[tuple[str, ReservationId], None] = {}
        """By machine, the reservations whose start had come there once, by its clock."""
        self._pushing: frozenset[AttemptId] = frozenset()
        """The claims whose suspension changed in the turn that is checked: whatever they push into
        a booking is evicted in time (spec 017, section 3)."""
        for machine in world.machines.values():
            machine.on_reservation = self._answered

    def check(self, machine: SimulatedMachine, turn: Turn, now: Instant) -> None:
        """Check a machine after a turn."""
        if Part.NODE in machine.plan.parts:
            self._pushing = frozenset(
                record.claim.attempt
                for record in turn.records
                if type(record) is ClaimStored and record.claim.suspension is not None
            )
            bookings = self._followed(machine, turn, now)
            name = machine.plan.name
            for booking in bookings.values():
                if booking.start_wall_s <= now.wall_s:
                    self._begun[name, booking.reservation] = None
            if self._is_set(machine):
                self._wrong_s = {key: s for key, s in self._wrong_s.items() if key[0] != name}
            elif bookings:
                self._check_bookings(machine, bookings, now)
                for record in turn.records:
                    if type(record) is ClaimStored and not _displaces(machine, turn):
                        self._check_granted(machine, record.claim, bookings, now)
            self._check_inside(machine, bookings, now)
        if Part.HOME not in machine.plan.parts:
            return
        for record in turn.records:
            if type(record) is AttemptResult and record.usage.cpu_s > record.elapsed_s / 2:
                self._proven[self._working.get(record.attempt)] = None
            if type(record) is ReservationStored:
                self._check_stored(machine, record.reservation, now)
        if self._world.now_s >= self._calm_from_s:
            for reservation in machine.store.reservations.values():
                self._check_agreed(machine, reservation)

    def _is_set(self, machine: SimulatedMachine) -> bool:
        """Return whether a machine's clock was set just now: it may act by the old one yet."""
        return machine.clock.was_stepped(self._world.now_s, SET_S)

    # --- bookings of a node ----------------------------------------------------------------------

    def _followed(self, machine: SimulatedMachine, turn: Turn, now: Instant) -> Bookings:
        """Return the bookings after a turn; check how they changed in it."""
        name = machine.plan.name
        core, bookings = self._known.get(name, (None, {}))
        if core is not machine.core:
            bookings = {**bookings, **machine.store.bookings}
        for record in turn.records:
            if type(record) is BookingStored:
                booking = record.booking
                before = bookings.get(booking.reservation)
                self._check_versions(machine, before, booking, bookings, now)
                bookings[booking.reservation] = booking
            elif type(record) is BookingsDropped:
                for reservation in record.reservations:
                    dropped = bookings.pop(reservation, None)
                    if dropped is not None and dropped.end_wall_s <= now.wall_s + TOLERANCE_S:
                        self._over[name, reservation] = None
                    elif dropped is not None and dropped.phase is Phase.CONFIRMED:
                        self._check_dropped(machine, dropped, now)
        if core is not machine.core:
            bookings = {each.reservation: each for each in machine.store.load().bookings}
        self._known[name] = machine.core, bookings
        return bookings

    def _check_versions(
        self,
        machine: SimulatedMachine,
        before: Booking | None,
        booking: Booking,
        bookings: Bookings,
        now: Instant,
    ) -> None:
        """Check (j) of a version that is new, and (k) of one that has gone."""
        name, known = machine.plan.name, {} if before is None else versions_of(before)
        kept = versions_of(booking)
        for version, each in kept.items():
            if version not in known:
                others = [b for b in bookings.values() if b.reservation != booking.reservation]
                self._check_booked(machine, each, [*others, booking], now)
            else:
                words = f"{name} holds {booking.reservation} that it had confirmed"
                assert each.phase >= known[version].phase, words
        for version, each in known.items():
            is_over = each.end_wall_s <= now.wall_s + TOLERANCE_S
            if version not in kept and each.phase is Phase.CONFIRMED and not is_over:
                self._check_dropped(machine, each, now)

    def _check_dropped(self, machine: SimulatedMachine, booking: Booking, now: Instant) -> None:
        """Check (k): a confirmed booking goes when it is over, or nobody wants it."""
        stored = _stored(self._world.machines[booking.reservation.home], booking, machine)
        standing = () if stored is None else (stored, stored.next)
        is_wanted = any(
            each is not None
            and each.version == booking.version
            and each.state in WANTED
            and machine.plan.name in each.nodes
            for each in standing
        )
        left_s = booking.end_wall_s - now.wall_s
        assert not is_wanted, (
            f"{machine.plan.name} drops {booking.reservation} {left_s:.3f} s before its end"
        )

    def _check_booked(
        self, machine: SimulatedMachine, booking: Booking, others: list[Booking], now: Instant
    ) -> None:
        """Check (j): a new booking is beside all claims and all that is booked, it included.

        Under `above` what runs gives way to it.
        """
        every = [each for other in others for each in versions_of(other).values()]
        is_above = _is_above(machine) or self._is_set(machine)
        starts = [b.start_wall_s for b in every if b.start_wall_s >= booking.start_wall_s]
        for start_wall_s in starts:
            if start_wall_s < booking.end_wall_s - TOLERANCE_S:
                in_s = start_wall_s - now.wall_s
                self._check_moment(machine, others, in_s, now, with_claims=not is_above)

    def _check_granted(
        self, machine: SimulatedMachine, claim: Claim, bookings: Bookings, now: Instant
    ) -> None:
        """Check (j): a new claim is beside all bookings until its end."""
        node = machine.core.node
        if claim.is_ahead or claim.attempt not in node.calendar:
            return
        held = node.held(claim.attempt)
        if held.granted_steady_s != now.steady_s or claim.reservation is not None:
            return
        left_s = lasts_at_most_s(node, claim, now)
        every = list(bookings.values())
        for booking in (each for kept in every for each in versions_of(kept).values()):
            if booking.start_wall_s < now.wall_s + left_s - TOLERANCE_S:
                self._check_moment(machine, every, booking.start_wall_s - now.wall_s, now)

    def _check_moment(
        self,
        machine: SimulatedMachine,
        bookings: list[Booking],
        in_s: float,
        now: Instant,
        *,
        with_claims: bool = True,
    ) -> None:
        """Check that all that is claimed and booked for a moment is within the capacity."""
        in_s = max(0.0, in_s)
        moment_wall_s = now.wall_s + in_s
        taken = NOTHING
        for booking in bookings:
            taken = taken.plus(_taken_at(machine, booking, moment_wall_s))
        for use in outside(machine.core.node, now):
            is_there = use.left_s > in_s + TOLERANCE_S and use.attempt not in self._pushing
            if with_claims and is_there:
                taken = taken.plus(use.resources)
        capacity = machine.core.node.calendar.capacity
        assert taken.fits_in(capacity), (
            f"{machine.plan.name} has {capacity}, and promises {taken} in {in_s:.1f} s"
        )

    def _check_bookings(self, machine: SimulatedMachine, bookings: Bookings, now: Instant) -> None:
        """Check (j) as of now, and (m): what is open has its resources, what is held ends."""
        node, taken = machine.core.node, NOTHING
        for booking in bookings.values():
            reservation = booking.reservation
            for each in versions_of(booking).values():
                over_s = now.wall_s - each.held_until_wall_s
                is_late = each.phase is Phase.HELD and over_s > TOLERANCE_S
                assert not is_late, f"{machine.plan.name} still holds {reservation}"
            begun_s, left_s = now.wall_s - booking.start_wall_s, booking.end_wall_s - now.wall_s
            is_confirmed = booking.phase is Phase.CONFIRMED
            if is_confirmed and begun_s > TOLERANCE_S and left_s > TOLERANCE_S:
                taken = taken.plus(_given(machine, booking))
            self._late(machine, f"{reservation} is booked", left_s <= 0.0)
            if self._world.now_s >= self._calm_from_s:
                is_alone = any(
                    each.end_wall_s - now.wall_s > AGREED_S and not self._is_wanted(machine, each)
                    for each in versions_of(booking).values()
                )
                self._late(machine, f"{reservation} is wanted by nobody", is_alone, AGREED_S)
        for use in outside(node, now):
            taken = taken.plus(use.resources)
        is_beyond = not taken.fits_in(node.calendar.capacity) and self._can_end(machine)
        also_s = 0.0 if self._is_calm and not _is_above(machine) else ENDS_S
        self._late(machine, "what is in the way of a booking runs", is_beyond, also_s)

    def _check_inside(self, machine: SimulatedMachine, bookings: Bookings, now: Instant) -> None:
        """Check that what runs inside has room in its booking, and ends with it."""
        node = machine.core.node
        inside: dict[ReservationId, Resources] = {}
        for attempt in node.running():
            claim = node.held(attempt).claim
            if claim.reservation is None:
                continue
            booking = bookings.get(claim.reservation)
            assert booking is not None, f"{attempt} is inside {claim.reservation}, not kept"
            held = inside.get(claim.reservation, NOTHING).plus(claim.kept)
            inside[claim.reservation] = held
            assert held.fits_in(_given(machine, booking)), (
                f"{claim.reservation} has {_given(machine, booking)}, and {held} runs inside"
            )
        for attempt in machine.launcher.running:
            reservation = self._inside.get(attempt)
            if reservation is not None:
                is_over = (machine.plan.name, reservation) in self._over
                is_late = is_over and self._can_end(machine)
                self._late(machine, f"{attempt} runs on after {reservation}", is_late, ENDS_S)

    def _can_end(self, machine: SimulatedMachine) -> bool:
        """Return whether a machine could have ended by now what has to."""
        launcher, node = machine.launcher, machine.core.node
        is_there = launcher.is_up and not launcher.is_stopped and not launcher.is_behind
        return is_there and node.has_launcher and not machine.is_stopped

    def _is_wanted(self, machine: SimulatedMachine, booking: Booking) -> bool:
        """Return whether the home of a booking has it, on this machine, as far as that answers."""
        home = self._world.machines[booking.reservation.home]
        stored = home.store.reservations.get(booking.reservation.number)
        if stored is None or not home.is_up:
            return not home.is_up
        name, following = machine.plan.name, stored.next
        if following is not None and following.version == booking.version:
            return following.state in UNDECIDED and name in following.nodes
        is_of_it = stored.version == booking.version and name in stored.nodes
        is_live = stored.state is not ReservationState.OVER
        # When its time is over each ends it by its own clock, and none is told to.
        is_by_time = stored.end is ReservationEnd.ENDED and name not in stored.unanswered
        return is_of_it and (is_live or is_by_time)

    # --- reservations of a home ------------------------------------------------------------------

    def _answered(self, machine: SimulatedMachine, answer: ReservationAnswered) -> None:
        """Check (l): who is told that a reservation is confirmed has it, on all its nodes."""
        stored = machine.store.reservations.get(answer.number)
        id_ = ReservationId(machine.plan.name, answer.number)
        assert stored is not None, f"{id_} is told, and not stored"
        if not answer.is_confirmed:
            is_over = stored.state is ReservationState.OVER
            assert is_over or answer.is_change, f"{id_} is refused, and {stored.state}"
            silent = [each for each in answer.reasons if each.rule in SILENT]
            assert not (silent and self._is_calm), f"{id_} is refused where all answer: {silent[0]}"
            return
        assert stored.end is not ReservationEnd.REFUSED, f"{id_} is told, and was refused"
        if stored.state is ReservationState.OVER:
            return
        assert stored.state in GOES_ON, f"{id_} is told, and {stored.state}"
        assert len(stored.nodes) == stored.terms.nodes, f"{id_} has {stored.nodes}"
        for name in stored.nodes:
            assert self._has_confirmed(name, id_, stored), f"{id_} is told, not confirmed by {name}"

    def _has_confirmed(self, name: str, id_: ReservationId, stored: Reservation) -> bool:
        """Return whether it is durable on a machine that a reservation is, or it is over there."""
        other = self._world.machines[name]
        booking = other.store.bookings.get(id_)
        if booking is None:
            wall_s = other.clock.at(self._world.now_s).wall_s
            is_over = wall_s >= stored.terms.end_wall_s - TOLERANCE_S
            return is_over or (name, id_) in self._over  # by a clock that was set since
        version = versions_of(booking).get(stored.version)
        return version is not None and version.phase is Phase.CONFIRMED

    def _check_agreed(self, machine: SimulatedMachine, reservation: Reservation) -> None:
        """Check (m): a reservation is decided soon, and all its nodes have it."""
        if reservation.state is ReservationState.OVER:
            return
        id_ = ReservationId(machine.plan.name, reservation.number)
        nodes = [name for name in reservation.nodes if name not in self._world.gone]
        is_open = reservation.state in UNDECIDED
        is_lost = len(nodes) < len(reservation.nodes)
        self._late(machine, f"{id_} is undecided", is_open and not is_lost, AGREED_S)
        lacks = reservation.state in GOES_ON and not all(
            self._has_confirmed(name, id_, reservation) for name in nodes
        )
        self._late(machine, f"{id_} is on some of its nodes alone", lacks, AGREED_S)
        self._check_degraded(machine, reservation, id_)
        following = reservation.next
        is_open = following is not None and following.state in UNDECIDED
        is_lost = following is not None and any(
            name in self._world.gone for name in (*following.nodes, *reservation.nodes)
        )
        self._late(machine, f"{id_} changes without end", is_open and not is_lost, AGREED_S)

    def _check_degraded(
        self, machine: SimulatedMachine, reservation: Reservation, id_: ReservationId
    ) -> None:
        """Check that a reservation lacks just the nodes that are lost, and that others are sought.

        It does so for those that are there all the time since nothing breaks any more.
        """
        is_live = reservation.state in GOES_ON
        lost_s = machine.plan.configuration.reservations.lost_s
        for name in reservation.nodes:
            is_gone, is_missing = name in self._world.gone, name in reservation.missing
            is_unnoticed = is_live and is_gone and not is_missing
            self._late(machine, f"{id_} keeps {name}", is_unnoticed, lost_s + AGREED_S)
            is_there = (
                is_live and is_missing and not is_gone and self._is_able(name, id_, reservation)
            )
            self._late(machine, f"{id_} takes {name} for lost", is_there, AGREED_S)
        left_s = reservation.terms.end_wall_s - machine.clock.at(self._world.now_s).wall_s
        is_untried = reservation.is_degraded and reservation.last_version == reservation.version
        is_untried = is_untried and left_s > 2 * AGREED_S
        self._late(machine, f"{id_} is degraded, and nobody is sought", is_untried, AGREED_S)

    def _is_able(self, name: str, id_: ReservationId, reservation: Reservation) -> bool:
        """Return whether a node has a reservation, and tasks may run in that."""
        machine = self._world.machines[name]
        core = self._known.get(name, (None, {}))[0]
        if core is not machine.core or not machine.is_up or machine.is_stopped:
            return False
        node = machine.core.node
        unable = node.bookings.unable(reservation.terms.user)
        booking = machine.store.bookings.get(id_)
        version = None if booking is None else versions_of(booking).get(reservation.version)
        is_kept = version is not None and version.phase is Phase.CONFIRMED
        return is_kept and unable is None

    @property
    def has_offers(self) -> bool:
        """Return whether nodes were offered for some reservation that is not decided yet."""
        return any(
            reservation.state in UNDECIDED
            for machine in self._world.present()
            for reservation in machine.store.reservations.values()
        )

    # --- what runs -------------------------------------------------------------------------------

    def started(self, machine: SimulatedMachine, process: ProcessModel) -> None:
        """Check (m): a task inside starts in its booking, by who may, while that is open."""
        attempt, home = process.attempt, self._world.machines[process.attempt.home]
        spec = home.store.accepted[attempt.number].spec
        wanted = spec.reservation
        if wanted is not None and process.work.cpu_part >= USED_PART:
            self._ever_used[wanted] = None
        if wanted is None or not machine.is_up:
            return
        held = machine.core.node.held(attempt)
        if held.stop is not None:
            return  # the launcher stood still, and hears next that it is to end
        reservation = held.claim.reservation
        _, bookings = self._known.get(machine.plan.name, (None, {}))
        wall_s = machine.clock.at(self._world.now_s).wall_s
        if reservation is None:
            stored = home.store.reservations.get(wanted.number)
            is_over = stored is not None and stored.state is ReservationState.OVER
            may_go_on = is_over and spec.or_queue
            assert may_go_on, f"{attempt} starts outside {wanted}"
            return
        assert reservation == wanted, f"{attempt} starts in {reservation}"
        booking = bookings.get(reservation)
        assert booking is not None, f"{attempt} starts, and {reservation} is not booked"
        assert booking.phase is Phase.CONFIRMED, f"{attempt} starts, and {reservation} is held"
        is_open = booking.start_wall_s - TOLERANCE_S <= wall_s < booking.end_wall_s
        has_begun = (machine.plan.name, reservation) in self._begun
        is_open = is_open or self._is_set(machine) or (has_begun and wall_s < booking.end_wall_s)
        assert is_open, f"{attempt} starts, and {reservation} is not open"
        is_admitted = booking.admits(spec.user, spec.account)
        assert is_admitted, f"{attempt} of {spec.user} starts in {reservation}"
        self._inside[attempt] = reservation
        no_show_s = home.plan.configuration.reservations.no_show_s
        is_early = no_show_s is None or wall_s < booking.start_wall_s + no_show_s - FOLLOWS_S
        if is_early and process.work.cpu_part >= USED_PART:
            self._used[reservation] = None
            self._working[attempt] = reservation

    # --- what was not used -----------------------------------------------------------------------

    def _check_stored(
        self, machine: SimulatedMachine, reservation: Reservation, now: Instant
    ) -> None:
        """Check that a reservation is given back as not used only if it was not, and not early.

        And that it is given back then. Where machines are lost, a home may never hear of use.
        """
        self._check_changed(machine, reservation)
        named = ReservationId(machine.plan.name, reservation.number)
        is_so = not reservation.is_used or named in self._ever_used
        assert is_so, f"{named} counts as used, and nothing inside used its cpus"
        if reservation.end is None or reservation.over_wall_s != now.wall_s:
            return
        no_show_s = machine.plan.configuration.reservations.no_show_s
        if reservation.end is ReservationEnd.ENDED and not reservation.by and self._is_calm:
            is_idle = named not in self._ever_used and reservation.repetition is None
            is_known = no_show_s is None or reservation.terms.length_s < no_show_s + MEASURED_S
            assert is_known or not is_idle, f"{named} is kept, and nobody used it"
        if reservation.end is not ReservationEnd.NO_SHOW:
            return
        assert no_show_s is not None, f"{named} need not be used"
        assert reservation.terms.length_s > no_show_s, f"{named} is too short for a no-show"
        stood_s = now.wall_s - reservation.terms.start_wall_s
        assert stood_s >= no_show_s, f"{named} is given back after {stood_s:.3f} s"
        is_used = (
            reservation.is_used or named in self._proven or (self._is_calm and named in self._used)
        )
        assert not is_used, f"{named} is given back as not used, and was"
        for attempt, of in self._working.items():
            job = machine.core.home.jobs.get(attempt.number) if of == named else None
            task = None if job is None else job.tasks.get(attempt.index)
            if task is not None and task.attempt == attempt.attempt and task.suspension is None:
                is_known = task.state is TaskState.RUNNING
                assert not is_known, f"{named} is given back as not used, and {attempt} runs"

    def _check_changed(self, machine: SimulatedMachine, reservation: Reservation) -> None:
        """Check that what stands changes with a version that all have, and wholly."""
        key = (machine.plan.name, reservation.number)
        core, before = self._stood.get(key, (None, reservation))
        self._stood[key] = machine.core, reservation
        if (
            core is not machine.core
            or before.state not in GOES_ON
            or reservation.state not in GOES_ON
        ):
            return
        named = ReservationId(*key)
        counts: Reservation | NextVersion = before
        if reservation.version != before.version:
            assert before.next is not None, f"{named} has another version, which nobody sought"
            counts = before.next
            assert counts.state is ReservationState.DECIDING, f"{named} changes undecided"
        is_whole = (reservation.version, reservation.terms) == (counts.version, counts.terms)
        assert is_whole, f"{named} has {reservation.terms}, not {counts.terms}"
        assert reservation.nodes == counts.nodes, f"{named} has {reservation.nodes}"

    # --- when all is over ------------------------------------------------------------------------

    def unfinished(self) -> list[str]:
        """Return the reservations that are not over, and the machines that have them booked."""
        at_homes = [
            str(ReservationId(machine.plan.name, number))
            for machine in self._world.present()
            for number, each in machine.store.reservations.items()
            if each.state is not ReservationState.OVER
        ]
        at_nodes = [
            f"{reservation} on {machine.plan.name}"
            for machine in self._world.present()
            for reservation in machine.store.bookings
        ]
        return at_homes + at_nodes

    def check_end(self, machine: SimulatedMachine) -> None:
        """Check that each request for a reservation was answered."""
        core, name = machine.core, machine.plan.name
        waiting = [each for each, asked in machine.asked_reservations.items() if asked is core]
        assert not waiting, f"{name} never answered who asked for {waiting}"

    def _late(
        self, machine: SimulatedMachine, words: str, is_wrong: bool, also_s: float = 0.0
    ) -> None:
        """Fail if something is wrong for too long."""
        key = machine.plan.name, words
        if not is_wrong:
            self._wrong_s.pop(key, None)
            return
        lasted_s = self._world.now_s - self._wrong_s.setdefault(key, self._world.now_s)
        most_s = FOLLOWS_S + 2 * machine.plan.sync_s + also_s
        assert lasted_s <= most_s, f"{words} on {machine.plan.name} for {lasted_s:.1f} s"


def _is_above(machine: SimulatedMachine) -> bool:
    """Return whether reservations come before all that runs and waits."""
    return machine.plan.configuration.reservations.policy == "above"


def versions_of(booking: Booking) -> dict[int, Booking]:
    """Return all that is kept of a booking, by version."""
    alone = with_fields(booking, later=None)
    if booking.later is None:
        return {booking.version: alone}
    fields = {name: getattr(booking.later, name) for name in booking.later.__struct_fields__}
    return {booking.version: alone, booking.later.version: with_fields(alone, **fields)}


def _taken_at(machine: SimulatedMachine, booking: Booking, wall_s: float) -> Resources:
    """Return what is booked at a moment: of each resource the most that one version has."""
    taken = NOTHING
    for each in versions_of(booking).values():
        if each.start_wall_s <= wall_s < each.end_wall_s - TOLERANCE_S:
            taken = taken.plus(positive(_given(machine, each).minus(taken)))
    return taken


def _given(machine: SimulatedMachine, booking: Booking) -> Resources:
    """Return what a booking takes of its machine."""
    return machine.plan.capacity if booking.resources is None else booking.resources


def _stored(home: SimulatedMachine, booking: Booking, node: SimulatedMachine) -> Reservation | None:
    """Return the reservation of a booking, durable or written with what its node writes."""
    number = booking.reservation.number
    if home is not node:
        return home.store.reservations.get(number)
    return {each.number: each for each in home.store.load().reservations}.get(number)


def _displaces(machine: SimulatedMachine, turn: Turn) -> bool:
    """Return whether a booking came above claims in this turn, also those just granted."""
    is_above = machine.plan.configuration.reservations.policy == "above"
    return is_above and any(type(record) is BookingStored for record in turn.records)
