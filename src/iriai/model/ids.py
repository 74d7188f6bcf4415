"""Ids, short and typable: `ume-42` a job, `ume-42.7` a task, `ume-42.7#2` its second attempt."""

from __future__ import annotations

import re
from typing import NamedTuple

from iriai.model.bounds import Count, Name
from iriai.model.problem import UsageProblem
from iriai.model.units import TEXT_LENGTH_MAX, printable


class Account(NamedTuple):
    """A group and a user in it; usage under one group does not count in another."""

    group: Name
    user: Name

    def __str__(self) -> str:
        return f"{self.group}/{self.user}"


HOME_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_ID = re.compile(r"(?P<home>[a-z][a-z0-9-]{0,30})-(?P<number>\d{1,15})(?:\.(?P<index>\d{1,9}))?")


class JobId(NamedTuple):
    """A job: its home's name and the number the home gave it."""

    home: Name
    number: Count

    def __str__(self) -> str:
        return f"{self.home}-{self.number}"


class TaskId(NamedTuple):
    """A task: its job and its array index (0 for a single job)."""

    home: Name
    number: Count
    index: Count  # type: ignore[assignment]  # shadows tuple.index, which nobody calls on an id

    @property
    def job(self) -> JobId:
        """The job this task belongs to."""
        return JobId(self.home, self.number)

    def __str__(self) -> str:
        return f"{self.home}-{self.number}.{self.index}"


NOTICE_ATTEMPT = 0
"""The attempt number of a notice after a job's end; attempts of tasks count from 1. A notice about
a reservation has its number for a job's, and its count of news, from 1, for a rank."""


class AttemptId(NamedTuple):
    """One execution of a task, numbered from 1 by the task's home; or a seat of one, or a step.

    `ume-42.7#2.4` is the seat of attempt `ume-42.7#2` that begins with rank 4. The first seat
    begins with rank 0: it is named as the attempt is (docs/spec/011, section 1). `ume-42.7#2.4+3`
    is the third job step of the task, beside that seat (section 8).
    """

    home: Name
    number: Count
    index: Count  # type: ignore[assignment]  # shadows tuple.index, which nobody calls on an id
    attempt: Count
    rank: Count = 0
    """The first rank of the seat."""
    step: Count = 0
    """The number of a step beside the seat; 0: the seat itself."""

    @property
    def task(self) -> TaskId:
        """The task that this attempt executes."""
        return TaskId(self.home, self.number, self.index)

    def seat(self, rank: int) -> AttemptId:
        """Return the seat of the same attempt that begins with `rank`; 0: the attempt."""
        return AttemptId(self.home, self.number, self.index, self.attempt, rank)

    @property
    def of_seat(self) -> AttemptId:
        """The seat beside which a step runs."""
        return AttemptId(self.home, self.number, self.index, self.attempt, self.rank)

    def of_step(self, step: int) -> AttemptId:
        """Return the step of that number beside this seat."""
        return AttemptId(self.home, self.number, self.index, self.attempt, self.rank, step)

    def __str__(self) -> str:
        name = "{}-{}.{}#{}".format(*self)
        if self.rank:
            name = f"{name}.{self.rank}"
        return f"{name}+{self.step}" if self.step else name


_RANK = re.compile(_ID.pattern + r"(?:\.(?P<rank>\d{1,9}))?", re.ASCII)


class RankId(NamedTuple):
    """A rank of a task, as a person names it."""

    job: JobId
    task: int | None
    """None: the task that runs."""
    rank: int


def parse_rank(text: str) -> RankId:
    """Return the rank that `ume-42`, `ume-42.7` or `ume-42.7.3` names; 0 if it names none."""
    match = _RANK.fullmatch(text)
    if not match:
        raise UsageProblem(
            "bad-id",
            f"'{text}' is not a job, task or rank id",
            "ids look like ume-42, ume-42.7 or ume-42.7.3",
        )
    job = JobId(match["home"], int(match["number"]))
    index = match["index"]
    return RankId(job, None if index is None else int(index), int(match["rank"] or 0))


def parse_id(text: str) -> JobId | TaskId:
    """Return the job or task that `text` names."""
    match = _ID.fullmatch(text)
    if not match:
        raise UsageProblem(
            "bad-id", f"'{text}' is not a job or task id", "ids look like ume-42 or ume-42.7"
        )
    home, number = match["home"], int(match["number"])
    if match["index"] is None:
        return JobId(home, number)
    return TaskId(home, number, int(match["index"]))


OCCURRENCE_STEP = 10**9
"""Numbers of reservations are below it; that of an occurrence is its place in the series, from 1,
times this, more than the number of the series. So one number names either (docs/adr/0133)."""
OCCURRENCES_MAX = 999_999
"""Of one series: 2,700 years of days."""

_RESERVATION = re.compile(
    r"(?P<home>[a-z][a-z0-9-]{0,30})-r(?P<number>\d{1,9})(?:\.(?P<place>[1-9]\d{0,5}))?", re.ASCII
)


class ReservationId(NamedTuple):
    """A reservation: its home's name and the number the home gave it; `ume-r7`.

    `ume-r7.3` is the third occurrence of the series `ume-r7`. The last part does not begin with a
    digit, so it is never the id of a job.
    """

    home: Name
    number: Count

    def __str__(self) -> str:
        place, series = divmod(self.number, OCCURRENCE_STEP)
        name = f"{self.home}-r{series}"
        return f"{name}.{place}" if place else name


def series_of(number: int) -> int:
    """Return the number of the series of an occurrence; of what is none, its own."""
    return number % OCCURRENCE_STEP


def place_of(number: int) -> int:
    """Return the place of an occurrence in its series, from 1; 0: it is none."""
    return number // OCCURRENCE_STEP


def occurrence_number(series: int, place: int) -> int:
    """Return the number of an occurrence."""
    return place * OCCURRENCE_STEP + series


def parse_reservation_id(text: str) -> ReservationId:
    """Return the reservation that `text` names; raise `UsageProblem` if it names none."""
    match = _RESERVATION.fullmatch(text)
    if not match:
        is_of_job = _ID.fullmatch(text) is not None
        what = "the id of a job, not of a reservation" if is_of_job else "no id of a reservation"
        raise UsageProblem(
            "bad-id",
            f"'{printable(text[:TEXT_LENGTH_MAX])}' is {what}",
            "ids look like ume-r7, or ume-r7.3; 'iriai reservations' lists them",
        )
    number = occurrence_number(int(match["number"]), int(match["place"] or 0))
    return ReservationId(match["home"], number)
