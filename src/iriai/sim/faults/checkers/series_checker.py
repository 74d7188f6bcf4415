"""What is checked of series: each occurrence is made once, and none is forgotten (017, section 12).

Judged from what homes store, and from when the world says that occurrences begin.
"""

from __future__ import annotations

from iriai.machine.core import Machine
from iriai.machine.outbox import Turn
from iriai.model.ids import ReservationId, occurrence_number, series_of
from iriai.model.instant import Instant
from iriai.model.records import ReservationsDropped, ReservationStored
from iriai.model.reservation import Reservation, ReservationEnd, ReservationState
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.repeated_times import repeated_times

FOLLOWS_S = 3.0
"""Until a home has made what the horizon has reached, beside the time of its commits."""
UNDECIDED = (ReservationState.SEEKING, ReservationState.DECIDING)


class SeriesChecker:
    """Judges the series of all homes."""

    def __init__(self, calm_from_s: float) -> None:
        """From `calm_from_s` on nothing breaks."""
        self._calm_from_s = calm_from_s
        self._known: dict[str, tuple[Machine, dict[int, Reservation]]] = {}
        """By machine, its core and its reservations after its last turn."""
        self._late_from_s: dict[tuple[str, int], float] = {}
        """By machine and series, since when an occurrence is to be made that was not."""

    def check(self, machine: SimulatedMachine, turn: Turn, now: Instant, world_s: float) -> None:
        """Check a home after a turn."""
        name = machine.plan.name
        core, known = self._known.get(name, (None, {}))
        if core is not machine.core:
            known = dict(machine.store.reservations)
        for record in turn.records:
            if type(record) is ReservationStored:
                self._check_stored(name, record.reservation, known)
                known[record.reservation.number] = record.reservation
            elif type(record) is ReservationsDropped:
                for number in record.numbers:
                    known.pop(number, None)
        self._known[name] = machine.core, known
        for number, reservation in known.items():
            if reservation.repetition is not None:
                self._check_series(machine, number, known, now, world_s)

    def _check_stored(self, name: str, made: Reservation, known: dict[int, Reservation]) -> None:
        """Check that an occurrence that is made was not made before."""
        id_ = ReservationId(name, made.number)
        before = known.get(made.number)
        if not made.is_occurrence:
            return
        if before is not None:
            assert before.asked_wall_s == made.asked_wall_s, f"{id_} is made a second time"
            return
        for other in known.values():
            is_like = other.is_occurrence and series_of(other.number) == series_of(made.number)
            is_same = is_like and other.terms.start_wall_s == made.terms.start_wall_s
            assert not is_same, f"{id_} is {ReservationId(name, other.number)} once more"

    def _check_series(
        self,
        machine: SimulatedMachine,
        number: int,
        known: dict[int, Reservation],
        now: Instant,
        world_s: float,
    ) -> None:
        """Check that what was made is there, and that what is to be made is."""
        series, name = known[number], machine.plan.name
        assert series.repetition is not None
        made = series.repetition.made
        for place in range(1, made + 1):
            id_ = ReservationId(name, occurrence_number(number, place))
            assert id_.number in known, f"{id_} is used up, and nothing is known of it"
            is_left = series.end is ReservationEnd.CANCELLED and not known[id_.number].is_over
            assert not is_left, f"{id_} goes on, and its series was cancelled"
        start_wall_s = series.terms.start_wall_s
        horizon_wall_s = now.wall_s + machine.plan.configuration.reservations.horizon_s
        times = list(repeated_times(series.repetition.rule, "", start_wall_s))
        assert made <= len(times), f"{name} makes more of {number} than the rule has"
        if series.end is ReservationEnd.ENDED:
            assert made == len(times), f"{name} ends {number} before it is over"
        due = sum(each.start_wall_s <= horizon_wall_s for each in times)
        last = known.get(occurrence_number(number, made))
        waits = last is not None and last.state in UNDECIDED
        is_late = made < due and not waits and not series.is_over
        if not is_late or world_s < self._calm_from_s:
            self._late_from_s.pop((name, number), None)
            return
        since_s = self._late_from_s.setdefault((name, number), world_s)
        most_s = FOLLOWS_S + 2 * machine.plan.sync_s
        assert world_s - since_s <= most_s, f"{name} forgets an occurrence of {number}"
