"""Which reservations tasks inside have used, by the cpu time that nodes tell (docs/spec/017).

A reservation is used once a task inside has used a hundredth of its cpus for the time since its
start: as measured while it runs, or at its end.
"""

from __future__ import annotations

from collections.abc import Iterable

from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.reservation import has_used
from iriai.protocol.messages.scheduling import Begun, End

TOLD_S = 60.0
"""For so long it counts that a machine told of a task that it does not use its cpus: it tells so
again each time that it measures."""


class UseInside:
    """Told of tasks of jobs inside alone."""

    def __init__(self) -> None:
        self._used: dict[int, None] = {}
        """Reservations that were used since they were last asked for, by number."""
        self._idle_s: dict[AttemptId, dict[int, float]] = {}
        """By attempt and first rank of a seat, when its machine last told that it idles."""

    def drain(self) -> list[int]:
        """Return the reservations that a task has used since the last call."""
        used = list(self._used)
        if used:
            self._used.clear()
        return used

    def begun(self, begun: Begun, spec: JobSpec, now: Instant) -> None:
        """Note what the machine of a seat tells of its use."""
        if spec.reservation is None or begun.is_used is None:
            return
        if begun.is_used:
            self._used[spec.reservation.number] = None
        else:
            seats = self._idle_s.setdefault(begun.attempt.seat(0), {})
            seats[begun.attempt.rank] = now.steady_s

    def ended(self, end: End, spec: JobSpec, ranks: int) -> None:
        """Note what a seat of so many ranks has used until its end."""
        result = end.result
        if spec.reservation is None or result.elapsed_s <= 0.0:
            return
        if has_used(result.usage.cpu_s, spec.resources.cpus * ranks, result.elapsed_s):
            self._used[spec.reservation.number] = None

    def over(self, attempt: AttemptId) -> None:
        """Forget an attempt."""
        self._idle_s.pop(attempt, None)

    def idles(self, attempt: AttemptId, ranks: Iterable[int], now: Instant) -> bool:
        """Return whether all seats that begin with `ranks` were told to idle just now."""
        told = self._idle_s.get(attempt, {})
        since_s = now.steady_s - TOLD_S
        return all(rank in told and told[rank] >= since_s for rank in ranks)
