"""The story of a job: its stored events, with what the history knows of its attempts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, assert_never

from msgspec.structs import replace

from iriai.model.alteration import differences
from iriai.model.history import HistoryRow, JobRecord
from iriai.model.ids import JobId
from iriai.model.job import Dependency, task_count
from iriai.model.ranks import ONE, SeatPlace
from iriai.model.records import (
    Altered,
    Attempted,
    Cancelled,
    Commented,
    Decided,
    DependencyFailed,
    DependencyMet,
    Ended,
    Held,
    JobEvent,
    Promised,
    ReasonsTold,
    Released,
    Requeued,
    ReservationOver,
    SeatEnded,
    Snapshot,
    Started,
    Stepped,
    UserSuspended,
)
from iriai.model.reservation import over_text
from iriai.model.state import EndCause
from iriai.model.suspension import reasons_text
from iriai.model.units import format_duration
from iriai.wire.changes import StoryRow

RANGES_SHOWN_MAX = 8
"""Of task indices in one row; more is what `iriai show` is for."""
WAITS_SHOWN_S = 1.0
"""Shorter waits for a turn are not worth a word."""


class _Row(NamedTuple):
    """One thing that happened to some tasks; none are named if it happened to the job."""

    what: str
    tasks: Sequence[int] = ()
    machine: str = ""
    by: str = ""
    text: str = ""


class StoryBuilder:
    """Builds the story of one job from its events."""

    def __init__(
        self, home: str, record: JobRecord, history: Iterable[HistoryRow], task: int | None
    ) -> None:
        """`task` limits the story to one task and the events of the whole job; None: all."""
        self._home = home
        self._record = record
        self._task = task
        self._attempts = {(row.task_index, row.attempt): row for row in history}
        self._begun: set[tuple[int, int]] = set()
        """Attempts whose start was told before their end."""
        self._open: dict[Dependency, None] = {}
        self._is_held = record.spec.held
        self._ready_s: float | None = None

    def rows(self, events: list[JobEvent]) -> Iterator[StoryRow]:
        """Yield the rows of the story, in order."""
        record = self._record = _as_submitted(self._record, events)
        self._open = dict.fromkeys(record.spec.after)
        self._set_ready(record.submitted_wall_s)
        yield StoryRow(
            record.submitted_wall_s, "submitted", "", "", record.spec.user, self._submitted(), ""
        )
        for event in events:
            if isinstance(event.change, Ended):
                yield from self._starts_of_short(event.change, event.story)
            for what, tasks, machine, by, text in self._event_rows(event):
                yield StoryRow(event.wall_s, what, _ranges(tasks), machine, by, text, event.story)
        if record.finished_wall_s is not None:
            ended = "" if record.cause is None else str(record.cause)
            yield StoryRow(record.finished_wall_s, "finished", "", "", "", ended, "")

    def _submitted(self) -> str:
        spec = self._record.spec
        tasks = task_count(spec.array)
        parts = [f"for {spec.account}", f"{tasks:,} tasks" if spec.is_array else ""]
        parts.append("" if spec.shape == ONE else str(spec.shape))
        parts.append("held" if spec.held else "")
        parts.append(" ".join(["after", *map(str, spec.after)]) if spec.after else "")
        return ", ".join(part for part in parts if part)

    def _event_rows(self, event: JobEvent) -> Iterator[_Row]:
        change = event.change
        match change:
            case Attempted(tasks, machine, seats):
                indices = [index for index, _ in tasks]
                yield from self._claimed(indices, machine, _seats_text(seats), event.wall_s)
            case Decided() | SeatEnded() | Stepped():
                yield from self._of_seats(change)
            case UserSuspended() | ReasonsTold() | Requeued():
                yield from self._suspensions(change)
            case Started(tasks):
                self._begun.update(tasks)
                yield from self._started(tasks)
            case Ended():
                yield from self._ended(change)
            case Cancelled(indices, by):
                named = self._mine(indices)
                if named or not indices:
                    text = "" if indices else "all tasks that had not ended"
                    yield _Row("cancelled", named, by=by, text=text)
            case Held() | Released() | Commented():
                yield self._of_job(change, event.wall_s)
            case Promised(start_wall_s, machine, pool):
                in_s = None if start_wall_s is None else max(0.0, start_wall_s - event.wall_s)
                text = "withdrawn" if in_s is None else f"a start within {format_duration(in_s)}"
                text += f", in pool {pool}" if pool else ""
                yield _Row("promised", machine=machine, text=text)
            case DependencyMet() | DependencyFailed() | ReservationOver():
                yield from self._condition_rows(change, event.wall_s)
            case Altered(was, now, by):
                for each in differences(was, now):
                    text = f"{each.field}: {each.was} -> {each.now}"
                    yield _Row("altered", by=by, text=text)
                if isinstance(now.after, tuple):
                    self._open = dict.fromkeys(now.after)
                    self._set_ready(event.wall_s)
            case Snapshot():
                text = "earlier events are kept as attempts: see iriai show"
                yield _Row("folded", text=text)
            case _:
                assert_never(change)

    def _of_job(self, change: Held | Released | Commented, wall_s: float) -> _Row:
        if isinstance(change, Commented):
            return _Row("commented", by=change.by, text=change.text)
        self._is_held = isinstance(change, Held)
        self._set_ready(wall_s)
        is_operators = isinstance(change, Held) and change.is_operators
        text = "only an operator may release it" if is_operators else ""
        return _Row("held" if self._is_held else "released", by=change.by, text=text)

    def _claimed(
        self, indices: list[int], machine: str, seats: str, wall_s: float
    ) -> Iterator[_Row]:
        waited_s = 0.0 if self._ready_s is None else wall_s - self._ready_s
        if waited_s >= WAITS_SHOWN_S and self._mine(indices):
            text = f"{format_duration(waited_s)} for its turn and for free resources"
            yield _Row("waited", text=text)
        self._ready_s = wall_s
        if named := self._mine(indices):
            yield _Row("claimed", named, machine, text=seats)

    def _started(self, tasks: Iterable[tuple[int, int]]) -> Iterator[_Row]:
        if named := self._mine(index for index, _ in tasks):
            yield _Row("started", named)

    def _of_seats(self, change: Decided | SeatEnded | Stepped) -> Iterator[_Row]:
        """Yield what happened to seats of attempts: all are held, some ended, one has a step."""
        if isinstance(change, Stepped):
            if named := self._mine((change.task[0],)):
                text = f"job step {change.step}, beside rank {change.rank}"
                yield _Row("stepped", named, change.machine, change.by, text)
            return
        if isinstance(change, Decided):
            if named := self._mine(index for index, _ in change.tasks):
                yield _Row("confirmed", named, text="all its machines hold its ranks")
            return
        for result, count in change.results:
            if named := self._mine((result.attempt.index,)):
                text = _ended_text(result.cause, result.exit_code, result.signal, result.message)
                first = result.attempt.rank
                whose = f"ranks {first} to {first + count - 1}" if count > 1 else f"rank {first}"
                what = f"{whose}: {text}"
                yield _Row("seat ended", named, result.machine, text=what)

    def _suspensions(self, change: UserSuspended | ReasonsTold | Requeued) -> Iterator[_Row]:
        """Yield what users suspended, and what machines froze and thawed; equals share a row."""
        if isinstance(change, Requeued):
            if named := self._mine(index for index, _ in change.tasks):
                yield _Row("requeued", named, by=change.by)
            return
        if isinstance(change, UserSuspended):
            if named := self._mine(index for index, _ in change.tasks):
                yield _Row("suspended" if change.is_wanted else "unsuspended", named, by=change.by)
            return
        alike: dict[tuple[str, str], list[int]] = {}
        for index, _, rank, reasons, is_resuming, moved_to, seen in change.seats:
            if self._mine((index,)) and moved_to is not None:
                alike.setdefault(("moved", f"to queue {moved_to}"), []).append(index)
            elif self._mine((index,)):
                text = reasons_text(reasons, is_resuming=is_resuming, seen=seen)
                text = f"rank {rank}: {text}".removesuffix(": ") if rank else text
                alike.setdefault(("frozen" if reasons else "thawed", text), []).append(index)
        for (what, text), indices in alike.items():
            yield _Row(what, indices, text=text)

    def _starts_of_short(self, change: Ended, story: str) -> Iterator[StoryRow]:
        """Yield the start of tasks so short that only their ends are events."""
        rows = [
            row
            for index, attempt, *_ in change.tasks
            if (row := self._attempts.get((index, attempt))) is not None
            and row.elapsed_s > 0.0
            and (index, attempt) not in self._begun
        ]
        if named := self._mine(row.task_index for row in rows):
            began_wall_s = min(row.started_wall_s for row in rows)
            yield StoryRow(began_wall_s, "started", _ranges(named), "", "", "", story)

    def _ended(self, change: Ended) -> Iterator[_Row]:
        """Yield the ends of one turn; tasks with equal ends share a row."""
        alike: dict[tuple[str, str, str], list[int]] = {}
        for index, attempt, cause, exit_code, signal in change.tasks:
            if not self._mine((index,)):
                continue
            row = self._attempts.get((index, attempt))
            what = "refused" if cause is EndCause.REFUSED else "ended"
            text = _ended_text(cause, exit_code, signal, row.message if row else "")
            if cause is EndCause.REFUSED and change.refusals:
                text = "; ".join(map(str, change.refusals))
            alike.setdefault((what, row.machine if row else "", text), []).append(index)
        for (what, machine, text), indices in alike.items():
            yield _Row(what, indices, machine, text=text)

    def _condition_rows(
        self, change: DependencyMet | DependencyFailed | ReservationOver, wall_s: float
    ) -> Iterator[_Row]:
        if isinstance(change, ReservationOver):
            text = over_text(change.reservation, change.end)
            if self._record.spec.or_queue:
                yield _Row("altered", text=f"{text}, and what waits goes on without it")
            else:
                yield _Row("cancelled", text=text)
            return
        if isinstance(change, DependencyFailed):
            text = change.dependency.failed_text(change.cause)
            yield _Row("cancelled", text=f"{text}, so {change.dependency} can never hold")
            return
        for dependency, cause in change.ends:
            self._open.pop(dependency, None)
            ended = f"{JobId(dependency.home, dependency.number)} ended {cause}"
            yield _Row("dependency", text=f"{dependency} holds: {ended}")
        self._set_ready(wall_s)

    def _set_ready(self, wall_s: float) -> None:
        self._ready_s = None if self._open or self._is_held else wall_s

    def _mine(self, indices: Iterable[int]) -> list[int]:
        return [index for index in indices if self._task in (None, index)]


def _as_submitted(record: JobRecord, events: list[JobEvent]) -> JobRecord:
    """Return `record` with the spec as submitted, without later alterations."""
    spec = record.spec
    if record.finished_wall_s is not None:
        for event in reversed(events):
            if isinstance(event.change, Altered):
                spec = event.change.was.applied(spec)
    return replace(record, spec=spec)


def _ended_text(cause: EndCause, exit_code: int | None, signal: int | None, message: str) -> str:
    text = str(cause)
    if cause is EndCause.FAILED and signal is not None:
        text = f"failed by signal {signal}"
    elif cause is EndCause.FAILED and exit_code is not None:
        text = f"failed with exit code {exit_code}"
    return f"{text}: {message}" if message else text


def _seats_text(seats: Sequence[SeatPlace]) -> str:
    """Return the machines of an attempt and their ranks; of many, the first."""
    shown = [f"{ranks} on {machine}" for machine, ranks in seats[:RANGES_SHOWN_MAX]]
    more = len(seats) - len(shown)
    shown += [f"and on {more} more machines"] if more else []
    return f"ranks: {', '.join(shown)}" if shown else ""


def _ranges(indices: Sequence[int]) -> str:
    """Return `indices` in order as text such as 1-3,7; of many, the first ranges."""
    found: list[list[int]] = []
    for index in sorted(indices):
        if found and found[-1][1] == index - 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in found[:RANGES_SHOWN_MAX]]
    more = sum(b - a + 1 for a, b in found[RANGES_SHOWN_MAX:])
    return ",".join(shown) + (f" and {more} more" if more else "")
