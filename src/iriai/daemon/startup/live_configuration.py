"""The configuration in force. Some sections change live; for all else the daemon restarts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from iriai.config.live_settings import (
    LiveChange,
    changed_words,
    merged,
    only_live_differs,
    with_settings,
)
from iriai.config.reader import Configuration
from iriai.daemon.startup.settings import DaemonSettings, ServiceMode
from iriai.model.problem import Problem
from iriai.model.records import SectionSet
from iriai.plugins.orders import with_usual
from iriai.state.configuration import with_defaults, with_document

log = logging.getLogger(__name__)


class LiveConfiguration:
    """The settings', with what operators set since: a document, or without a cluster keys."""

    def __init__(self, settings: DaemonSettings, stored: Iterable[SectionSet]) -> None:
        """`stored` is what earlier daemons were told to set; a cluster's document outranks it."""
        self._settings = settings
        rows = stored if settings.cluster is None else ()
        self._set = {(row.section, row.name): row for row in rows}
        self.now: Configuration = settings.configuration
        self.watchers: list[Callable[[Configuration], None]] = []
        """Called after a change, in the order of this list."""
        for row in [*self._set.values()]:
            try:
                self.now = with_settings(self.now, [row])
            except Problem as problem:  # of another version
                del self._set[row.section, row.name]
                log.warning(
                    "what %s set of %s %s does not count: %s",
                    *(row.by, row.section, row.name, problem),
                )

    def coming(self) -> Configuration | None:
        """Return the configuration by the cluster's document; None if it takes a new start."""
        settings = self._settings
        try:
            given = with_usual(with_document(settings.own, settings.cluster))
        except Problem:
            return None  # the start says what is wrong with it
        new = with_defaults(given, single_user=settings.mode is ServiceMode.SINGLE_USER)
        return new if only_live_differs(self.now, new) else None

    def adopt_document(self) -> bool:
        """Take the cluster's document; return False if it takes a new start, and change nothing."""
        before, new = self.now, self.coming()
        if new is None:
            return False
        self._adopt(new)
        log.info("%s", changed_words(before, new) or "the configuration is as before")
        return True

    def set(self, change: LiveChange, by: str, wall_s: float) -> SectionSet:
        """Set keys beside those that were set before; return what is to be stored.

        Without any, what was set is forgotten. It is in force after `adopt_set`.
        """
        key = change.section, change.name
        row = self._set[key] = merged(self._set.get(key), change, by, wall_s)
        return row

    def without(self, change: LiveChange) -> Configuration:
        """Return the configuration in force, if nothing were set of what a change is about."""
        key = change.section, change.name
        others = [row for each, row in self._set.items() if each != key]
        return with_settings(self._settings.configuration, others)

    def adopt_set(self) -> None:
        """Bring into force what was set, once it is stored."""
        self._adopt(with_settings(self._settings.configuration, self._set.values()))

    def _adopt(self, new: Configuration) -> None:
        self.now = new
        for watcher in self.watchers:
            watcher(new)
