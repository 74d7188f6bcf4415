"""The changes of one turn, gathered so that an array costs events by turns and not by tasks."""

from __future__ import annotations

from collections.abc import Iterator

from iriai.model.reason import Reason
from iriai.model.records import Attempted, Change, Ended, Started
from iriai.model.state import EndCause

_EndedTask = tuple[int, int, EndCause, int | None, int | None]


class EventBatch:
    """Changes by job, in the order in which they happened; neighbours of one kind are one."""

    def __init__(self) -> None:
        self._jobs: dict[int, list[Change]] = {}
        self._attempted: dict[int, tuple[str, list[tuple[int, int]]]] = {}
        self._started: dict[int, list[tuple[int, int]]] = {}
        self._ended: dict[int, list[_EndedTask]] = {}
        self._refusals: dict[int, dict[Reason, None]] = {}

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return bool(self._jobs or self._attempted or self._started or self._ended)

    def other(self, number: int, change: Change) -> None:
        """A change of a kind that is not gathered."""
        self._close(number)
        self._jobs.setdefault(number, []).append(change)

    def attempted(self, number: int, index: int, attempt: int, machine: str) -> None:
        """A task got an attempt on `machine`."""
        current = self._attempted.get(number)
        if current is not None and current[0] == machine:
            current[1].append((index, attempt))
            return
        self._close(number)
        self._attempted[number] = (machine, [(index, attempt)])

    def started(self, number: int, index: int, attempt: int) -> None:
        """An attempt's process runs."""
        current = self._started.get(number)
        if current is None:
            self._close(number)
            current = self._started[number] = []
        current.append((index, attempt))

    def ended(self, number: int, end: _EndedTask, refusal: Reason | None = None) -> None:
        """An attempt ended; `refusal` is why it was refused, if it was."""
        current = self._ended.get(number)
        if current is None:
            self._close(number)
            current = self._ended[number] = []
        current.append(end)
        if refusal is not None:
            self._refusals.setdefault(number, {})[refusal] = None

    def take(self) -> Iterator[tuple[int, list[Change]]]:
        """Each job with its changes; forgets them."""
        for number in (*self._attempted, *self._started, *self._ended):
            self._close(number)
        jobs, self._jobs = self._jobs, {}
        yield from jobs.items()

    def _close(self, number: int) -> None:
        """End the run of like changes that is open for a job; at most one is."""
        change: Change
        if (attempted := self._attempted.pop(number, None)) is not None:
            change = Attempted(tuple(attempted[1]), attempted[0])
        elif (started := self._started.pop(number, None)) is not None:
            change = Started(tuple(started))
        elif (ended := self._ended.pop(number, None)) is not None:
            change = Ended(tuple(ended), tuple(self._refusals.pop(number, ())))
        else:
            return
        self._jobs.setdefault(number, []).append(change)
