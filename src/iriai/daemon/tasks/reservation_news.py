"""Notices about reservations: a command, or mail, run as the reservation's user.

What is to be told is stored with the reservation, in the record of what happened. So it survives
daemons that die, as notices of jobs do (`iriai.daemon.tasks.notifications`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from iriai.daemon.loop.engine import Engine
from iriai.daemon.tasks.launcher_client import LauncherClient
from iriai.jobs.reservation_notices import news_mail, news_variables, notice_spec
from iriai.launcher.contract.messages import Exit, StartOrder, Template
from iriai.model.ids import NOTICE_ATTEMPT, AttemptId, ReservationId
from iriai.model.reservation import Reservation
from iriai.model.reservation_news import Notification, UntoldNews
from iriai.model.state import EndCause
from iriai.model.submission import address_of

log = logging.getLogger(__name__)

TRIES_MAX = 5
"""Orders of one notice that the launcher could not start."""
RETRY_S = 60.0
"""Pause between these."""


class ReservationNotices:
    """Tells users what happened to their reservations."""

    def __init__(
        self, home: str, engine: Engine, launcher: LauncherClient, sendmail: Callable[[], str]
    ) -> None:
        """`sendmail` returns the program for mail."""
        self._home = home
        self._engine = engine
        self._launcher = launcher
        self._sendmail = sendmail
        self._tries: dict[tuple[int, int], int] = {}
        """Orders that the launcher could not start, by reservation and count of news."""

    def order(self, number: int) -> None:
        """Order what is to be told of a reservation; the launcher ignores what it has begun."""
        reservation = self._engine.machine.home.reserved.get(number)
        if reservation is not None and reservation.notification is not None:
            for each in reservation.notification.untold:
                self._launch(reservation, reservation.notification, each)

    def order_all(self) -> None:
        """Order all that is to be told."""
        for number in [*self._engine.machine.home.reserved]:
            self.order(number)

    def ended(self, end: Exit) -> None:
        """Handle the end of a notice, reported for the first time or again."""
        attempt = end.attempt
        number, serial = attempt.number, attempt.rank
        tries = self._tries.get((number, serial), 0)
        if attempt.index != tries:
            self._launcher.forget_notice(attempt)
        elif end.cause is EndCause.REFUSED and tries + 1 < TRIES_MAX:
            self._tries[number, serial] = tries + 1
            self._launcher.forget_notice(attempt)
            self._engine.later(RETRY_S, lambda: self.order(number))
        else:
            if end.cause is not EndCause.COMPLETED:
                why = end.message or f"exit code {end.exit_code}"
                name = ReservationId(self._home, number)
                log.warning("notice of %s: %s (%s)", name, end.cause.value, why)
            self._tries.pop((number, serial), None)
            self._engine.request(lambda _: self._drop(attempt))

    def _drop(self, attempt: AttemptId) -> None:
        """Store that it was told before the launcher forgets it, or it would be begun again."""
        self._engine.machine.home.reservations.told(attempt.number, attempt.rank)
        self._engine.after_this_turn(lambda: self._launcher.forget_notice(attempt))

    def _launch(
        self, reservation: Reservation, notification: Notification, untold: UntoldNews
    ) -> None:
        number, serial = reservation.number, untold.serial
        tries = self._tries.get((number, serial), 0)
        attempt = AttemptId(self._home, number, tries, NOTICE_ATTEMPT, serial)
        name = str(ReservationId(self._home, reservation.number))
        told = tuple(news_variables(name, reservation, untold.news).items())
        spec = notice_spec(reservation.terms, notification, self._sendmail())
        address = address_of(notification.to)
        mail = b"" if address is None else news_mail(name, address, reservation, untold.news)
        template = Template(spec, b"", stdin=mail, notice=told)
        self._launcher.launch_notice(template, StartOrder(attempt, 0))
