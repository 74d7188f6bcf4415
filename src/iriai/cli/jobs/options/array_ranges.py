"""Array indices as people write them: `1-100`, `1-10,20-30:2`, `5`."""

from __future__ import annotations

import re

from iriai.model.problem import UsageProblem

Ranges = tuple[tuple[int, int, int], ...]
"""Ranges as (first, last, step), last included."""

THROTTLE_MAX = 999_999_999
"""The largest throttle: no array has more tasks."""
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18})(?::(\d{1,18}))?)?")


def parse_throttled(text: str) -> tuple[Ranges, int | None]:
    """Return the ranges of `text`, and the throttle N if it ends in `%N`.

    Raises:
        UsageProblem: it is not a list of ranges, or N is no number of tasks.
    """
    ranges, percent, throttle = text.partition("%")
    if not percent:
        return parse_array(ranges), None
    if not throttle.isdecimal() or not 1 <= int(throttle) <= THROTTLE_MAX:
        raise UsageProblem(
            "bad-throttle",
            f"'{text}': '{throttle}' is not a number of tasks",
            "write --array 1-1000%50",
        )
    return parse_array(ranges), int(throttle)


def parse_array(text: str) -> Ranges:
    """Return the ranges of `text`, in ascending order of their first index.

    Raises:
        UsageProblem: it is not a list of ranges.
    """
    ranges: list[tuple[int, int, int]] = []
    for part in text.replace(" ", "").split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise _bad(text, f"'{part}' is not a range of indices")
        first = int(match[1])
        last, step = int(match[2] or first), int(match[3] or 1)
        if last < first or step < 1:
            raise _bad(text, f"the range '{part}' is empty")
        ranges.append((first, last, step))
    return tuple(sorted(ranges))


def array_text(ranges: Ranges) -> str:
    """Return `ranges` as `parse_array` reads them."""
    return ",".join(_range_text(*each) for each in ranges)


def _range_text(first: int, last: int, step: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}" if step == 1 else f"{first}-{last}:{step}"


def _bad(text: str, why: str) -> UsageProblem:
    where = "" if f"'{text}'" in why else f" in '{text}'"
    return UsageProblem("bad-array", f"{why}{where}", "write --array 1-100 or --array 1-10,20-30:2")
