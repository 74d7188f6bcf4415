"""Errors that nobody foresaw: each costs the attempt or message that met it, and is counted."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)


class Defects:
    """How many there were since this launcher began."""

    def __init__(self) -> None:
        self.count = 0

    def met(self, doing: str, error: Exception) -> str:
        """An error came up in `doing`; returns what whoever waits for that is to be told."""
        self.count += 1
        log.error("defect %d of this launcher, %s", self.count, doing, exc_info=error)
        kind = type(error).__name__
        return f"a defect of the launcher kept it from starting ({kind}); its log says where"
