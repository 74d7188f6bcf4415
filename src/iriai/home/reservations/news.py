"""Which news a change of a reservation is, and what of them is still to be told."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.model.reservation import Reservation, ReservationEnd, ReservationState
from iriai.model.reservation_news import UNTOLD_MAX, Notification, ReservationNews, UntoldNews

_STANDS = (ReservationState.CONFIRMED, ReservationState.OPEN)


def news_between(before: Reservation | None, after: Reservation) -> list[ReservationNews]:
    """Return what happened in a change, in order."""
    state = None if before is None else before.state
    news: list[ReservationNews] = []
    if after.is_over and state is not ReservationState.OVER:
        if after.end is ReservationEnd.NO_SHOW:
            news.append(ReservationNews.NO_SHOW)
        elif after.end is ReservationEnd.REFUSED and after.is_occurrence:
            news.append(ReservationNews.REFUSED)
        return news
    if after.state in _STANDS:
        if state not in _STANDS:
            news.append(ReservationNews.CONFIRMED)
        if after.state is ReservationState.OPEN and state is not ReservationState.OPEN:
            news.append(ReservationNews.STARTED)
        if after.missing and (before is None or not before.missing):
            news.append(ReservationNews.DEGRADED)
    return news


def with_news(notification: Notification, news: list[ReservationNews]) -> Notification:
    """Return a notification with further news, of those that are wanted."""
    for each in news:
        if notification.wanted.concerns(each):
            serial = notification.serial + 1
            untold = (*notification.untold, UntoldNews(serial, each))[-UNTOLD_MAX:]
            notification = replace(notification, serial=serial, untold=untold)
    return notification


def without_news(notification: Notification, serial: int) -> Notification:
    """Return a notification without news that were told, or cannot be."""
    untold = tuple(each for each in notification.untold if each.serial != serial)
    return replace(notification, untold=untold)
