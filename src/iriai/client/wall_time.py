"""Times of the wall clock as people write them: ISO 8601, `now`, `9:00`, `tomorrow 9:00`, `+2h`.

docs/spec/017, section 2.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from iriai.model.problem import UsageProblem
from iriai.model.units import TEXT_LENGTH_MAX, parse_duration, printable

OffsetAt = Callable[[float], float]
"""Returns how far a zone is ahead of UTC (s) at a time of the wall clock."""

LOCAL_ZONE = "/etc/localtime"
"""A link to the zone of this machine."""
YEAR_MAX = 2999
"""A later year is a typing error."""
ZONE_MAX_S = 18 * 3600.0
"""No zone is further from UTC."""
_DAY_S = 86_400.0
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local times are counted from it, without a zone
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_ISO = re.compile(r"\d{4}.?[\dw]", re.ASCII | re.IGNORECASE)
_ZONE = re.compile(r"[A-Za-z]+(?:/[A-Za-z0-9_+-]+)+|UTC", re.ASCII)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
HINT = (
    "write 2026-12-01T09:00, 'tomorrow 9:00', 'monday 9:00', 9:00, now or +2h; with a zone as "
    "2026-12-01T09:00+01:00 or '9:00 Europe/Berlin'"
)


def local_offset_s(wall_s: float) -> float:
    """Return how far the zone of this process is ahead of UTC."""
    return float(time.localtime(wall_s).tm_gmtoff)


def zone_offsets(name: str) -> OffsetAt | None:
    """Return the offsets of a zone by its name, as `Europe/Berlin`; None: there is no such zone."""
    from zoneinfo import ZoneInfo

    try:
        zone = ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # no such name, or one that leads elsewhere
        return None

    def offset_s(wall_s: float) -> float:
        offset = datetime.fromtimestamp(wall_s, zone).utcoffset()
        return 0.0 if offset is None else offset.total_seconds()

    return offset_s


def zone_name(text: str | None) -> str:
    """Return the name of the zone that a time names at its end, else that of this process.

    Empty: that has no name that is known here, as where `TZ` gives the changes of its clocks.
    """
    words = (text or "").split()
    if len(words) > 1 and _ZONE.fullmatch(words[-1]):
        return words[-1]
    configured = os.environ.get("TZ")
    if configured is not None:
        name = configured.removeprefix(":")
        return name if _ZONE.fullmatch(name) else ""
    try:
        _, _, name = os.readlink(LOCAL_ZONE).partition("/zoneinfo/")
    except OSError:
        name = ""
    if _ZONE.fullmatch(name):
        return name
    return "UTC" if time.timezone == 0 and not time.daylight else ""


class _Context(NamedTuple):
    """What a text is read with."""

    text: str
    now_wall_s: float
    after_wall_s: float
    """`9:00`, `monday 9:00` and `+2h` are the next after it."""
    offset_at: OffsetAt


def parse_wall_time(
    text: str,
    now_wall_s: float,
    offset_at: OffsetAt = local_offset_s,
    *,
    after_wall_s: float | None = None,
) -> float:
    """Return the time of the wall clock that `text` names (s since 1970).

    `offset_at` is the zone of a text that names none. `9:00`, `monday 9:00` and `+2h` are counted
    from `after_wall_s`, by default now.

    Raises:
        UsageProblem: it is no time, or a local time that a change of clocks leaves out or repeats;
            both readings are named.
    """
    words = text[: TEXT_LENGTH_MAX + 1].split()
    if not words or len(text) > TEXT_LENGTH_MAX:
        raise _no_time(text)
    if len(words) > 1 and _ZONE.fullmatch(words[-1]):
        found = zone_offsets(words.pop())
        if found is None:
            raise _no_time(text, "there is no such zone")
        offset_at = found
    after_s = now_wall_s if after_wall_s is None else after_wall_s
    wall_s = _read(words, _Context(text, now_wall_s, after_s, offset_at))
    if not 0 <= wall_s < (datetime(YEAR_MAX + 1, 1, 1) - _EPOCH).total_seconds():  # noqa: DTZ001
        raise _no_time(text, f"years are 1970 to {YEAR_MAX}")
    return wall_s


def _read(words: Sequence[str], context: _Context) -> float:
    first = words[0].lower()
    if len(words) == 1:
        if first == "now":
            return context.now_wall_s
        if first[0] == "+":
            return context.after_wall_s + parse_duration(first[1:])
        if (clock := _clock_in(words[0], context)) is not None:
            return _next(context, clock, timedelta(days=1), _day(context, context.after_wall_s))
        if _ISO.match(first) and not _DATE.fullmatch(first):
            return _iso(words[0], context)
    clock = _clock_in(words[1], context) if len(words) > 1 else timedelta()
    if clock is None or len(words) > 2:
        if _ISO.match(first):
            return _iso(" ".join(words), context)
        raise _no_time(context.text)
    if first in ("today", "tomorrow"):
        day = _day(context, context.now_wall_s) + timedelta(days=first == "tomorrow")
        return _resolved(day + clock, context)
    weekday = next((place for place, name in enumerate(_DAYS) if first in (name, name[:3])), None)
    if weekday is not None:
        day = _day(context, context.after_wall_s)
        day += timedelta(days=(weekday - day.weekday()) % 7)
        return _next(context, clock, timedelta(days=7), day)
    if match := _DATE.fullmatch(first):
        try:
            there = date(*map(int, match.groups()))
        except ValueError:
            raise _no_time(context.text, "there is no such day") from None
        return _resolved(datetime(there.year, there.month, there.day) + clock, context)  # noqa: DTZ001
    raise _no_time(context.text)


def _clock_in(word: str, context: _Context) -> timedelta | None:
    """Return the time of day that `word` is; None: it is none."""
    match = _CLOCK.fullmatch(word)
    if match is None:
        return None
    hours, minutes, seconds = (int(each or 0) for each in match.groups())
    if hours > 23 or minutes > 59 or seconds > 59:
        raise _no_time(context.text, "times of day are 0:00 to 23:59")
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def _iso(text: str, context: _Context) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise _no_time(context.text, str(error)) from None
    offset = found.utcoffset()
    if offset is None:
        return _resolved(found, context)
    if abs(offset.total_seconds()) > ZONE_MAX_S:
        raise _no_time(context.text, "there is no such zone")
    return (found.replace(tzinfo=None) - offset - _EPOCH).total_seconds()


# --- local times ---------------------------------------------------------------------------------


def _day(context: _Context, wall_s: float) -> datetime:
    """Return the begin of the local day of a time."""
    local = _EPOCH + timedelta(seconds=wall_s + context.offset_at(wall_s))
    return local.replace(hour=0, minute=0, second=0, microsecond=0)


def _next(context: _Context, clock: timedelta, step: timedelta, day: datetime) -> float:
    """Return the first `clock` after what is counted from, on `day` or `step` later."""
    readings = _readings(day + clock, context)
    is_over = max(_real(readings, context) or readings) <= context.after_wall_s
    return _resolved(day + clock + step if is_over else day + clock, context)


def _readings(local: datetime, context: _Context) -> dict[float, float]:
    """Return the times that a local one is by the offsets before and after it, with these."""
    if not _EPOCH.year <= local.year <= YEAR_MAX:
        raise _no_time(context.text, f"years are 1970 to {YEAR_MAX}")
    as_utc_s = (local - _EPOCH).total_seconds()
    around = (context.offset_at(max(0.0, as_utc_s + each)) for each in (-_DAY_S, _DAY_S))
    return {as_utc_s - offset: offset for offset in around}


def _real(readings: dict[float, float], context: _Context) -> list[float]:
    """Return those of `readings` at which the zone has their offset."""
    return [each for each, offset in readings.items() if context.offset_at(each) == offset]


def _resolved(local: datetime, context: _Context) -> float:
    """Return the time that a local one is; raise `UsageProblem` unless it is one."""
    readings = _readings(local, context)
    real = _real(readings, context)
    if len(real) == 1:
        return real[0]
    first, last = (iso_text(each, context.offset_at) for each in sorted(readings))
    change = "comes twice: clocks are put back" if real else "is left out: clocks are put forward"
    raise UsageProblem(
        "bad-time",
        f"'{printable(context.text)}': {local:%Y-%m-%d %H:%M} {change}",
        f"write {first} or {last}",
    )


def iso_text(wall_s: float, offset_at: OffsetAt = local_offset_s) -> str:
    """Return a time with its zone, as `parse_wall_time` reads it; whole seconds, rounded up."""
    whole_s = -(-wall_s // 1)
    offset_s = offset_at(whole_s)
    local = _EPOCH + timedelta(seconds=whole_s + offset_s)
    hours, minutes = divmod(round(abs(offset_s)) // 60, 60)
    shown = local.isoformat(timespec="seconds" if local.second else "minutes")
    return f"{shown}{'-' if offset_s < 0 else '+'}{hours:02}:{minutes:02}"


def _no_time(text: str, why: str = "") -> UsageProblem:
    shown = f"'{printable(text[:TEXT_LENGTH_MAX])}' is not a time"
    return UsageProblem("bad-time", f"{shown}: {why}" if why else shown, HINT)
