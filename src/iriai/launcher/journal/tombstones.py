"""Tombstones of attempts as intervals of numbers, so that none runs twice.

An attempt is a point on one of two lines. Index 0 (every job that is not an array) lies on the line
of job numbers, so that jobs that follow each other make one span. Other indices lie on the line
`job number x 2^30 + index`, so that an array makes one span. Each home and attempt number has its
own lines, since a task's second attempt says nothing about others' first; so has each of the news
of reservations, which have the numbers of reservations, not of jobs.

Spans are bounded: beyond `SPANS_MAX` the narrowest gaps between them are closed. What lay in a gap
then counts as over although it never ran here; its Launch is answered `refused`, which uses up that
attempt number and nothing else. So the bound costs a repeated attempt, never a second run. So does
that of lines: attempts of high numbers, `TRIES_APART_MAX` and above, share those of their home.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from iriai.model.ids import NOTICE_ATTEMPT, AttemptId

SPANS_MAX = 20_000
"""About 3 MB; single jobs and arrays that end in order need a handful."""
TRIES_APART_MAX = 1_000
"""Attempt numbers of one home that have lines of their own: no honest task is repeated so often."""
NEWS_APART_MAX = 1_000
"""News of one reservation that have lines of their own."""
_INDEX_SPAN = 1 << 30
_NEWS_SPAN = 1 << 3
"""Orders of one notice; numbers of reservations are larger than those of jobs."""

Line = tuple[str, int, bool]
"""Home, attempt number, whether it is the line of indices above 0."""


class IntervalSet:
    """A set of whole numbers as ascending, disjoint, never touching spans."""

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in spans:
            self._firsts.append(first)
            self._lasts.append(last)

    def __len__(self) -> int:
        return len(self._firsts)

    def __contains__(self, number: int) -> bool:
        position = bisect_right(self._firsts, number) - 1
        return position >= 0 and number <= self._lasts[position]

    def spans(self) -> tuple[tuple[int, int], ...]:
        """Return first and last number of each span."""
        return tuple(zip(self._firsts, self._lasts, strict=True))

    def add(self, first: int, last: int) -> None:
        """Add all numbers from `first` to `last`."""
        begin = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if begin < end:  # spans that it overlaps or touches
            first = min(first, self._firsts[begin])
            last = max(last, self._lasts[end - 1])
        self._firsts[begin:end] = [first]
        self._lasts[begin:end] = [last]

    def close_gaps(self, keep: int) -> None:
        """Close the narrowest gaps until `keep` spans are left (at least 1)."""
        gaps = [(self._firsts[at + 1] - self._lasts[at], at) for at in range(len(self._firsts) - 1)]
        gaps.sort()
        closed = {at for _, at in gaps[: max(0, len(self) - max(keep, 1))]}
        firsts, lasts = self._firsts[:1], []
        for at in range(len(self._firsts) - 1):
            if at not in closed:
                lasts.append(self._lasts[at])
                firsts.append(self._firsts[at + 1])
        self._firsts, self._lasts = firsts, lasts + self._lasts[-1:]


class Tombstones:
    """The attempts that are over, and whose ends the daemon has stored."""

    def __init__(self, lines: Iterable[tuple[Line, tuple[tuple[int, int], ...]]] = ()) -> None:
        self._lines = {line: IntervalSet(spans) for line, spans in lines}
        self._count = sum(len(spans) for spans in self._lines.values())

    def __contains__(self, attempt: AttemptId) -> bool:
        line, point = _place(attempt)
        spans = self._lines.get(line)
        return spans is not None and point in spans

    def add(self, attempts: Iterable[AttemptId]) -> None:
        """Remember that `attempts` are over."""
        points: dict[Line, list[int]] = {}
        for line, point in map(_place, attempts):
            points.setdefault(line, []).append(point)
        for line, found in points.items():
            spans = self._lines.setdefault(line, IntervalSet())
            before = len(spans)
            for first, last in _runs(found):
                spans.add(first, last)
            self._count += len(spans) - before
        while self._count > max(SPANS_MAX, len(self._lines)):  # each line has one at least
            self._coarsen()

    def lines(self) -> tuple[tuple[Line, tuple[tuple[int, int], ...]], ...]:
        """Return everything, for the journal."""
        return tuple((line, spans.spans()) for line, spans in self._lines.items())

    def _coarsen(self) -> None:
        largest = max(self._lines.values(), key=len)
        before = len(largest)
        largest.close_gaps(before // 2)
        self._count -= before - len(largest)


def _runs(points: list[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last of the numbers that follow each other."""
    points.sort()
    first = last = points[0]
    for point in points:
        if point > last + 1:
            yield first, last
            first = point
        last = point
    yield first, last


def _place(attempt: AttemptId) -> tuple[Line, int]:
    home, number, index, tries, rank, _ = attempt
    if tries == NOTICE_ATTEMPT and rank:  # news of a reservation: of others a machine has one seat
        line = TRIES_APART_MAX + min(rank, NEWS_APART_MAX)
        return (home, line, False), number * _NEWS_SPAN + index
    tries = min(tries, TRIES_APART_MAX)
    if index == 0:
        return (home, tries, False), number
    return (home, tries, True), number * _INDEX_SPAN + index
