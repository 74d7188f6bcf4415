"""Ids, short and typable: `ume-42` a job, `ume-42.7` a task, `ume-42.7#2` its second attempt."""

from __future__ import annotations

import re
from typing import NamedTuple

from iriai.model.bounds import Count, Name
from iriai.model.problem import UsageProblem


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
"""The attempt number of a notice after a job's end; attempts of tasks count from 1."""


class AttemptId(NamedTuple):
    """One execution of a task, numbered from 1 by the task's home."""

    home: Name
    number: Count
    index: Count  # type: ignore[assignment]  # shadows tuple.index, which nobody calls on an id
    attempt: Count

    @property
    def task(self) -> TaskId:
        """The task that this attempt executes."""
        return TaskId(self.home, self.number, self.index)

    def __str__(self) -> str:
        return f"{self.home}-{self.number}.{self.index}#{self.attempt}"


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
