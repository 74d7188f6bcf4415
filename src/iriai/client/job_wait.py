"""Waiting for jobs to finish, across restarts of the daemon."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from iriai.client.connection import Connection
from iriai.client.pieces import pieces
from iriai.client.transport import ConnectionLost
from iriai.model.problem import Unreachable
from iriai.wire.changes import IDS_MAX
from iriai.wire.requests import Outcome, Progress, Wait, Waited

RETURN_WAIT_S = 30.0
"""A daemon that crashed is back within seconds, one that is upgraded within some more."""
RETRY_S = 0.1
"""Between attempts to reach a daemon that is away."""
_POLL_S = 3600.0

OnProgress = Callable[[Progress], None]
OnLost = Callable[[], None]


class JobWait:
    """One wait under way.

    Tasks go on while their daemon is away, so a wait does too: it asks again when the daemon is
    back, and gives up after `RETURN_WAIT_S`. `on_lost` is called when it goes away.
    """

    def __init__(
        self,
        line: Connection,
        names: tuple[str, ...],
        on_progress: OnProgress | None,
        on_lost: OnLost | None,
    ) -> None:
        self._line = line
        self._names = names
        self._on_progress = on_progress
        self._on_lost = on_lost
        self._numbers: list[int] | None = None
        """Of the requests: one, or several where there are very many names."""
        self._outcomes: list[Outcome] = []
        """Of those that were answered."""
        self._told: dict[int, Progress] = {}
        """What each was told last."""
        self._give_up_s = 0.0
        self._begin()

    @property
    def is_lost(self) -> bool:
        """Whether the daemon is away."""
        return self._numbers is None

    def poll(self, timeout_s: float = _POLL_S) -> tuple[Outcome, ...] | None:
        """How each ended, or None when that is not so yet after about `timeout_s`.

        May return earlier. Raises the problem that the daemon has with the wait, and
        `Unreachable` when it has been away for too long.
        """
        if self._numbers is None:
            self._return(timeout_s)
            return None
        try:
            while self._numbers:
                conversation = self._line.conversation
                waited = conversation.poll(self._numbers[0], Waited, timeout_s)
                if waited is None:
                    return None
                self._outcomes += waited.outcomes
                del self._numbers[0]
        except ConnectionLost:
            self._lose()
            return None
        return tuple(self._outcomes)

    def _begin(self) -> None:
        self._outcomes, self._told = [], {}
        numbers: list[int] = []
        try:
            for place, names in enumerate(pieces(self._names, IDS_MAX)):
                body = Wait(names, progress=self._on_progress is not None)
                tell = None if self._on_progress is None else partial(self._progressed, place)
                numbers.append(self._line.conversation.begin(body, on_notice=tell))
        except ConnectionLost:
            self._lose()
        else:
            self._numbers = numbers

    def _progressed(self, place: int, progress: Progress) -> None:
        """One of the requests tells where its tasks are."""
        self._told[place] = progress
        if self._on_progress is not None:
            told = self._told.values()
            self._on_progress(
                Progress(
                    sum(each.waiting for each in told),
                    sum(each.active for each in told),
                    sum(each.succeeded for each in told),
                    sum(each.failed for each in told),
                )
            )

    def _lose(self) -> None:
        self._numbers = None
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
