"""Notices about reservations: what a command or a mail is told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from iriai.jobs.notices import GRACE_S, PROCESSES_MAX, TIME_LIMIT_S
from iriai.model.batch_variables import NoticeVariable
from iriai.model.job import JobSpec
from iriai.model.reservation import Reservation, ReservationTerms
from iriai.model.reservation_news import Notification, ReservationNews
from iriai.model.submission import address_of

NODES_TOLD_MAX = 64
"""Names of nodes in one notice; 'iriai reservation show' has all."""
MEANINGS: Mapping[ReservationNews, str] = {
    ReservationNews.CONFIRMED: "all its nodes have it",
    ReservationNews.REFUSED: "this occurrence cannot be had; the series goes on",
    ReservationNews.DEGRADED: "it lacks nodes",
    ReservationNews.STARTED: "it is open",
    ReservationNews.NO_SHOW: "it is over, since no task has started in it",
}


def notice_spec(terms: ReservationTerms, notification: Notification, sendmail: str) -> JobSpec:
    """Return the specification of the program that tells a user: in `/`, as that user."""
    address = address_of(notification.to)
    command = ("/bin/sh", "-c", notification.to)
    return JobSpec(
        account=terms.account,
        user=terms.user,
        name="reservation",
        command=command if address is None else (sendmail, "-i", address),
        working_directory="/",
        time_limit_s=TIME_LIMIT_S,
        process_limit=PROCESSES_MAX,
        kill_grace_s=GRACE_S,
    )


def news_variables(
    name: str, reservation: Reservation, news: ReservationNews
) -> dict[NoticeVariable, str]:
    """Return the variables of a notice about a reservation; it is of no job."""
    terms = reservation.terms
    return {
        "IRIAI_JOB_ID": "",
        "IRIAI_RESERVATION_ID": name,
        "IRIAI_RESERVATION_NEWS": news.value,
        "IRIAI_RESERVATION_START": _moment(terms.start_wall_s),
        "IRIAI_RESERVATION_END": _moment(terms.end_wall_s),
        "IRIAI_RESERVATION_NODES": _names(reservation.nodes),
        "IRIAI_RESERVATION_MISSING": _names(reservation.missing),
        "IRIAI_RESERVATION_MESSAGE": _message(reservation, news),
    }


def news_mail(name: str, address: str, reservation: Reservation, news: ReservationNews) -> bytes:
    """Return the mail about a reservation."""
    from email.message import EmailMessage  # 30 modules, and few ask for mail

    told = news_variables(name, reservation, news)
    lines = [
        f"Reservation: {name}",
        f"News:        {news}: {told['IRIAI_RESERVATION_MESSAGE']}",
        f"Start:       {told['IRIAI_RESERVATION_START']}",
        f"End:         {told['IRIAI_RESERVATION_END']}",
        f"Nodes:       {told['IRIAI_RESERVATION_NODES'] or 'none'}",
        *([f"Lacking:     {told['IRIAI_RESERVATION_MISSING']}"] if reservation.missing else []),
        "",
        f"Details: iriai reservation show {name}",
    ]
    mail = EmailMessage()
    mail["To"] = address
    mail["Subject"] = f"{name}: {news}"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n".join([*lines, ""]), cte="8bit")
    return mail.as_bytes()


def _message(reservation: Reservation, news: ReservationNews) -> str:
    reasons = "; ".join(map(str, reservation.reasons))
    return f"{MEANINGS[news]}: {reasons}" if reasons else MEANINGS[news]


def _names(machines: tuple[str, ...]) -> str:
    more = len(machines) - NODES_TOLD_MAX
    return " ".join([*machines[:NODES_TOLD_MAX], *([f"and {more} more"] if more > 0 else [])])


def _moment(wall_s: float) -> str:
    return f"{datetime.fromtimestamp(wall_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
