"""What a user is told of a reservation, and what of it is still to be told (017, section 13)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from iriai.model.bounds import Count
from iriai.model.submission import LENGTH_MAX

UNTOLD_MAX = 8
"""News of one reservation that wait; the oldest go first."""


class ReservationNews(StrEnum):
    """What happened to a reservation."""

    CONFIRMED = "confirmed"
    REFUSED = "refused"
    """An occurrence of a series could not be had."""
    DEGRADED = "degraded"
    """It lacks nodes."""
    STARTED = "started"
    NO_SHOW = "no-show"


class NewsWanted(StrEnum):
    """Which news a user wants."""

    ALL = "all"
    FAIL = "fail"
    """Those of which something has to be done: refused, degraded, no-show."""

    def concerns(self, news: ReservationNews) -> bool:
        """Return whether these news are wanted."""
        is_good = news in (ReservationNews.CONFIRMED, ReservationNews.STARTED)
        return self is NewsWanted.ALL or not is_good


class UntoldNews(msgspec.Struct, frozen=True):
    """News that are to be told."""

    serial: Count
    """Counts the news of a reservation, from 1."""
    news: ReservationNews


class Notification(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a user is told of a reservation, and of what."""

    to: Annotated[str, msgspec.Meta(max_length=LENGTH_MAX)]
    """A command, or `mailto:ADDRESS`."""
    wanted: NewsWanted = NewsWanted.ALL
    serial: Count = 0
    """Of the last news."""
    untold: Annotated[tuple[UntoldNews, ...], msgspec.Meta(max_length=UNTOLD_MAX)] = ()
