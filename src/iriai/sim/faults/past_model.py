"""What a store in memory tells of the jobs that it keeps, as `iriai.store.reading` does."""

from __future__ import annotations

from collections import Counter

import msgspec
from msgspec.structs import astuple

from iriai.model.charge_factors import encode_factors
from iriai.model.history import HistoryRow, JobRecord, Selection
from iriai.model.records import AttemptResult, JobAccepted, JobEvent
from iriai.model.state import ATTEMPT_ONLY, EndCause
from iriai.sim.world.store_model import StoreModel


class PastModel:
    """The jobs of a store that are durable, nothing of which is ever deleted."""

    def __init__(self, store: StoreModel) -> None:
        self._store = store

    def job(self, number: int) -> JobRecord | None:
        """Return the job of this number, finished or not; None if there is none."""
        accepted, finished = self._store.accepted.get(number), self._store.finished.get(number)
        if accepted is None:
            return None
        if finished is None:
            return JobRecord(number, accepted.spec, accepted.submitted_wall_s, None, None, None)
        completed = self.causes(number).get(EndCause.COMPLETED, 0)
        of = (number, finished.spec or accepted.spec, accepted.submitted_wall_s)
        return JobRecord(*of, finished.wall_s, finished.cause, completed)

    def finished_jobs(self, selection: Selection, limit: int) -> list[JobRecord]:
        """Return jobs of the owner whose last task has ended, the latest first."""
        found = [record for record in map(self.job, self._store.finished) if record is not None]
        owner = selection.owner
        found = [record for record in found if owner in (None, record.spec.user)]
        return sorted(found, key=lambda each: each.finished_wall_s or 0.0, reverse=True)[:limit]

    def events(self, number: int) -> list[JobEvent]:
        """Return the events of a job in order, except those replaced by a snapshot."""
        return self._store.events.get(number, [])

    def history(self, selection: Selection, limit: int) -> list[HistoryRow]:
        """Return attempts of a job that ended, the latest first."""
        rows = [
            _history_row(result, self._store.accepted[result.attempt.number])
            for result in self._store.results.values()
            if result.attempt.number == selection.job
            and selection.task_index in (None, result.attempt.index)
            and selection.cause in (None, result.cause)
        ]
        rows.sort(key=lambda row: (row.ended_wall_s, row.task_index, row.attempt), reverse=True)
        return rows[:limit]

    def last_attempts(self, number: int, after_index: int, limit: int) -> list[HistoryRow]:
        """Return the last attempt of each task above `after_index`, by index."""
        last: dict[int, HistoryRow] = {}
        for row in sorted(self.history(Selection(job=number), len(self._store.results))):
            if row.task_index > after_index:
                last[row.task_index] = row
        return list(last.values())[:limit]

    def causes(self, number: int) -> dict[EndCause, int]:
        """Return the number of ended tasks of a job by cause, of those that had an attempt."""
        last = self.last_attempts(number, -1, len(self._store.results))
        return Counter(row.cause for row in last if row.cause not in ATTEMPT_ONLY)

    def payload_sizes(self) -> dict[str, int]:
        """Return no texts: jobs here bring none."""
        return {}

    def last_deleted(self) -> int:
        """Return 0, since nothing is deleted."""
        return 0

    def history_from_wall_s(self) -> float | None:
        """Return None, since nothing is deleted."""
        return None


def _history_row(result: AttemptResult, accepted: JobAccepted) -> HistoryRow:
    spec, usage = accepted.spec, result.usage
    ended = (result.machine, result.cause, result.exit_code, result.signal, *astuple(usage))
    times = (result.started_wall_s, result.ended_wall_s, result.elapsed_s, result.charge_s)
    told = (result.message, encode_factors(result.factors))
    job = (*spec.account, spec.user, spec.name, accepted.submitted_wall_s)
    return msgspec.convert((*result.attempt[1:], *ended, *times, *told, *job), HistoryRow)
