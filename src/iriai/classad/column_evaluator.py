"""Evaluates an expression on many ads by array operations; see `reference_evaluator`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from iriai.classad import syntax_tree as tree
from iriai.classad.ad_table import Texts, folded
from iriai.classad.columns import (
    NUMBERS,
    Bools,
    ColumnVector,
    Data,
    NotCovered,
    ValueType,
    choice,
    conjunction,
    disjunction,
    either,
    error_column,
    negation,
    no_sense,
    numbers,
    selected,
    strict,
    undefined_column,
    without,
)
from iriai.model.ad import Value

INT_MIN = -(2**63)
SHIFT_MASK = 63
"""Shifts count modulo the width of a number, as processors do it."""
_COMPARE: Mapping[str, Callable[[Data, Data], Bools]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_BITS: Mapping[str, Callable[[Data, Data], Data]] = {
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": lambda left, right: np.left_shift(left, right & SHIFT_MASK),
    ">>": lambda left, right: np.right_shift(left, right & SHIFT_MASK),
}
_SUMS: Mapping[str, Callable[[Data, Data], Data]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
}


class ColumnEvaluator:
    """Evaluates for all rows of a table against one ad on the other side."""

    def __init__(
        self,
        texts: Texts,
        column: Callable[[str], ColumnVector | None],
        one: Mapping[str, Value],
        *,
        rows_are_my: bool,
    ) -> None:
        """`column` gives an attribute of the rows by its key, `one` are the other ad's by key.

        `rows_are_my`: whether MY means the rows' ads, as in a machine's requirements.
        """
        self._texts = texts
        self._column = column
        self._one = one
        self._rows_are_my = rows_are_my
        self.doubtful: Bools | None = None
        """Rows whose answer is to be asked of `reference_evaluator`; None: none."""

    def evaluate(self, node: tree.Node) -> ColumnVector:
        """The column of an expression.

        Raises:
            NotCovered: `reference_evaluator` is to be asked for all rows.
        """
        with np.errstate(all="ignore"):
            return self._of(node)

    def _of(self, node: tree.Node) -> ColumnVector:
        match node:
            case tree.Literal(value):
                return constant(value)
            case tree.Attribute():
                return self._attribute(node)
            case tree.Unary(operator, operand):
                return self._unary(operator, self._of(operand))
            case tree.Chain(operator, parts):
                join = conjunction if operator == "&&" else disjunction
                found = self._of(parts[0])
                for part in parts[1:]:
                    found = join(found, self._of(part))
                return found
            case tree.Binary(operator, left, right):
                return self._binary(operator, self._of(left), self._of(right))
            case tree.Conditional(condition, then, otherwise) | tree.Call(
                "ifThenElse", (condition, then, otherwise)
            ):
                return choice(self._of(condition), self._of(then), self._of(otherwise))
            case tree.Default(value, otherwise):
                return self._defaulted(self._of(value), otherwise)
            case tree.Call("isUndefined", (operand,)):
                return _flags(self._of(operand).undefined)
            case tree.Call("isError", (operand,)):
                return _flags(self._of(operand).error)
            case tree.Call() | tree.Items():
                raise NotCovered

    # --- attributes ------------------------------------------------------------------------------

    def _attribute(self, attribute: tree.Attribute) -> ColumnVector:
        key = attribute.key
        sides = [self._column, self._of_one] if self._rows_are_my else [self._of_one, self._column]
        if attribute.scope:
            sides = sides[:1] if attribute.scope == "MY" else sides[1:]
        found: ColumnVector | None = None
        for side in sides:
            if found is None:
                found = side(key)
            elif found.undefined is not None and (other := side(key)) is not None:
                found = selected(found.undefined, other, found)
        return undefined_column() if found is None else found

    def _of_one(self, key: str) -> ColumnVector | None:
        value = self._one.get(key)
        return None if value is None else constant(value)

    def _defaulted(self, value: ColumnVector, otherwise: tree.Node) -> ColumnVector:
        if value.undefined is None:
            return value
        return selected(value.undefined, self._of(otherwise), value)

    # --- operators -------------------------------------------------------------------------------

    def _unary(self, operator: str, operand: ColumnVector) -> ColumnVector:
        if operator == "!":
            return negation(operand)
        is_fit = operand.kind is ValueType.INT or (
            operator != "~" and operand.kind is ValueType.REAL
        )
        if not is_fit:
            return no_sense(operand) if operand.kind is not ValueType.NOTHING else operand
        assert operand.data is not None
        data = operand.data
        if operator == "-":
            data = -data
        elif operator == "~":
            data = ~data
        return ColumnVector(operand.kind, data, operand.undefined, operand.error)

    def _binary(self, operator: str, left: ColumnVector, right: ColumnVector) -> ColumnVector:
        if operator in ("=?=", "=!="):
            same = self._same(left, right)
            return ColumnVector(ValueType.BOOL, same if operator == "=?=" else ~same)
        if ValueType.NOTHING in (left.kind, right.kind):
            undefined, error = strict(left, right)
            return ColumnVector(ValueType.NOTHING, None, undefined, error)
        if operator in _COMPARE:
            return self._compared(operator, left, right)
        if operator in _BITS:
            if left.kind is not ValueType.INT or right.kind is not ValueType.INT:
                return no_sense(left, right)
            assert left.data is not None
            assert right.data is not None
            return ColumnVector(
                ValueType.INT, _BITS[operator](left.data, right.data), *strict(left, right)
            )
        if operator == ">>>":
            raise NotCovered
        return self._reckoned(operator, left, right)

    def _compared(self, operator: str, left: ColumnVector, right: ColumnVector) -> ColumnVector:
        if (left.kind is ValueType.TEXT) != (right.kind is ValueType.TEXT):
            return no_sense(left, right)
        if left.kind is ValueType.TEXT:
            values = self._order(left, right)
        else:
            values = numbers(left), numbers(right)
            if (values[0].dtype.kind == "f") != (values[1].dtype.kind == "f"):
                values = values[0].astype(np.float64), values[1].astype(np.float64)
        undefined, error = strict(left, right)
        return ColumnVector(ValueType.BOOL, _COMPARE[operator](*values), undefined, error)

    def _order(self, left: ColumnVector, right: ColumnVector) -> tuple[Data, Data]:
        """Of texts, numbers that compare as they do."""
        if left.text is None or right.text is None:
            return self._places(left), self._places(right)
        first, second = folded(left.text), folded(right.text)
        return np.array([first > second]), np.array([first < second])

    def _places(self, column: ColumnVector) -> Data:
        if column.text is not None:
            return np.array([self._texts.place_of(column.text)], np.int64)
        assert column.data is not None
        return self._texts.places()[column.data]

    def _same(self, left: ColumnVector, right: ColumnVector) -> Bools:
        """Rows where both are of one kind and equal, letter by letter."""
        valued = without(np.ones(1, np.bool_), *(left.undefined, left.error))
        valued = without(valued, right.undefined, right.error)
        if left.kind is not right.kind or left.kind is ValueType.NOTHING:
            same = np.zeros(1, np.bool_)
        elif left.kind is ValueType.TEXT:
            same = self._same_texts(left, right) & valued
        else:
            assert left.data is not None
            assert right.data is not None
            same = (left.data == right.data) & valued
        for mine, others in ((left.undefined, right.undefined), (left.error, right.error)):
            if mine is not None and others is not None:
                same = same | (mine & others)
        return same

    def _same_texts(self, left: ColumnVector, right: ColumnVector) -> Bools:
        if left.text is not None and right.text is not None:
            return np.array([left.text == right.text])
        return np.equal(self._codes(left), self._codes(right))

    def _codes(self, column: ColumnVector) -> Data:
        """Of texts, numbers that are equal where they are the same; -1: none of the table's."""
        if column.text is not None:
            return np.array([self._texts.codes.get(column.text, -1)])
        assert column.data is not None
        return column.data

    def _reckoned(self, operator: str, left: ColumnVector, right: ColumnVector) -> ColumnVector:
        if left.kind not in NUMBERS or right.kind not in NUMBERS:
            return no_sense(left, right)
        first, second = numbers(left), numbers(right)
        is_real = first.dtype.kind == "f" or second.dtype.kind == "f"
        if operator == "%" and is_real:
            return no_sense(left, right)
        undefined, error = strict(left, right)
        if is_real:
            first, second = first.astype(np.float64), second.astype(np.float64)
            data = first / second if operator == "/" else _SUMS[operator](first, second)
            self._doubt(~np.isfinite(data), undefined, error)
            return ColumnVector(ValueType.REAL, data, undefined, error)
        if operator in _SUMS:
            return ColumnVector(ValueType.INT, _SUMS[operator](first, second), undefined, error)
        by_nothing = without(second == 0, undefined, error)
        self._doubt((first == INT_MIN) & (second == -1), undefined, error)
        divisor = np.where(second == 0, 1, second)
        remainder = np.fmod(first, divisor)
        data = remainder if operator == "%" else (first - remainder) // divisor
        return ColumnVector(ValueType.INT, data, undefined, either(error, by_nothing))

    def _doubt(self, rows: Bools, undefined: Bools | None, error: Bools | None) -> None:
        rows = without(rows, undefined, error)
        if rows.any():
            self.doubtful = either(self.doubtful, rows)


def constant(value: tree.Result) -> ColumnVector:
    """The same in all rows."""
    match value:
        case tree.Absent():
            return undefined_column() if value is tree.UNDEFINED else error_column()
        case bool():
            return ColumnVector(ValueType.BOOL, np.array([value]))
        case int():
            return ColumnVector(ValueType.INT, np.array([value], np.int64))
        case float():
            return ColumnVector(ValueType.REAL, np.array([value]))
        case str():
            return ColumnVector(ValueType.TEXT, None, text=value)


def _flags(rows: Bools | None) -> ColumnVector:
    return ColumnVector(ValueType.BOOL, np.zeros(1, np.bool_) if rows is None else rows)
