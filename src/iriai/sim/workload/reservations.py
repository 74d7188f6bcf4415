"""Reservations beside a workload log: what is asked for when, and what became of it.

A file has a line for each, with the columns `asked`, `start`, `end` (seconds of the log), `width`
(processors) and `user`, in any order; the first line names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import BinaryIO, NamedTuple

from iriai.model.ids import Account
from iriai.model.problem import NotFound, UsageProblem
from iriai.model.reservation import LENGTH_MAX_S, LENGTH_MIN_S, ReservationTerms
from iriai.model.resources import Resources
from iriai.sim.workload.log import Log, LogReservation, Record

COLUMNS = ("asked", "start", "end", "width", "user")
LINE_BYTES_MAX = 4_096
ROWS_MAX = 1_000_000
"""As many as a log of years has jobs."""
SECONDS_MAX = 1e12
"""As in a log: sums and differences of such times are exact in a double."""
LATE_S = 1.0
"""A reservation that is not open so long after its start is late."""
PROMISE_STEP_S = 1.0
"""Improvements of a promise by less are not told, so a start so much later is none that is late."""
SHOWN_MAX = 40
"""Characters of a wrong value that are shown."""


class ReservationOutcome(NamedTuple):
    """What became of one."""

    reservation: LogReservation
    is_accepted: bool
    earliest_s: float | None = None
    """If it was refused: the earliest start that would have done; None: none was known."""
    is_late: bool = False
    """Whether it was not open `LATE_S` after its start."""


class LogRun(NamedTuple):
    """What became of a log: its jobs in its order, its reservations as they were asked for."""

    records: list[Record]
    reservations: Sequence[ReservationOutcome] = ()
    promises_broken: int = 0
    """Jobs that started later than they were told once, counted where there are reservations."""


class BadReservations(UsageProblem):
    """The file of reservations cannot be used."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__("bad-reservations", message, hint)


def with_reservations(log: Log, path: Path) -> Log:
    """Return the log with the reservations in `path` beside it.

    Raises:
        BadReservations: with the line that is to blame.
        NotFound: there is no such file.
    """
    try:
        with path.open("rb") as stream:
            return replace(log, reservations=in_order(_Reader(path.name, log).rows(stream)))
    except FileNotFoundError:
        hint = "give a file with a line for each reservation"
        raise NotFound("no-reservations", f"there is no file {path}", hint) from None
    except IsADirectoryError:
        hint = "give a file with a line for each reservation"
        raise BadReservations(f"{path} is a directory", hint) from None


def in_order(reservations: Iterable[LogReservation]) -> tuple[LogReservation, ...]:
    """Return them in the order in which they are asked for, numbered by that."""
    ordered = sorted(reservations, key=lambda each: (each.asked_s, each.number))
    return tuple(each._replace(number=number) for number, each in enumerate(ordered, 1))


