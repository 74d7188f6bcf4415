"""What tells an agent that its session is used."""

from __future__ import annotations

from typing import Protocol

from iriai.launcher.contract.session_messages import DisplayKind

QUIET_MS = 1000
"""After so long without a key or a movement nobody uses the session."""


class NoSource(Exception):
    """A session cannot be watched this way; the text says why."""


class SessionOver(Exception):
    """The display is gone, and the session with it."""


class ActivitySource(Protocol):
    """Waits for keys and movements of one session, and never sees which they are."""

    display: DisplayKind

    def fileno(self) -> int:
        """Return what to wait for until it is readable."""
        ...

    def take(self) -> bool | None:
        """Take in what has come: whether the session is in use from now on; None: as before.

        It is in use from a key or movement on until `QUIET_MS` without one. Raises `SessionOver`.
        """
        ...
