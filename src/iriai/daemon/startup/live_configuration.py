"""The configuration in force. Queues may change while the daemon runs; for all else it restarts."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from iriai.config.reader import Configuration
from iriai.daemon.startup.settings import DaemonSettings, ServiceMode
from iriai.model.problem import Problem
from iriai.plugins.orders import with_usual
from iriai.state.configuration import with_defaults, with_document


class LiveConfiguration:
    """Begins as the settings' and follows the cluster's document."""

    def __init__(self, settings: DaemonSettings) -> None:
        self._settings = settings
        self.now: Configuration = settings.configuration
        self.watchers: list[Callable[[Configuration], None]] = []
        """Called after a change, in the order of this list."""

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
        self.now = new
        for watcher in self.watchers:
            watcher(new)
        return True
