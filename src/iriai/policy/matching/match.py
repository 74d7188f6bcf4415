"""Matching: which machines a job may run on, and which it prefers; ClassAds on both sides.

Raman, Livny, Solomon: "Matchmaking" (HPDC 1998): a job and a machine match where the requirements
of each hold of the other. Jobs that ask for the same, of which the owners see the same, are one
demand, which is judged once for all machines; after that, only for those that changed. Importing
this module loads NumPy. docs/spec/007.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from iriai.classad.ad_table import AdTable
from iriai.classad.constraint import ALWAYS, Constraint, condition
from iriai.classad.expression import Expression
from iriai.classad.query import Question
from iriai.classad.volatile_attributes import CLOCK, clock_attributes
from iriai.model.ad import JOB_TYPE, MachineAd, Value, attributes_of
from iriai.policy.matching.job_requirements import DemandKey, Flags, MatchRank, Ranks, Rows, rank_of
from iriai.policy.matching.machine_requirements import RANK, OwnerPolicies

NEWS_MAX = 4096
"""Changes of machines that are remembered one by one; who is further behind looks at all."""


class Matches:
    """Ads and policies of all machines, and queries on them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        """By row; empty where a machine left."""
        self.news = 0
        """Counts up with each change of a machine."""
        self.epoch = 0
        """Counts up when everything is to be judged anew."""
        self.has_likes = False
        """Whether some owner likes some jobs better."""
        self._table = AdTable()
        self._rows: dict[str, int] = {}
        self._static: list[dict[str, Value]] = []
        self._changes: list[tuple[int, frozenset[str] | None]] = []
        """The last news: which row, and what of it; None: all."""
        self._owners = OwnerPolicies(self._table)
        self._demands: dict[DemandKey, Demand] = {}
        self._wall_min = -1
        self._absent: dict[int, None] = {}
        """Rows of machines that left."""
        self._mentioned: frozenset[str] = frozenset()
        """What policies and demands look at, and those look at that are gone lately."""
        self._released = 0

    @property
    def rows(self) -> int:
        """Rows that are or were in use."""
        return self._table.rows

    def row(self, machine: str) -> int | None:
        """Where a machine stands; None: it is not known."""
        return self._rows.get(machine)

    @property
    def significant(self) -> frozenset[str]:
        """Attributes that some owner's policy looks at, in either ad."""
        return self._owners.keys

    @property
    def has_policies(self) -> bool:
        """Whether any owner wants anything."""
        return self._owners.are_any

    def demand(self, key: DemandKey) -> Demand:
        """What such jobs may run on."""
        found = self._demands.get(key)
        if found is None:
            found = self._demands[key] = Demand(self, key)
            self._mentioned |= found.mentions
        return found

    def release(self, demand: Demand) -> None:
        """Nobody asks for it any more."""
        self._demands.pop(demand.key, None)
        self._released += 1
        if self._released > len(self._demands):
            self._released = 0
            self._mention()

    # --- machines --------------------------------------------------------------------------------

    def put(self, machine: str, ad: MachineAd, measured: Mapping[str, Value]) -> bool:
        """A machine is new or is this from now on; whether owners look at more than before."""
        static = attributes_of(ad)
        row = self._rows.get(machine)
        if row is None:
            row = self._rows[machine] = self._new_row()
            self.names[row] = machine
        clock = clock_attributes(self._wall_min * 60.0, static) if self._wall_min >= 0 else {}
        self._static[row] = static
        self._table.put(row, {**static, **measured, **clock})
        self._notify(row, None)
        return self._set_policy(row, ad)

    def forget(self, machine: str) -> None:
        """A machine left for good."""
        row = self._rows.pop(machine, None)
        if row is not None:
            self._absent[row] = None
            self.names[row], self._static[row] = "", {}
            self._table.put(row, {})
            self._set_policy(row, MachineAd())
            self._notify(row, None)

    def _new_row(self) -> int:
        if self._absent:
            row = next(iter(self._absent))
            del self._absent[row]
            return row
        self.names.append("")
        self._static.append({})
        return self._table.add({})

    def measured(self, machine: str, values: Mapping[str, Value]) -> bool:
        """A machine measured something; whether anything that is asked depends on it."""
        row = self._rows.get(machine)
        if row is None:
            return False
        changed = [
            name.lower()
            for name, value in values.items()
            if self._table.change(row, name.lower(), value)
        ]
        told = frozenset(key for key in changed if key in self._mentioned)
        if told:
            self._notify(row, told)
        return bool(told)

    def tick(self, wall_s: float) -> bool:
        """The time; whether it is another minute and anything that is asked depends on it."""
        minute = int(wall_s // 60)
        if minute == self._wall_min:
            return False
        self._wall_min = minute
        if not self._mentioned & CLOCK:
            return False
        for row, static in enumerate(self._static):
            for name, value in clock_attributes(minute * 60.0, static).items():
                self._table.change(row, name.lower(), value)
        self._owners.changed(lastingly=False)
        self.epoch += 1
        return True

    @property
    def follows_clock(self) -> bool:
        """Whether anything that is asked depends on the time."""
        return bool(self._mentioned & CLOCK)

    def _mention(self) -> None:
        of_demands = [demand.mentions for demand in self._demands.values()]
        self._mentioned = self._owners.keys.union(*of_demands)

    def _notify(self, row: int, keys: frozenset[str] | None) -> None:
        self.news += 1
        self._changes.append((row, keys))
        self._owners.changed(lastingly=keys is None)
        if len(self._changes) > 2 * NEWS_MAX:
            del self._changes[:-NEWS_MAX]

    def changed_since(self, news: int, keys: frozenset[str]) -> Rows | None:
        """Rows that changed in what one who looks at `keys` must know; None: look at all."""
        count = self.news - news
        if count > len(self._changes) or count > max(16, self.rows // 4):
            return None
        keys = keys | self._owners.keys
        rows = {
            row: None
            for row, what in self._changes[len(self._changes) - count :]
            if what is None or what & keys
        }
        return np.fromiter(rows, np.intp, len(rows))

    def _set_policy(self, row: int, ad: MachineAd) -> bool:
        is_other = self._owners.set(row, ad)
        self.has_likes = bool(self._owners.ranks)
        if is_other:
            self._mention()
            self.epoch += 1
        return is_other

    # --- judging ---------------------------------------------------------------------------------

    def judge(
        self, wanted: Constraint, job: Mapping[str, Value], rows: Rows | None
    ) -> tuple[Flags, Flags]:
        """Of all or some machines: whether both could ever match, and whether they do now."""
        possible = self._there(rows) & self._job_side(wanted.lasting, job, rows)
        if wanted.problem:
            possible[:] = False
        could, do = self._owners.judge(job, rows)
        possible = possible & could
        return possible, possible & do & self._job_side(wanted.changing, job, rows)

    def ranks(
        self, rank: Expression | None, job: Mapping[str, Value], rows: Rows | None
    ) -> tuple[Ranks, Ranks]:
        """How well the job likes all or some machines, and how well they like it."""
        count = self.rows if rows is None else len(rows)
        liked, likes = np.zeros(count), np.zeros(count)
        if rank is not None:
            liked[:] = Question(rank, self._table, job, rows, rows_are_my=False).ranks()
        for policy, mine, places in self._owners.groups(RANK, rows):
            expression = rank_of(policy.text)
            if expression is not None:
                question = Question(expression, self._table, job, mine, rows_are_my=True)
                likes[places] = question.ranks()
        return liked, likes

    def clauses_failing(
        self, machine: str, wanted: Constraint, job: Mapping[str, Value]
    ) -> tuple[list[Expression], list[Expression]]:
        """The clauses that do not hold on a machine: the job's, and its owner's."""
        row = np.array([self._rows[machine]], np.intp)
        owners = (
            each
            for each in self.owner_of(machine).clauses()
            if not self._holds(each, job, row, is_owners=True)[0]
        )
        return [each for each in wanted.clauses() if not self._holds(each, job, row)[0]], [*owners]

    def owner_of(self, machine: str) -> Constraint:
        """What a machine's owner requires."""
        return self._owners.of(self._rows[machine]) or ALWAYS

    def holding(self, clause: Expression, job: Mapping[str, Value]) -> Flags:
        """By row, whether a clause of a job holds."""
        return self._there(None) & self._holds(clause, job, None)

    def ad(self, machine: str) -> Mapping[str, Value]:
        """What is known of a machine, names in small letters."""
        return self._table.ad(self._rows[machine])

    def _there(self, rows: Rows | None) -> Flags:
        there = np.ones(self.rows, np.bool_)
        there[list(self._absent)] = False
        return there if rows is None else there[rows]

    def _job_side(
        self, half: Expression | None, job: Mapping[str, Value], rows: Rows | None
    ) -> Flags:
        return np.ones(1, np.bool_) if half is None else self._holds(half, job, rows)

    def _holds(
        self,
        expression: Expression,
        job: Mapping[str, Value],
        rows: Rows | None,
        *,
        is_owners: bool = False,
    ) -> Flags:
        """By row, whether an expression of a job, or of the machine's owner, holds."""
        return Question(expression, self._table, job, rows, rows_are_my=is_owners).holds()


class Demand:
    """The machines that jobs of one key may run on; updated when it is asked."""

    def __init__(self, matches: Matches, key: DemandKey) -> None:
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
