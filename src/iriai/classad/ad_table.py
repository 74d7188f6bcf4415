"""Ads as columns: a row for each ad, a column for each attribute."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from iriai.classad.columns import ColumnVector, Data, NotCovered, ValueType
from iriai.model.ad import Value

ROWS_MIN = 16
"""Columns begin with room for so many rows, and double."""
_KINDS: Mapping[type, ValueType] = {
    bool: ValueType.BOOL,
    int: ValueType.INT,
    float: ValueType.REAL,
    str: ValueType.TEXT,
}
_TYPES: Mapping[ValueType, type] = {
    ValueType.BOOL: np.bool_,
    ValueType.INT: np.int64,
    ValueType.REAL: np.float64,
    ValueType.TEXT: np.int32,
}


def folded(text: str) -> bytes:
    """What `==` and `<` see of a text: its bytes, with the capital letters of ASCII small."""
    return text.encode("utf-8", "surrogatepass").lower()


class Texts:
    """All texts of a table, each with a code, and their order."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self._all: list[str] = []
        self._folded: list[bytes] = []
        """Each folded text once, in order."""
        self._places = np.zeros(0, np.int64)
        """By code: twice the place of its folded text there, plus one."""

    def code(self, text: str) -> int:
        """The code of a text, which is new perhaps."""
        code = self.codes.setdefault(text, len(self._all))
        if code == len(self._all):
            self._all.append(text)
        return code

    def places(self) -> NDArray[np.int64]:
        """By code, where each text stands in order; equal places are equal to `==`."""
        if len(self._places) != len(self._all):
            each = [folded(text) for text in self._all]
            self._folded = sorted(dict.fromkeys(each))
            at = {text: 2 * place + 1 for place, text in enumerate(self._folded)}
            self._places = np.array([at[text] for text in each], np.int64)
        return self._places

    def place_of(self, text: str) -> int:
        """Return the text's sort position; texts not in the table sort between their neighbours."""
        self.places()
        sought = folded(text)
        left, right = bisect_left(self._folded, sought), bisect_right(self._folded, sought)
        return left + right


class _Stored:
    """One attribute of all rows."""

    __slots__ = ("count", "data", "kinds", "other")

    def __init__(self, rows: int) -> None:
        self.kinds = np.zeros(rows, np.uint8)
        self.data: dict[ValueType, Data] = {}
        self.count: dict[ValueType, int] = {}
        """How many rows are of each kind."""
        self.other: ColumnVector | None = None
        """All rows as they were last asked for; None: something changed since."""

    def grow(self, rows: int) -> None:
        self.kinds = np.resize(self.kinds, rows) if len(self.kinds) else np.zeros(rows, np.uint8)
        for kind, data in self.data.items():
            self.data[kind] = np.resize(data, rows)

    def put(self, row: int, kind: ValueType, value: float) -> None:
        old = ValueType(int(self.kinds[row]))
        if old is not kind:
            self._count(old, -1)
            self._count(kind, 1)
            self.kinds[row] = kind
        if kind is not ValueType.NOTHING:
            if kind not in self.data:
                self.data[kind] = np.zeros(len(self.kinds), _TYPES[kind])
            self.data[kind][row] = value
        self.other = None

    def _count(self, kind: ValueType, by: int) -> None:
        if kind is not ValueType.NOTHING:
            self.count[kind] = self.count.get(kind, 0) + by
            if not self.count[kind]:
                del self.count[kind]
                if kind in self.data and by < 0:
                    del self.data[kind]

    def column(self, rows: int) -> ColumnVector:
        if self.other is None:
            self.other = self._column(rows)
        return self.other

    def _column(self, rows: int) -> ColumnVector:
        if len(self.count) > 1:
            raise NotCovered
        for kind, count in self.count.items():
            missing = None if count == rows else self.kinds[:rows] == ValueType.NOTHING
            return ColumnVector(kind, self.data[kind][:rows], missing)
        return ColumnVector(ValueType.NOTHING, None, np.ones(1, np.bool_))


class AdTable:
    """The ads of machines, by row."""

    def __init__(self) -> None:
        self.rows = 0
        """Rows that are or were in use; those of machines that left are empty."""
        self.texts = Texts()
        self._ads: list[dict[str, Value]] = []
        self._stored: dict[str, _Stored] = {}
        self._room = 0

    def add(self, ad: Mapping[str, Value]) -> int:
        """A new row."""
        row = self.rows
        self.rows += 1
        self._ads.append({})
        if self.rows > self._room:
            self._room = max(ROWS_MIN, 2 * self._room)
            for stored in self._stored.values():
                stored.grow(self._room)
        for stored in self._stored.values():
            stored.kinds[row] = ValueType.NOTHING
            stored.other = None
        self.put(row, ad)
        return row

    def put(self, row: int, ad: Mapping[str, Value]) -> list[str]:
        """A row is this ad from now on; the keys of the attributes that changed."""
        old, new = self._ads[row], {name.lower(): value for name, value in ad.items()}
        gone = [key for key in old if key not in new]
        changed = gone + [
            key
            for key, value in new.items()
            if key not in old or old[key] != value or type(old[key]) is not type(value)
        ]
        self._ads[row] = new
        for key in changed:
            self._put(row, key, new.get(key))
        return changed

    def change(self, row: int, key: str, value: Value) -> bool:
        """One attribute of a row is this from now on; whether it was another."""
        old = self._ads[row].get(key)
        if old == value and type(old) is type(value):
            return False
        self._ads[row][key] = value
        self._put(row, key, value)
        return True

    def ad(self, row: int) -> Mapping[str, Value]:
        """The ad of a row, names in small letters."""
        return self._ads[row]

    def column(self, key: str) -> ColumnVector | None:
        """An attribute of all rows, undefined where it is absent; None: no row has it.

        Raises:
            NotCovered: it is of different kinds.
        """
        stored = self._stored.get(key)
        if stored is None or not stored.count:
            return None
        return stored.column(self.rows)

    def _put(self, row: int, key: str, value: Value | None) -> None:
        stored = self._stored.get(key)
        if stored is None:
            stored = self._stored[key] = _Stored(self._room)
        if value is None:
            stored.put(row, ValueType.NOTHING, 0)
        else:
            kind = _KINDS[type(value)]
            number = self.texts.code(value) if isinstance(value, str) else value
            stored.put(row, kind, number)
