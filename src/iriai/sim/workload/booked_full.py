"""Reservations in a full simulation: homes ask for them, nodes hold and confirm, bookings open.

One is asked for after the other, as `booked_replay` does; what is due meanwhile waits for that.
"""

from __future__ import annotations

from iriai.machine.outbox import Turn
from iriai.model.instant import Instant
from iriai.model.problem import Problem
from iriai.model.records import JobEvent, Promised
from iriai.protocol.messages.effects import ReservationAnswered
from iriai.sim.workload.log import Log, LogReservation
from iriai.sim.workload.reservations import (
    LATE_S,
    ReservationOutcome,
    ToldPromises,
    terms_of,
)
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.world import World


class BookedWorld:
    """The reservations of one full simulation. Times are those of the log, and of the world."""

    def __init__(self, world: World, front: SimulatedMachine, log: Log, machines: int) -> None:
        """`front` has the home that is asked for all of them."""
        self.promises = ToldPromises()
        self._world = world
        self._front = front
        self._log = log
        self._machines = machines
        self._asked: dict[int, LogReservation] = {}
        """Those that are not answered, by the home's number."""
        self._next = 0
        """The place of the next that is asked for."""
        self._confirmed: dict[int, LogReservation] = {}
        """Those that are not over, by the home's number."""
        self._late: dict[int, None] = {}
        self._outcomes: list[ReservationOutcome] = []
        front.on_reservation = self._answered
        world.watchers.append(self._watch)
        self._plan_next()

    @property
    def outcomes(self) -> list[ReservationOutcome]:
        """Return what became of each, in the order in which they were asked for."""
        return sorted(self._outcomes, key=lambda each: each.reservation.number)

    @property
    def are_over(self) -> bool:
        """Return whether all were asked for, and are over."""
        return len(self._outcomes) == len(self._log.reservations)

    def started(self, number: int) -> None:
        """Note that a job starts."""
        self.promises.started(number, self._world.now_s)

    def _plan_next(self) -> None:
        if self._next < len(self._log.reservations) and not self._asked:
            at_s = self._log.reservations[self._next].asked_s
            self._world.agenda.at(max(at_s, self._world.now_s), self._ask)

    def _ask(self) -> None:
        if self._asked:
            return
        asked = self._log.reservations[self._next]
        self._next += 1
        terms = terms_of(asked, self._log, self._machines)
        home = self._front.core.home
        try:
            named = home.reservations.ask(terms, self._front.clock.at(self._world.now_s))
        except Problem:
            self._outcomes.append(ReservationOutcome(asked, is_accepted=False))
            self._plan_next()
            return
        self._asked[named.number] = asked
        self._front.asked()
        self._world.touch(self._front)

    def _answered(self, _machine: SimulatedMachine, answer: ReservationAnswered) -> None:
        asked = self._asked.pop(answer.number)
        if answer.is_confirmed:
            self._confirmed[answer.number] = asked
            agenda, now_s = self._world.agenda, self._world.now_s
            look_s = min(asked.start_s + LATE_S, asked.end_s)
            agenda.at(max(now_s, look_s), lambda: self._look(answer.number))
            agenda.at(max(now_s, asked.end_s), lambda: self._end(answer.number))
        else:
            wall_s = answer.earliest_wall_s
            earliest_s = None if wall_s is None else wall_s - self._log.began_wall_s
            self._outcomes.append(ReservationOutcome(asked, False, earliest_s))
        self._plan_next()

    def _look(self, number: int) -> None:
        """Note whether a reservation that has begun is open on all its machines."""
        reservation = self._front.core.home.reservations.get(number)
        for name in reservation.nodes:
            bookings = self._world.machines[name].core.node.bookings.kept
            if not any(each.number == number and bookings[each].is_open for each in bookings):
                self._late[number] = None

    def _end(self, number: int) -> None:
        asked = self._confirmed.pop(number)
        self._outcomes.append(ReservationOutcome(asked, True, is_late=number in self._late))

    def _watch(self, machine: SimulatedMachine, turn: Turn, _now: Instant) -> None:
        """Note what is stored of promises."""
        if machine is self._front:
            for record in turn.records:
                if type(record) is JobEvent and type(record.change) is Promised:
                    wall_s = record.change.start_wall_s
                    start_s = None if wall_s is None else wall_s - self._log.began_wall_s
                    self.promises.told(record.number, start_s)
