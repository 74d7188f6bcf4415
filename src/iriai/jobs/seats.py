"""The seats of a job's attempts, as `show --ranks` lists them: from the home and from the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Protocol

from msgspec.structs import replace

from iriai.home.active_task import ActiveTask
from iriai.jobs.views import output_paths, past_attempt_row, running_row
from iriai.model.history import HistoryRow, SeatRow
from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec
from iriai.model.ranks import ONE, SEATS_MAX, SeatPlace
from iriai.model.records import Attempted, JobEvent
from iriai.wire.requests import AttemptRow

SEATS_SHOWN_MAX = SEATS_MAX
"""Seats of one job in an answer: as many as one attempt has at most."""


RunningTask = tuple[int, ActiveTask, float | None]
"""Index and state of a task that has claims, and when its first rank began, if that is known."""


class StoredSeats(Protocol):
    """What a store tells of the seats of one home's jobs; see `store.reading.Reader`."""

    def events(self, number: int) -> list[JobEvent]:
        """Return the events of a job in order, except those replaced by a snapshot."""

    def seats(self, number: int, task_index: int, attempt: int) -> list[SeatRow]:
        """Return the seats of one attempt that have ended, by rank."""


class JobSeats:
    """The seats of one job's attempts."""

    def __init__(
        self, home: str, number: int, spec: JobSpec, stored: StoredSeats, spool: str
    ) -> None:
        self._home = home
        self._number = number
        self._spec = spec
        self._stored = stored
        self._spool = spool
        self._places: dict[tuple[int, int], Sequence[SeatPlace]] = {}
        """The seats of attempts, by (task index, attempt); older ones are folded."""
        for event in stored.events(number):
            if isinstance(event.change, Attempted):
                self._places |= dict.fromkeys(event.change.tasks, event.change.seats)

    def counted(self, row: AttemptRow, index: int) -> AttemptRow:
        """Return the row of an attempt with how many ranks and seats it has."""
        places = self._places.get((index, row.attempt))
        if not places:
            return row if places is not None or self._spec.shape == ONE else replace(row, ranks=0)
        row = replace(row, ranks=sum(place.ranks for place in places), seats=len(places))
        whole = AttemptId(self._home, self._number, index, row.attempt)
        return self._with_files(row, whole) if len(places) > 1 else row

    def rows(self, running: Iterable[RunningTask], past: Iterable[HistoryRow]) -> list[AttemptRow]:
        """Return the seats of the newest attempts: of those that run first, then of `past`."""
        return list(islice(self._all(running, past), SEATS_SHOWN_MAX))

    def _all(
        self, running: Iterable[RunningTask], past: Iterable[HistoryRow]
    ) -> Iterator[AttemptRow]:
        for index, task, started_wall_s in running:
            yield from self._running(index, task, started_wall_s)
        for row in past:
            yield from self._past(row)

    def _running(
        self, index: int, task: ActiveTask, started_wall_s: float | None
    ) -> Iterator[AttemptRow]:
        attempt = AttemptId(self._home, self._number, index, task.attempt)
        whole = running_row(self._spec, attempt, task, started_wall_s, self._spool)
        row = replace(whole, seats=1)
        parallel = task.parallel
        if parallel is None:
            yield row
            return
        over = {}
        if len(parallel.seats()) < len(parallel.places):
            over = {each.first_rank: each for each in self._stored_of(index, task.attempt)}
        for rank, place in _numbered(parallel.places):
            seat = replace(row, machine=place.machine, rank=rank, ranks=place.ranks)
            if rank in parallel:
                phase = parallel.phase_of(rank)
                state = "asked" if phase is None else phase.name.lower()
                seat = replace(seat, state=state)
                is_one = len(parallel.places) == 1
                yield seat if is_one else self._with_files(seat, attempt.seat(rank))
            elif rank in over:
                yield self._ended(attempt.seat(rank), over[rank], len(parallel.places))
            else:  # it ended a moment ago
                yield replace(seat, state="finished")

    def _past(self, row: HistoryRow) -> Iterator[AttemptRow]:
        attempt = AttemptId(self._home, self._number, row.task_index, row.attempt)
        places = self._places.get((row.task_index, row.attempt), ())
        over = self._stored_of(row.task_index, row.attempt)
        if over:
            for each in over:
                yield self._ended(attempt.seat(each.first_rank), each, len(over))
            return
        whole = past_attempt_row(self._spec, attempt, row, self._spool)
        if not places:
            yield self.counted(whole, row.task_index)
        for rank, place in _numbered(places):  # it was refused before any had started
            yield replace(whole, machine=place.machine, rank=rank, ranks=place.ranks)

    def _stored_of(self, index: int, attempt: int) -> list[SeatRow]:
        return self._stored.seats(self._number, index, attempt)

    def _ended(self, seat: AttemptId, row: SeatRow, count: int) -> AttemptRow:
        """Return the row of one of so many seats."""
        told = past_attempt_row(self._spec, seat, row, self._spool)
        told = replace(told, rank=seat.rank, ranks=row.ranks)
        return told if count == 1 else self._with_files(told, seat)

    def _with_files(self, row: AttemptRow, seat: AttemptId) -> AttemptRow:
        output, error = output_paths(self._spec, seat, self._spool, seat.rank)
        return replace(row, output=output, error=error)


def _numbered(places: Sequence[SeatPlace]) -> Iterator[tuple[int, SeatPlace]]:
    """Yield the first rank and the place of each seat."""
    firsts = accumulate((place.ranks for place in places), initial=0)
    return zip(firsts, places, strict=False)
