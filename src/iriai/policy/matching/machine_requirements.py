"""Requirements of machine owners on jobs; see `policy.matching.match`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

import numpy as np

from iriai.classad.ad_table import AdTable
from iriai.classad.constraint import Constraint, condition
from iriai.classad.expression import Expression
from iriai.classad.query import Question
from iriai.classad.volatile_attributes import CHANGING
from iriai.model.ad import MachineAd, Value
from iriai.policy.matching.job_requirements import Flags, Rows

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
MEMORY_MAX = 4096
"""What owners say of jobs is remembered for so many (clause, job) pairs: a few policies, and what a
few hundred users ask for."""
REQUIREMENTS, RANK = 0, 1
"""Where each stands in a machine's policy."""
Seen = tuple[tuple[str, Value], ...]
"""What is looked at of a job."""


class OwnerPolicy:
    """The same words of some owners, and the machines that have them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.condition: Constraint = condition(text)
        self.clauses = [_Clause(each) for each in self.condition.clauses()]
        self.members: dict[int, None] = {}
        self._rows: Rows | None = None

    def rows(self) -> Rows:
        """The machines, in the order in which they came."""
        if self._rows is None:
            self._rows = np.fromiter(self.members, np.intp, len(self.members))
        return self._rows

    def enter(self, row: int) -> None:
        """One machine more."""
        self.members[row] = None
        self._rows = None

    def leave(self, row: int) -> None:
        """One less."""
        del self.members[row]
        self._rows = None


class _Clause:
    """One of the clauses that must all hold."""

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self.keys = frozenset(each.key for each in expression.attributes())
        self.is_changing = bool(self.keys & CHANGING)


class OwnerPolicies:
    """All policies, by machine; and what they said lately."""

    def __init__(self, table: AdTable) -> None:
        self.keys: frozenset[str] = frozenset()
        """Attributes that some policy looks at, in either ad."""
        self.are_any = False
        """Whether there is any."""
        self.ranks: dict[str, OwnerPolicy] = {}
        self._requirements: dict[str, OwnerPolicy] = {}
        self._table = table
        self._of_row: list[tuple[str, str]] = []
        self._results: dict[tuple[str, str, Seen], Flags] = {}
        """Of the machines that have a policy, where a clause of it holds for a job."""
        self._said_now: dict[tuple[str, str, Seen], Flags] = {}
        """The same of clauses that follow load and time."""
        self._said_in_all: dict[Seen, tuple[Flags, Flags]] = {}

    def set(self, row: int, ad: MachineAd) -> bool:
        """The owner of a machine wants this; whether more is to be known of jobs than before."""
        while len(self._of_row) <= row:
            self._of_row.append(("", ""))
        old, new = self._of_row[row], (ad.requirements, ad.rank)
        if old == new:
            return False
        self._of_row[row] = new
        for which, policies in enumerate((self._requirements, self.ranks)):
            before, after = old[which], new[which]
            if before:
                policies[before].leave(row)
                if not policies[before].members:
                    del policies[before]
            if after:
                if after not in policies:
                    policies[after] = OwnerPolicy(after)
                policies[after].enter(row)
        had = self.keys, self.are_any
        policies_of_both = (*self._requirements.values(), *self.ranks.values())
        self.keys = frozenset().union(*(each.condition.keys for each in policies_of_both))
        self.are_any = bool(policies_of_both)
        return (self.keys, self.are_any) != had

    def of(self, row: int) -> Constraint | None:
        """What the owner of a machine requires; None: nothing."""
        policy = self._requirements.get(self._of_row[row][REQUIREMENTS])
        return None if policy is None else policy.condition

    def changed(self, *, lastingly: bool) -> None:
        """Something of a machine changed: what was said may not hold any more."""
        self._said_in_all.clear()
        self._said_now.clear()
        if lastingly:
            self._results.clear()

    def judge(self, job: Mapping[str, Value], rows: Rows | None) -> tuple[Flags, Flags]:
        """Of all or some machines, whether their owners could ever admit the job, and do now."""
        if rows is not None:
            return self._judged(job, rows, len(rows))
        seen = _seen(job, self.keys)
        known = self._said_in_all.get(seen)
        if known is None:
            known = self._judged(job, None, self._table.rows)
            _remember(self._said_in_all, seen, known)
        return known

    def groups(self, which: int, rows: Rows | None) -> Iterator[tuple[OwnerPolicy, Rows, Rows]]:
        """By policy: those of `rows` that have it, and where they stand in the answer."""
        policies = (self._requirements, self.ranks)[which]
        if rows is None:
            for policy in policies.values():
                yield policy, policy.rows(), policy.rows()
            return
        places: dict[str, list[int]] = {}
        for place, row in enumerate(rows):
            text = self._of_row[row][which]
            if text:
                places.setdefault(text, []).append(place)
        for text, found in places.items():
            at = np.array(found, np.intp)
            yield policies[text], rows[at], at

    def _judged(
        self, job: Mapping[str, Value], rows: Rows | None, count: int
    ) -> tuple[Flags, Flags]:
        possible, admits = np.ones(count, np.bool_), np.ones(count, np.bool_)
        for policy, mine, places in self.groups(REQUIREMENTS, rows):
            if policy.condition.problem:
                possible[places] = False
            for clause in policy.clauses:
                says = self._holds(policy, clause, mine, job, is_whole=rows is None)
                (admits if clause.is_changing else possible)[places] &= says
        return possible, admits & possible

    def _holds(
        self,
        policy: OwnerPolicy,
        clause: _Clause,
        mine: Rows,
        job: Mapping[str, Value],
        *,
        is_whole: bool,
    ) -> Flags:
        question = Question(clause.expression, self._table, job, mine, rows_are_my=True)
        if not is_whole:
            return question.holds()
        memory = self._said_now if clause.is_changing else self._results
        key = (policy.text, clause.expression.text, _seen(job, clause.keys))
        known = memory.get(key)
        if known is None:
            known = question.holds()
            _remember(memory, key, known)
        return known


def _seen(job: Mapping[str, Value], keys: frozenset[str]) -> Seen:
    return tuple((key, value) for key, value in job.items() if key in keys)


def _remember(memory: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    if len(memory) >= MEMORY_MAX:
        del memory[next(iter(memory))]
    memory[key] = value
