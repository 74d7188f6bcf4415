"""The occurrences of a series: a rule of RFC 5545, in the local time of a zone.

The rule is evaluated by dateutil (docs/adr/0133). It is bounded here: what is repeated more often
than once a day, parts that are not listed, and rules that match nothing for years are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from dateutil.rrule import DAILY, MONTHLY, WEEKLY, YEARLY, rrule, weekday

from iriai.home.reservations.occurrence import Occurrence
from iriai.model.problem import UsageProblem
from iriai.model.reservation import RULE_LENGTH_MAX
from iriai.model.units import printable

FREQUENCIES: Mapping[str, tuple[int, int]] = {
    "DAILY": (DAILY, 1),
    "WEEKLY": (WEEKLY, 7),
    "MONTHLY": (MONTHLY, 28),
    "YEARLY": (YEARLY, 365),
}
"""By name: what it is for dateutil, and how many days a period has at least."""
SHORT: Mapping[str, str] = {
    "DAILY": "FREQ=DAILY",
    "WEEKDAYS": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR",
    "WEEKLY": "FREQ=WEEKLY",
    "MONTHLY": "FREQ=MONTHLY",
    "YEARLY": "FREQ=YEARLY",
}
INTERVAL_MAX = 366
COUNT_MAX = 10_000
GAP_MAX_DAYS = 3_000
"""A rule that matches no day for so long is over: eight years are between two 29ths of February."""
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_DAY = re.compile(r"([+-]?[1-9]\d?)?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_UNTIL = re.compile(r"(\d{8})(?:T(\d{6})(Z?))?", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,5}", re.ASCII)
_PARTS_MAX = 9
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local times are counted from it, without a zone
HINT = "write daily, weekdays, weekly, or a rule of RFC 5545 as 'FREQ=WEEKLY;BYDAY=MO,TH;COUNT=10'"


class _Interval(int):
    """The interval of a rule; it counts the periods without a match, and ends the search.

    dateutil looks for the next match until the year 9999. It adds the interval for each period.
    """

    left: int
    """Periods until it is given up; set anew with each match."""

    def _pass(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _NoMatchError

    def __radd__(self, other: int) -> int:
        self._pass()
        return int(other) + int(self)

    def __mul__(self, other: int) -> int:
        self._pass()
        return int(self) * int(other)


class _NoMatchError(Exception):
    pass


def canonical_rule(text: str) -> str:
    """Return a rule as it is kept: a short form is written out.

    Raises:
        UsageProblem: it is no rule, or more than is allowed here.
    """
    if len(text) > RULE_LENGTH_MAX:
        raise _bad("the rule is too long", f"at most {RULE_LENGTH_MAX} characters")
    word = "".join(text.split()).upper().removeprefix("RRULE:")
    rule = SHORT.get(word, word)
    _parsed(rule)
    return rule


def occurrences(rule: str, zone_name: str, start_wall_s: float) -> Iterator[Occurrence]:
    """Yield the occurrences from the first start on, in the local time of a zone.

    Raises:
        UsageProblem: at once, if the rule or the zone is none.
    """
    zone = _zone(zone_name)
    parts = _parsed(rule)
    local = datetime.fromtimestamp(start_wall_s, zone).replace(tzinfo=None, microsecond=0)
    return _expanded(parts, local, zone)


def _expanded(parts: dict[str, Any], first: datetime, zone: ZoneInfo) -> Iterator[Occurrence]:
    frequency, days = FREQUENCIES[parts["FREQ"]]
    interval = _Interval(parts.get("INTERVAL", 1))
    periods = GAP_MAX_DAYS // (days * interval.real) + 1
    interval.left = periods
    until = parts.get("UNTIL")
    until = until(zone) if until is not None else None
    rule = rrule(
        frequency,
        first,
        interval,
        wkst=parts.get("WKST", 0),
        count=parts.get("COUNT"),
        until=until,
        bysetpos=parts.get("BYSETPOS"),
        bymonth=parts.get("BYMONTH"),
        bymonthday=parts.get("BYMONTHDAY"),
        byweekday=parts.get("BYDAY"),
        cache=False,
    )
    try:
        for local in rule:
            interval.left = periods
            yield _at(local, zone)
    except _NoMatchError:
        return


def _at(local: datetime, zone: ZoneInfo) -> Occurrence:
    """Return when a local time is; of one that is none, or two, with the reason."""
    first, last = (local.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    before, after = first.utcoffset(), last.utcoffset()
    assert before is not None, "a zone has offsets"
    assert after is not None, "a zone has offsets"
    start_wall_s = first.astimezone(UTC).timestamp()
    if before == after:
        return Occurrence(start_wall_s)
    change = "is left out: clocks are put forward"
    if before > after:
        change = "comes twice: clocks are put back"
    return Occurrence(start_wall_s, f"{local:%Y-%m-%d %H:%M} {change}")


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # no such name, or one that leads elsewhere
        shown = printable(name[:64])
        hint = "name one, as -s 'monday 9:00 Europe/Berlin'"
        raise UsageProblem("bad-zone", f"'{shown}' is not a time zone", hint) from None


# --- the parts of a rule -------------------------------------------------------------------------


def _parsed(rule: str) -> dict[str, Any]:
    """Return the parts of a rule, each within its bounds."""
    words = rule.split(";")
    if len(words) > _PARTS_MAX:
        raise _bad("it has too many parts")
    parts: dict[str, Any] = {}
    for word in words:
        name, sign, value = word.partition("=")
        read = _READ.get(name)
        if not sign or read is None:
            allowed = ", ".join(_READ)
            raise _bad(f"'{printable(name[:32])}' is no part that is known", f"parts: {allowed}")
        if name in parts:
            raise _bad(f"it has {name} twice")
        parts[name] = read(name, value)
    if "FREQ" not in parts:
        raise _bad("it has no FREQ")
    if "COUNT" in parts and "UNTIL" in parts:
        raise _bad("it has both COUNT and UNTIL")
    if "BYSETPOS" in parts and not parts.keys() & {"BYDAY", "BYMONTHDAY", "BYMONTH"}:
        raise _bad("BYSETPOS chooses among nothing")
    if parts["FREQ"] in ("DAILY", "WEEKLY") and any(each.n for each in parts.get("BYDAY", ())):
        raise _bad("days are numbered in FREQ=MONTHLY and FREQ=YEARLY alone")
    if parts["FREQ"] == "WEEKLY" and "BYMONTHDAY" in parts:
        raise _bad("BYMONTHDAY has no meaning in a week")
    return parts


def _frequency(_: str, value: str) -> str:
    if value not in FREQUENCIES:
        raise _bad(f"FREQ={printable(value[:32])} is not one of {', '.join(FREQUENCIES)}")
    return value


def _one(least: int, most: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if not _NUMBER.fullmatch(value) or not least <= int(value) <= most:
            raise _bad(f"{name}={printable(value[:32])} is not {least} to {most:,}")
        return int(value)

    return read


def _several(most: int, *, is_signed: bool) -> Callable[[str, str], tuple[int, ...]]:
    one = _one(-most if is_signed else 1, most)

    def read(name: str, value: str) -> tuple[int, ...]:
        numbers = tuple(dict.fromkeys(one(name, each) for each in value.split(",")))
        if 0 in numbers:
            raise _bad(f"{name} has a 0")
        return numbers

    return read


def _days(_: str, value: str) -> tuple[weekday, ...]:
    days: dict[weekday, None] = {}
    for word in value.split(","):
        match = _DAY.fullmatch(word)
        if match is None:
            raise _bad(f"BYDAY has '{printable(word[:32])}', which is none of {', '.join(DAYS)}")
        place = int(match[1]) if match[1] else None
        if place is not None and abs(place) > 53:
            raise _bad("there are at most 53 of a day in a year")
        days[weekday(DAYS.index(match[2]), place)] = None
    return tuple(days)


def _week_start(_: str, value: str) -> int:
    if value not in DAYS:
        raise _bad(f"WKST is none of {', '.join(DAYS)}")
    return DAYS.index(value)


def _until(_: str, value: str) -> Callable[[ZoneInfo], datetime]:
    match = _UNTIL.fullmatch(value)
    try:
        clock = match[2] or "235959" if match else ""
        local = datetime.strptime(match[1] + clock, "%Y%m%d%H%M%S") if match else None  # noqa: DTZ007
    except ValueError:
        local = None
    if match is None or local is None or not _EPOCH <= local < _EPOCH.replace(year=3000):
        raise _bad("UNTIL is not a time as 20271231 or 20271231T170000")
    if not match[3]:
        return lambda _: local
    return lambda zone: local.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)


_READ: Mapping[str, Callable[[str, str], Any]] = {
    "FREQ": _frequency,
    "INTERVAL": _one(1, INTERVAL_MAX),
    "COUNT": _one(1, COUNT_MAX),
    "UNTIL": _until,
    "BYDAY": _days,
    "BYMONTHDAY": _several(31, is_signed=True),
    "BYMONTH": _several(12, is_signed=False),
    "BYSETPOS": _several(366, is_signed=True),
    "WKST": _week_start,
}
"""How each part is read. The time of day is that of the start."""


def _bad(why: str, hint: str = HINT) -> UsageProblem:
    return UsageProblem("bad-rule", f"--every: {why}", hint)
