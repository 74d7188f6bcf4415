"""Waiting for jobs to finish, across restarts of the daemon."""

from __future__ import annotations

import time
from collections.abc import Callable

from iriai.client.line import Line
from iriai.client.transport import ConnectionLost
from iriai.model.problem import Unreachable
from iriai.wire.requests import Outcome, Progress, Wait, Waited

RETURN_WAIT_S = 30.0
"""A daemon that crashed is back within seconds, one that is upgraded within some more."""
RETRY_S = 0.1
"""Between attempts to reach a daemon that is away."""
_POLL_S = 3600.0

OnProgress = Callable[[Progress], None]
OnLost = Callable[[], None]


class Waiting:
    """One wait under way.

    Tasks go on while their daemon is away, so a wait does too: it asks again when the daemon is
    back, and gives up after `RETURN_WAIT_S`. `on_lost` is called when it goes away.
    """

    def __init__(
        self,
        line: Line,
        names: tuple[str, ...],
        on_progress: OnProgress | None,
        on_lost: OnLost | None,
    ) -> None:
        self._line = line
        self._names = names
        self._on_progress = on_progress
        self._on_lost = on_lost
        self._number: int | None = None
        self._give_up_s = 0.0
        self._begin()

    @property
    def is_lost(self) -> bool:
        """Whether the daemon is away."""
        return self._number is None

    def poll(self, timeout_s: float = _POLL_S) -> tuple[Outcome, ...] | None:
        """How each ended, or None when that is not so yet after about `timeout_s`.

        May return earlier. Raises the problem that the daemon has with the wait, and
        `Unreachable` when it has been away for too long.
        """
        if self._number is None:
            self._return(timeout_s)
            return None
        try:
            waited = self._line.conversation.poll(self._number, Waited, timeout_s)
        except ConnectionLost:
            self._lose()
            return None
        return None if waited is None else waited.outcomes

    def _begin(self) -> None:
        body = Wait(self._names, progress=self._on_progress is not None)
        try:
            self._number = self._line.conversation.begin(body, on_notice=self._on_progress)
        except ConnectionLost:
            self._lose()

    def _lose(self) -> None:
        self._number = None
        self._give_up_s = time.monotonic() + RETURN_WAIT_S
        if self._on_lost is not None:
            self._on_lost()

    def _return(self, timeout_s: float) -> None:
        try:
            self._line.reconnect()
        except Unreachable:
            if time.monotonic() > self._give_up_s:
                raise
            time.sleep(min(RETRY_S, timeout_s))
            return
        self._begin()
