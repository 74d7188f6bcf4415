"""Columns of values of one expression over many ads, and the operators on them.

A column has one kind of value, beside what is undefined or an error; every operator is a few NumPy
operations, whatever the number of ads. What does not fit into that (an attribute that is a number
here and a text there) is `NotCovered`, and single rows whose answer is the library's own affair (a
division by nothing, a number beyond all numbers) are marked as doubtful: both are asked of
`reference_evaluator`. Importing this module loads NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Data = NDArray[Any]


class NotCovered(Exception):
    """Columns have no answer; `reference_evaluator` has."""


class ValueType(IntEnum):
    """The type of the values of a column."""

    NOTHING = 0
    """No row has a value."""
    BOOL = 1
    INT = 2
    REAL = 3
    TEXT = 4


NUMBERS = (ValueType.BOOL, ValueType.INT, ValueType.REAL)


@dataclass(slots=True)
class ColumnVector:
    """One value for each row; arrays of one element stand for all rows."""

    kind: ValueType
    data: Data | None
    """None of NOTHING, and of a text that is the same in all rows. Of texts their codes."""
    undefined: Bools | None = None
    """Rows that are; None: none is."""
    error: Bools | None = None
    text: str | None = None
    """The text that all rows are."""

    def truths(self) -> Bools:
        """Rows that count as true: numbers do that are not 0."""
        if self.kind not in NUMBERS:
            return np.zeros(1, np.bool_)
        assert self.data is not None
        return without(self.data != 0, self.undefined, self.error)

    def taken(self, rows: NDArray[np.intp]) -> ColumnVector:
        """The same of some rows only."""

        def part(array: Data | None) -> Data | None:
            return array if array is None or len(array) == 1 else array[rows]

        return ColumnVector(
            self.kind, part(self.data), part(self.undefined), part(self.error), self.text
        )


def either(first: Bools | None, second: Bools | None) -> Bools | None:
    """Rows that are in one of two masks; None: none is."""
    if first is None:
        return second
    return first if second is None else first | second


def without(rows: Bools, *others: Bools | None) -> Bools:
    """Rows that are in none of the others."""
    for other in others:
        if other is not None:
            rows = rows & ~other
    return rows


def undefined_column() -> ColumnVector:
    """Undefined in all rows."""
    return ColumnVector(ValueType.NOTHING, None, np.ones(1, np.bool_))


def error_column() -> ColumnVector:
    """An error in all rows."""
    return ColumnVector(ValueType.NOTHING, None, None, np.ones(1, np.bool_))


def strict(left: ColumnVector, right: ColumnVector) -> tuple[Bools | None, Bools | None]:
    """Where an operator that needs both is undefined, and where it is an error."""
    error = either(left.error, right.error)
    undefined = either(left.undefined, right.undefined)
    if undefined is not None and error is not None:
        undefined = undefined & ~error
    return undefined, error


def no_sense(*operands: ColumnVector) -> ColumnVector:
    """Values of these kinds do not go together: an error where there are any."""
    undefined: Bools | None = None
    error: Bools | None = None
    for operand in operands:
        undefined, error = either(undefined, operand.undefined), either(error, operand.error)
    if undefined is None:
        return error_column()
    undefined = without(undefined, error)
    return ColumnVector(ValueType.NOTHING, None, undefined, ~undefined)


def numbers(column: ColumnVector) -> Data:
    """The data of a column of numbers, truths as 0 and 1."""
    assert column.data is not None
    return column.data.astype(np.int64) if column.kind is ValueType.BOOL else column.data


# --- logic ---------------------------------------------------------------------------------------


class Logic:
    """A column as truth: each row is one of true, false, undefined and error."""

    __slots__ = ("error", "false", "true", "undefined")

    def __init__(self, column: ColumnVector) -> None:
        self.undefined, self.error = column.undefined, column.error
        if column.kind is ValueType.TEXT:
            column = no_sense(column)
            self.undefined, self.error = column.undefined, column.error
        if column.kind is ValueType.NOTHING:
            self.true = self.false = np.zeros(1, np.bool_)
        else:
            assert column.data is not None
            value = column.data if column.kind is ValueType.BOOL else column.data != 0
            self.true = without(value, self.undefined, self.error)
            self.false = without(~value, self.undefined, self.error)

    def negated(self) -> Logic:
        """Exchange true and false."""
        self.true, self.false = self.false, self.true
        return self


def conjunction(first: ColumnVector, second: ColumnVector) -> ColumnVector:
    """`first && second`: false decides, then an error, then what is undefined."""
    return _joined(Logic(first), Logic(second))


def disjunction(first: ColumnVector, second: ColumnVector) -> ColumnVector:
    """`first || second`: true decides, then an error, then what is undefined."""
    neither = _joined(Logic(first).negated(), Logic(second).negated())
    assert neither.data is not None
    return ColumnVector(ValueType.BOOL, ~neither.data, neither.undefined, neither.error)


def _joined(left: Logic, right: Logic) -> ColumnVector:
    true = left.true & right.true
    if left.undefined is None and left.error is None:
        return ColumnVector(
            ValueType.BOOL,
            true,
            None if right.undefined is None else left.true & right.undefined,
            None if right.error is None else left.true & right.error,
        )
    open_left = ~left.false if left.error is None else ~(left.false | left.error)
    false = left.false | (open_left & right.false)
    error = either(left.error, None if right.error is None else open_left & right.error)
    return ColumnVector(ValueType.BOOL, true, without(~(false | true), error), error)


def negation(operand: ColumnVector) -> ColumnVector:
    """`!operand`."""
    logic = Logic(operand)
    return ColumnVector(ValueType.BOOL, logic.false, logic.undefined, logic.error)


# --- choices -------------------------------------------------------------------------------------


def choice(condition: ColumnVector, then: ColumnVector, otherwise: ColumnVector) -> ColumnVector:
    """`condition ? then : otherwise`."""
    logic = Logic(condition)
    chosen = selected(logic.true, then, otherwise)
    undefined, error = chosen.undefined, chosen.error
    if undefined is not None:
        undefined = without(undefined, logic.error)
    if error is not None:
        error = without(error, logic.undefined)
    undefined, error = either(logic.undefined, undefined), either(logic.error, error)
    return ColumnVector(chosen.kind, chosen.data, undefined, error, chosen.text)


def selected(rows: Bools, these: ColumnVector, others: ColumnVector) -> ColumnVector:
    """`these` in some rows, and `others` elsewhere; raises `NotCovered` where kinds differ."""
    undefined = _selected_mask(rows, these.undefined, others.undefined)
    error = _selected_mask(rows, these.error, others.error)
    if others.kind is ValueType.NOTHING or these.kind is ValueType.NOTHING:
        kept = these if others.kind is ValueType.NOTHING else others
        return ColumnVector(kept.kind, kept.data, undefined, error, kept.text)
    if these.kind is not others.kind:
        raise NotCovered
    if these.data is None or others.data is None:
        if these.text is None or these.text != others.text:
            raise NotCovered
        return ColumnVector(these.kind, None, undefined, error, these.text)
    return ColumnVector(these.kind, np.where(rows, these.data, others.data), undefined, error)


def _selected_mask(rows: Bools, these: Bools | None, others: Bools | None) -> Bools | None:
    if these is None and others is None:
        return None
    no = np.zeros(1, np.bool_)
    return np.where(rows, no if these is None else these, no if others is None else others)
