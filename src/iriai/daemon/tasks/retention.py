"""Retention: deletes old history, a little at a time.

Which jobs that are is asked in a thread; the deletion itself is a record for each job, written with
whatever else the writer has. So no transaction is long, and submissions before and after keep their
order: a payload that is about to go is forgotten here first, and a job submitted after that brings
its own copy. What a job printed goes before its history, so that a daemon that dies in between
finds the job once more and nothing stays behind.
"""

from __future__ import annotations

import asyncio
import logging
import time

from iriai.daemon.loop.engine import Engine
from iriai.daemon.startup.settings import DaemonSettings
from iriai.daemon.tasks.spool_cleanup import drop_of_jobs
from iriai.jobs.payloads import PayloadStore
from iriai.model.records import HistoryDropped
from iriai.store.reading import Reader
from iriai.store.sqlite import StoreFailure
from iriai.store.writer import Writer

log = logging.getLogger(__name__)

LOOK_S = 60.0
"""Between two checks if nothing was old enough: history is kept for days."""
PAUSE_S = 0.1
"""Between two portions; so at most 20,000 rows go in a second, and everybody else comes first."""
JOBS_A_PORTION = 100
ATTEMPTS_A_PORTION = 2000
"""Together they bound what one portion adds to a transaction: some milliseconds."""


class Retention:
    """Deletes old history."""

    def __init__(
        self,
        engine: Engine,
        writer: Writer,
        reader: Reader,
        payloads: PayloadStore,
        settings: DaemonSettings,
    ) -> None:
        self._spool = settings.paths.spool
        self._home = settings.home
        self._jobs = settings.configuration.jobs
        self._engine = engine
        self._writer = writer
        self._reader = reader
        self._payloads = payloads

    def begin(self) -> None:
        """Delete old history now, and check again every `LOOK_S`."""
        if self._jobs.keep_history_s is not None or self._jobs.keep_jobs is not None:
            self._poll()

    def _poll(self) -> None:
        keep_s = self._jobs.keep_history_s
        until_wall_s = None if keep_s is None else time.time() - keep_s

        def ask() -> dict[int, tuple[str, ...]]:
            expired = self._reader.expired(until_wall_s, self._jobs.keep_jobs, JOBS_A_PORTION)
            if expired:
                drop_of_jobs(self._spool, self._home, expired)
            return expired

        self._engine.in_thread(ask, self._drop)

    def _drop(self, found: asyncio.Future[dict[int, tuple[str, ...]]]) -> None:
        pause_s = LOOK_S
        try:
            expired = found.result()
            if expired:
                pause_s = PAUSE_S
                self._payloads.drop(digest for digests in expired.values() for digest in digests)
                rows = max(1, ATTEMPTS_A_PORTION // len(expired))
                records = [HistoryDropped(number, rows) for number in expired]
                self._writer.submit(records)
        except (StoreFailure, OSError) as failure:
            log.warning("old history was not deleted: %s", failure)
            pause_s = LOOK_S
        self._engine.later(pause_s, self._poll)
