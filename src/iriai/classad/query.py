"""Evaluates an expression on the rows of a table: by columns where possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from iriai.classad.ad_table import AdTable
from iriai.classad.column_evaluator import ColumnEvaluator
from iriai.classad.columns import NUMBERS, Bools, ColumnVector, NotCovered, either
from iriai.classad.expression import Expression
from iriai.classad.syntax_tree import Result
from iriai.model.ad import Value

Rows = NDArray[np.intp]
_Each = TypeVar("_Each")


def ask(
    expression: Expression,
    table: AdTable,
    one: Mapping[str, Value],
    rows: Rows | None,
    *,
    rows_are_my: bool,
) -> Bools:
    """Of all rows or some, whether it holds against the ad `one`, whose names are keys."""
    question = _Question(expression, table, one, rows, rows_are_my)
    return question.answer(lambda column: column.truths(), _holds, np.bool_)


def ask_rank(
    expression: Expression,
    table: AdTable,
    one: Mapping[str, Value],
    rows: Rows | None,
    *,
    rows_are_my: bool,
) -> NDArray[np.float64]:
    """Of all rows or some, what it comes to as a number; what is none counts as 0."""
    question = _Question(expression, table, one, rows, rows_are_my)
    return question.answer(_rank_column, _rank, np.float64)


def _holds(result: Result) -> bool:
    from iriai.classad.reference_evaluator import holds

    return holds(result)


def _rank(result: Result) -> float:
    from iriai.classad.reference_evaluator import rank

    return rank(result)


def _rank_column(column: ColumnVector) -> NDArray[np.float64]:
    if column.kind not in NUMBERS:
        return np.zeros(1)
    assert column.data is not None
    missing = either(column.undefined, column.error)
    data = column.data.astype(np.float64)
    return data if missing is None else np.where(missing, 0.0, data)


class _Question:
    """One expression, asked of some rows."""

    def __init__(
        self,
        expression: Expression,
        table: AdTable,
        one: Mapping[str, Value],
        rows: Rows | None,
        rows_are_my: bool,
    ) -> None:
        self._expression = expression
        self._table = table
        self._one = one
        self._rows = rows
        self._rows_are_my = rows_are_my
        self._count = table.rows if rows is None else len(rows)

    def answer(
        self,
        of_column: Callable[[ColumnVector], NDArray[Any]],
        of_result: Callable[[Result], _Each],
        kind: type[np.generic],
    ) -> NDArray[Any]:
        """By row; `of_column` and `of_result` turn what was found into what is wanted."""
        evaluator = ColumnEvaluator(
            self._table.texts, self._column, self._one, rows_are_my=self._rows_are_my
        )
        doubtful: NDArray[np.intp]
        try:
            found = of_column(evaluator.evaluate(self._expression.node))
        except NotCovered:
            answers = np.zeros(self._count, kind)
            doubtful = np.arange(self._count)
        else:
            answers = np.array(np.broadcast_to(found, self._count))
            if evaluator.doubtful is None:
                return answers
            doubtful = np.flatnonzero(np.broadcast_to(evaluator.doubtful, self._count))
        self._ask_library(answers, doubtful, of_result)
        return answers

    def _column(self, key: str) -> ColumnVector | None:
        column = self._table.column(key)
        return column if column is None or self._rows is None else column.taken(self._rows)

    def _ask_library(
        self,
        answers: NDArray[Any],
        places: NDArray[np.intp],
        of_result: Callable[[Result], _Each],
    ) -> None:
        """One by one; rows that look alike to the expression are asked once."""
        from iriai.classad.reference_evaluator import evaluate

        keys = [each.key for each in self._expression.attributes()]
        known: dict[tuple[object, ...], _Each] = {}
        for place in places:
            ad = self._table.ad(int(place if self._rows is None else self._rows[place]))
            values = tuple((type(ad.get(key)), ad.get(key)) for key in keys)
            if values not in known:
                both = (ad, self._one) if self._rows_are_my else (self._one, ad)
                known[values] = of_result(evaluate(self._expression, *both))
            answers[place] = known[values]
