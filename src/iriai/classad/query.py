"""Evaluates an expression on the rows of a table: by columns where possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from iriai.classad.ad_table import AdTable
from iriai.classad.column_evaluator import ColumnEvaluator
from iriai.classad.columns import NUMBERS, Bools, ColumnVector, NotCovered, either
from iriai.classad.expression import Expression
from iriai.classad.syntax_tree import Result, holds, rank
from iriai.model.ad import Value

Rows = NDArray[np.intp]
_Each = TypeVar("_Each")


@dataclass(slots=True)
class Question:
    """One expression, asked of all rows of a table or some, against one ad on the other side."""

    expression: Expression
    table: AdTable
    one: Mapping[str, Value]
    """The other ad; its names are keys."""
    rows: Rows | None
    rows_are_my: bool
    """Whether MY means the rows' ads, as in a machine's requirements."""

    def holds(self) -> Bools:
        """Return by row whether the expression holds."""
        return self._answer(ColumnVector.truths, holds, np.bool_)

    def ranks(self) -> NDArray[np.float64]:
        """Return by row what the expression comes to as a number; what is none counts as 0."""
        return self._answer(_rank_column, rank, np.float64)

    def _answer(
        self,
        of_column: Callable[[ColumnVector], NDArray[Any]],
        of_result: Callable[[Result], _Each],
        kind: type[np.generic],
    ) -> NDArray[Any]:
        """By row; `of_column` and `of_result` turn what was found into what is wanted."""
        count = self.table.rows if self.rows is None else len(self.rows)
        evaluator = ColumnEvaluator(
            self.table.texts, self._column, self.one, rows_are_my=self.rows_are_my
        )
        doubtful: NDArray[np.intp]
        try:
            found = of_column(evaluator.evaluate(self.expression.node))
        except NotCovered:
            answers = np.zeros(count, kind)
            doubtful = np.arange(count)
        else:
            answers = np.array(np.broadcast_to(found, count))
            if evaluator.doubtful is None:
                return answers
            doubtful = np.flatnonzero(np.broadcast_to(evaluator.doubtful, count))
        self._ask_library(answers, doubtful, of_result)
        return answers

    def _column(self, key: str) -> ColumnVector | None:
        column = self.table.column(key)
        return column if column is None or self.rows is None else column.taken(self.rows)

    def _ask_library(
        self,
        answers: NDArray[Any],
        places: NDArray[np.intp],
        of_result: Callable[[Result], _Each],
    ) -> None:
        """One by one; rows that look alike to the expression are asked once."""
        from iriai.classad.reference_evaluator import evaluate

        keys = [each.key for each in self.expression.attributes()]
        known: dict[tuple[object, ...], _Each] = {}
        for place in places:
            ad = self.table.ad(int(place if self.rows is None else self.rows[place]))
            values = tuple((type(ad.get(key)), ad.get(key)) for key in keys)
            if values not in known:
                both = (ad, self.one) if self.rows_are_my else (self.one, ad)
                known[values] = of_result(evaluate(self.expression, *both))
            answers[place] = known[values]


def _rank_column(column: ColumnVector) -> NDArray[np.float64]:
    if column.kind not in NUMBERS:
        return np.zeros(1)
    assert column.data is not None
    missing = either(column.undefined, column.error)
    data = column.data.astype(np.float64)
    return data if missing is None else np.where(missing, 0.0, data)
