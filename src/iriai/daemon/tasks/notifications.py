"""Notifications of finished jobs: a command, or mail, run as the job's user.

The store records, with the job's end, that a notice is due. The launcher runs it, as attempt
`NOTICE_ATTEMPT` of the job, and its journal knows the notices that it began. So a notice survives
daemons that die at any time and is never begun twice; one that the launcher died with is not
repeated. The launcher itself checks the user that it runs as.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.routes import LauncherReady, NoticeEnded, NotificationDue
from iriai.daemon.tasks.launcher_client import LauncherClient
from iriai.jobs.notices import (
    FinishedJob,
    command_notice,
    mail_notice,
    message,
    variables,
)
from iriai.jobs.payloads import PayloadStore
from iriai.launcher.contract.messages import StartOrder, Template
from iriai.model.ids import NOTICE_ATTEMPT, AttemptId, JobId
from iriai.model.problem import NotFound, Refused
from iriai.model.records import NoticesDropped
from iriai.model.state import EndCause
from iriai.model.submission import address_of, check_notify
from iriai.protocol.messages.effects import ReservationNewsDue
from iriai.store.reading import Reader
from iriai.store.writer import Writer
from iriai.wire.requests import Outcome

if TYPE_CHECKING:
    from iriai.daemon.tasks.reservation_news import ReservationNotices

log = logging.getLogger(__name__)

TRIES_MAX = 5
"""Number of orders of one notice that the launcher could not start."""
RETRY_S = 60.0
"""Pause between these: a person has to make space on a full disk."""


SENDMAIL_PLACES = ("/usr/sbin/sendmail", "/usr/lib/sendmail")
"""Paths at which mail programs install `sendmail`, since programs look for it there."""


def find_sendmail(configured: str) -> str:
    """Return the program that sends mail here; empty: there is none."""
    for path in (configured,) if configured else SENDMAIL_PLACES:
        if os.access(path, os.X_OK):
            return path
    return ""


def check_notice(notify: str, configured: str) -> None:
    """Raise a `Problem` if this machine cannot send such a notification."""
    check_notify(notify)
    if address_of(notify) is not None and not find_sendmail(configured):
        places = configured or " or ".join(SENDMAIL_PLACES)
        raise Refused(
            "no-sendmail",
            f"this machine cannot send mail: there is no {places}",
            "name a command, or set sendmail in [jobs] of iriai.toml to a program",
        )


class Notifications:
    """Notifications that are due, until they have been run."""

    def __init__(
        self,
        home: str,
        engine: Engine,
        writer: Writer,
        reader: Reader,
        outcome: Callable[[int], Outcome],
        payloads: PayloadStore,
        launcher: LauncherClient,
        sendmail: str,
    ) -> None:
        """`outcome` returns how a job ended; `sendmail` is the configured program for mail."""
        self._home = home
        self._engine = engine
        self._writer = writer
        self._reader = reader
        self._outcome = outcome
        self._payloads = payloads
        self._launcher = launcher
        self._configured_sendmail = sendmail
        self._due: dict[int, int] = dict.fromkeys(reader.notices(), 0)
        """Failed attempts by job."""
        self._reservations: ReservationNotices | None = None
        """None: there was nothing to tell of reservations."""
        engine.routes.take(NotificationDue, self._is_due)
        engine.routes.take(ReservationNewsDue, lambda due: self._of_reservations.order(due.number))
        engine.routes.take(NoticeEnded, self._ended)
        engine.routes.take(LauncherReady, self._attached)

    def _is_due(self, due: NotificationDue) -> None:
        """Start the notification of a job."""
        self._due[due.number] = 0
        self._order(due.number)

    def _attached(self, _ready: LauncherReady) -> None:
        """Order all that are due from a new launcher, which ignores those that it has begun."""
        for number in self._due:
            self._order(number)
        reserved = self._engine.machine.home.reserved
        if any(each.notification and each.notification.untold for each in reserved.values()):
            self._of_reservations.order_all()

    @property
    def _of_reservations(self) -> ReservationNotices:
        if self._reservations is None:
            from iriai.daemon.tasks.reservation_news import ReservationNotices

            self._reservations = ReservationNotices(
                self._home,
                self._engine,
                self._launcher,
                lambda: find_sendmail(self._configured_sendmail) or "sendmail",
            )
        return self._reservations

    def _ended(self, notice: NoticeEnded) -> None:
        """Handle the end of a notification, reported for the first time or again."""
        end = notice.end
        if end.attempt.rank:
            self._of_reservations.ended(end)
            return
        number = end.attempt.number
        tries = self._due.get(number)
        if tries is None or end.attempt.index != tries:
            self._launcher.forget_notice(end.attempt)
        elif end.cause is EndCause.REFUSED and tries + 1 < TRIES_MAX:
            self._due[number] = tries + 1
            self._launcher.forget_notice(end.attempt)
            self._engine.later(RETRY_S, lambda: self._order(number))
        else:
            if end.cause is not EndCause.COMPLETED:
                why = end.message or f"exit code {end.exit_code}"
                log.warning("notice of %s: %s (%s)", self._name(number), end.cause.value, why)
            self._drop(number, end.attempt)

    def _drop(self, number: int, attempt: AttemptId) -> None:
        """Store the end before the launcher forgets it, or it would be begun again."""
        self._due.pop(number, None)
        outbox = self._engine.outbox
        outbox.close_gate(self._writer.submit([NoticesDropped((number,))]))
        outbox.send(lambda: self._launcher.forget_notice(attempt))

    def _order(self, number: int) -> None:
        tries = self._due.get(number)
        if tries is not None:
            self._engine.in_thread(
                lambda: self._look_up(number),
                lambda found: self._launch(number, tries, found.result()),
            )

    def _look_up(self, number: int) -> FinishedJob | None:
        """Read the job; in a thread, since counting a million tasks takes a second."""
        record = self._reader.job(number)
        if record is None:
            return None
        try:
            return FinishedJob(
                record, record.all_causes(self._reader.causes(number)), self._outcome(number)
            )
        except NotFound:
            return None

    def _launch(self, number: int, tries: int, finished: FinishedJob | None) -> None:
        attempt = AttemptId(self._home, number, tries, NOTICE_ATTEMPT)
        if self._due.get(number) != tries:
            return
        if finished is None:  # its history has been deleted
            self._drop(number, attempt)
            return
        template = self._template(self._name(number), finished)
        self._launcher.launch_notice(template, StartOrder(attempt, 0))

    def _name(self, number: int) -> str:
        return str(JobId(self._home, number))

    def _template(self, name: str, finished: FinishedJob) -> Template:
        spec = finished.record.spec
        environment = self._payloads.get(spec.environment)
        told = tuple(variables(finished).items())
        address = address_of(spec.notify)
        if address is None:
            return Template(command_notice(spec), environment, notice=told)
        sendmail = find_sendmail(self._configured_sendmail) or "sendmail"
        mail = message(name, address, finished)
        return Template(mail_notice(spec, sendmail, address), environment, stdin=mail, notice=told)