def terms_of(asked: LogReservation, log: Log, machines: int) -> ReservationTerms:
    """Return what is asked of the machines: cpus of the one; whole ones where there are several."""
    nodes, resources = 1, None
    if machines == 1:
        resources = Resources(asked.width)
    else:
        nodes = min(machines, -(-asked.width // (log.processors // machines)))
    return ReservationTerms(
        asked.account,
        asked.account.user,
        log.began_wall_s + asked.start_s,
        log.began_wall_s + asked.end_s,
        nodes,
        resources,
    )


class ToldPromises:
    """The starts that waiting jobs were promised, and whether they were kept."""

    def __init__(self) -> None:
        self.broken = 0
        self._start_s: dict[int, float] = {}
        """By job, the earliest that it was told."""

    def told(self, job: int, start_s: float | None) -> None:
        """Note what a job is told now; None takes it back, and is no excuse."""
        before_s = self._start_s.get(job)
        if start_s is not None and (before_s is None or start_s < before_s):
            self._start_s[job] = start_s

    def started(self, job: int, now_s: float) -> None:
        """Note that a job starts."""
        start_s = self._start_s.pop(job, None)
        if start_s is not None and now_s > start_s + PROMISE_STEP_S:
            self.broken += 1


class _Reader:
    """A reader of one file."""

    def __init__(self, name: str, log: Log) -> None:
        self._name = name
        self._processors = log.processors
        self._accounts: dict[str, Account] = {}
        """By name, and by group and name."""
        for job in log.jobs:
            account = job.account
            self._accounts.setdefault(account.user, account)
            self._accounts[f"{account.group}/{account.user}"] = account
        self._line = 0

    def rows(self, stream: BinaryIO) -> Iterator[LogReservation]:
        """Yield each reservation, with its line as its number."""
        lines = self._lines(stream)
        header = next(lines, None)
        names = [] if header is None else header
        if sorted(names) != sorted(COLUMNS):
            raise self._bad("does not name the columns", f"begin with: {','.join(COLUMNS)}")
        for count, values in enumerate(lines):
            if count == ROWS_MAX:
                raise self._bad(f"is one too many: there are {ROWS_MAX:,}", "use fewer")
            if len(values) != len(names):
                what = f"has {len(values)} values"
                raise self._bad(what, f"write {len(names)}: {','.join(names)}")
            yield self._row(dict(zip(names, values, strict=True)))

    def _lines(self, stream: BinaryIO) -> Iterator[list[str]]:
        while data := stream.readline(LINE_BYTES_MAX + 1):
            self._line += 1
            if len(data) > LINE_BYTES_MAX:
                hint = "write one reservation in each line"
                raise self._bad(f"is longer than {LINE_BYTES_MAX} bytes", hint)
            try:
                text = data.decode()
            except UnicodeDecodeError:
                raise self._bad("is not text", "write it as UTF-8") from None
            if text.strip():
                yield [word.strip() for word in text.split(",")]

    def _row(self, row: Mapping[str, str]) -> LogReservation:
        asked_s, start_s, end_s = (self._seconds(row, name) for name in ("asked", "start", "end"))
        if end_s <= start_s:
            raise self._bad(f"ends at {end_s:.15g}", f"its start is {start_s:.15g}: end later")
        if not LENGTH_MIN_S <= end_s - start_s <= LENGTH_MAX_S:
            hint = f"use {LENGTH_MIN_S:.0f} to {LENGTH_MAX_S:.0f}"
            raise self._bad(f"has a length of {end_s - start_s:.15g} s", hint)
        if start_s < asked_s:
            hint = f"it is asked for at {asked_s:.15g}: start then or later"
            raise self._bad(f"starts at {start_s:.15g}", hint)
        account = self._accounts.get(row["user"])
        if account is None:
            hint = "name one as u12, or g3/u12"
            raise self._bad(f"has a user that the log has not: {_shown(row['user'])}", hint)
        return LogReservation(self._line, asked_s, start_s, end_s, self._width(row), account)

    def _seconds(self, row: Mapping[str, str], name: str) -> float:
        try:
            value = float(row[name])
        except ValueError:
            value = -1.0
        if not (isfinite(value) and 0.0 <= value <= SECONDS_MAX):
            hint = f"write seconds of the log, 0 to {SECONDS_MAX:.0e}"
            raise self._bad(f"has no {name} that is one: {_shown(row[name])}", hint)
        return value

    def _width(self, row: Mapping[str, str]) -> int:
        text = row["width"]
        width = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
        if not 1 <= width <= self._processors:
            hint = f"write a number of processors, 1 to {self._processors}"
            raise self._bad(f"has no width that is one: {_shown(text)}", hint)
        return width

    def _bad(self, what: str, hint: str) -> BadReservations:
        return BadReservations(f"{self._name}, line {max(1, self._line)}, {what}", hint)


def _shown(text: str) -> str:
    return repr(text[:SHOWN_MAX])
