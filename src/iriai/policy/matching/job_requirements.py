"""Requirements and preferences of alike jobs; see `match`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from iriai.classad.constraint import Constraint, condition
from iriai.classad.expression import Expression, parse_expression
from iriai.model.ad import JOB_TYPE, Value
from iriai.model.problem import UsageProblem

Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]
Ranks = NDArray[np.float64]


class DemandKey(NamedTuple):
    """The properties that make jobs match alike."""

    requirements: str
    rank: str
    traits: tuple[tuple[str, Value], ...]
    """Attributes of the job that its own expressions or some owner's policy look at, by key."""


class MatchRank(NamedTuple):
    """The rank of a machine among those that match; smaller comes first."""

    less_liked: float
    """By the job's rank."""
    likes_less: float
    """By the machine's."""


class Matchmaker(Protocol):
    """Finds matching machines among all."""

    names: list[str]
    news: int
    epoch: int
    has_likes: bool

    @property
    def rows(self) -> int:
        """Rows that are or were in use."""
        ...

    def row(self, machine: str) -> int | None:
        """Where a machine stands; None: it is not known."""
        ...

    def changed_since(self, news: int, keys: frozenset[str]) -> Rows | None:
        """Rows that changed in what one who looks at `keys` must know; None: look at all."""
        ...

    def judge(
        self, wanted: Constraint, job: Mapping[str, Value], rows: Rows | None
    ) -> tuple[Flags, Flags]:
        """Of all or some machines: whether both could ever match, and whether they do now."""
        ...

    def release(self, demand: Demand) -> None:
        """Nobody asks for it any more."""
        ...

    def ranks(
        self, rank: Expression | None, job: Mapping[str, Value], rows: Rows | None
    ) -> tuple[Ranks, Ranks]:
        """How well the job likes all or some machines, and how well they like it."""
        ...


class Demand:
    """The machines that jobs of one key may run on; updated when it is asked."""

    def __init__(self, matches: Matchmaker, key: DemandKey) -> None:
        self.key = key
        self.users = 0
        """Kinds of tasks that have it."""
        self.condition = condition(key.requirements)
        self.rank = rank_of(key.rank)
        self.job: dict[str, Value] = {"mytype": JOB_TYPE, **dict(key.traits)}
        ranked = () if self.rank is None else self.rank.attributes()
        self.mentions = self.condition.keys | {each.key for each in ranked}
        """Attributes that its expressions look at."""
        self._matches = matches
        self._seen = -1
        self._epoch = -1
        self._possible: Flags = np.zeros(0, np.bool_)
        self._admits = b""
        self._job_ranks: Ranks = np.zeros(0)
        self._owner_ranks: Ranks = np.zeros(0)
        self._ordered: list[list[str]] | None = None

    def enter(self) -> Demand:
        """One kind of tasks more has it."""
        self.users += 1
        return self

    def leave(self) -> None:
        """One less; the last one gives it up."""
        self.users -= 1
        if not self.users:
            self._matches.release(self)

    @property
    def is_ranked(self) -> bool:
        """Whether it matters on which of the matching machines it runs."""
        return self.rank is not None or self._matches.has_likes

    def admits(self, machine: str) -> bool:
        """Whether both requirements hold now."""
        row = self._matches.row(machine)
        if row is None:
            return False
        self._refresh()
        return self._admits[row] == 1

    def may_admit(self, machine: str) -> bool:
        """Whether they could hold at another time of the day, or with less load."""
        row = self._matches.row(machine)
        if row is None:
            return False
        self._refresh()
        return bool(self._possible[row])

    def possible(self) -> Iterator[str]:
        """The machines on which they could."""
        self._refresh()
        for row in np.flatnonzero(self._possible):
            yield self._matches.names[row]

    def count(self) -> int:
        """On how many machines both hold now."""
        self._refresh()
        return self._admits.count(1)

    def names(self) -> Iterator[str]:
        """Those machines."""
        self._refresh()
        at = self._admits.find(1)
        while at >= 0:
            yield self._matches.names[at]
            at = self._admits.find(1, at + 1)

    def order(self, machine: str) -> MatchRank:
        """How well machine and job like each other."""
        row = self._matches.row(machine)
        assert row is not None
        self._refresh()
        return MatchRank(-float(self._job_ranks[row]), -float(self._owner_ranks[row]))

    def tiers(self) -> list[list[str]]:
        """The matching machines, those that are liked alike together, the best first."""
        self._refresh()
        if self._ordered is None:
            rows = np.flatnonzero(np.frombuffer(self._admits, np.uint8))
            job, owner = self._job_ranks[rows], self._owner_ranks[rows]
            order = np.lexsort((-owner, -job))
            rows, job, owner = rows[order], job[order], owner[order]
            steps = np.flatnonzero((np.diff(job) != 0) | (np.diff(owner) != 0)) + 1
            names = self._matches.names
            self._ordered = [[names[row] for row in part] for part in np.split(rows, steps)]
        return self._ordered

    def _refresh(self) -> None:
        """Judge machines that changed since; all of them where that is as quick."""
        matches = self._matches
        if self._seen == matches.news and self._epoch == matches.epoch:
            return
        if self._epoch != matches.epoch or len(self._possible) != matches.rows:
            rows = None
        else:
            rows = matches.changed_since(self._seen, self.mentions)
        self._seen, self._epoch = matches.news, matches.epoch
        if rows is not None and not len(rows):
            return
        self._ordered = None
        possible, admits = matches.judge(self.condition, self.job, rows)
        if rows is None:
            self._possible, self._admits = possible, admits.tobytes()
            self._job_ranks, self._owner_ranks = matches.ranks(self.rank, self.job, None)
            return
        flags = np.frombuffer(bytearray(self._admits), np.bool_)
        flags[rows], self._possible[rows] = admits, possible
        self._admits = flags.tobytes()
        self._job_ranks[rows], self._owner_ranks[rows] = matches.ranks(self.rank, self.job, rows)


def rank_of(text: str) -> Expression | None:
    """A rank that can be used; None: all machines are alike."""
    if not text:
        return None
    try:
        return parse_expression(text, "rank")
    except UsageProblem:
        return None
