"""The configuration in force. Queues may change while the daemon runs; for all else it restarts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from iriai.config.queue_settings import checked_settings, with_queues
from iriai.config.reader import Configuration
from iriai.daemon.startup.settings import DaemonSettings, ServiceMode
from iriai.model.problem import Problem
from iriai.model.records import QueueSet
from iriai.plugins.orders import with_usual
from iriai.state.configuration import with_defaults, with_document

log = logging.getLogger(__name__)


class LiveConfiguration:
    """The settings', with what operators set since: a document, or without a cluster queues."""

    def __init__(self, settings: DaemonSettings, stored: Iterable[QueueSet]) -> None:
        """`stored` is what earlier daemons were told to set; a cluster's document outranks it."""
        self._settings = settings
        self._set = {row.number: row for row in stored} if settings.cluster is None else {}
        self.now: Configuration = settings.configuration
        self.watchers: list[Callable[[Configuration], None]] = []
        """Called after a change, in the order of this list."""
        for row in [*self._set.values()]:
            try:
                self.now = with_queues(self.now, [row])
            except Problem as problem:  # of another version
                del self._set[row.number]
                log.warning(
                    "what %s set of queue %d does not count: %s", row.by, row.number, problem
                )

    def coming(self) -> Configuration | None:
        """Return the configuration by the cluster's document; None if it takes a new start."""
        settings = self._settings
        try:
            given = with_usual(with_document(settings.own, settings.cluster))
        except Problem:
            return None  # the start says what is wrong with it
        new = with_defaults(given, single_user=settings.mode is ServiceMode.SINGLE_USER)
        kept = replace(new, queues=self.now.queues, given=self.now.given)
        return new if kept == self.now else None

    def adopt_document(self) -> bool:
        """Take the cluster's document; return False if it takes a new start, and change nothing."""
        new = self.coming()
        if new is None:
            return False
        self._adopt(new)
        return True

    def set_queue(
        self, number: int, given: Iterable[tuple[str, str]], by: str, wall_s: float
    ) -> QueueSet:
        """Set keys of a queue, beside those that were set before; return what is to be stored.

        Without any, what was set is forgotten. It is in force after `adopt_set`. Raises a `Problem`
        if one is wrong.
        """
        before, settings = self._set.get(number), checked_settings(number, given)
        if before is not None and settings:
            settings = dict(before.settings) | settings
        row = self._set[number] = QueueSet(number, tuple(settings.items()), by, wall_s)
        return row

    def without(self, number: int) -> Configuration:
        """Return the configuration in force, if nothing were set of that queue."""
        others = [row for row in self._set.values() if row.number != number]
        return with_queues(self._settings.configuration, others)

    def adopt_set(self) -> None:
        """Bring into force what was set, once it is stored."""
        self._adopt(with_queues(self._settings.configuration, self._set.values()))

    def _adopt(self, new: Configuration) -> None:
        self.now = new
        for watcher in self.watchers:
            watcher(new)
