"""The loop of the agent: it waits for the display, and tells each machine's sensor process."""

from __future__ import annotations

import select
from collections.abc import Sequence

from iriai.launcher.contract.session_messages import SESSION_PAUSE_S
from iriai.session.sensor_connection import SensorConnection
from iriai.session.source import ActivitySource
from iriai.system.clock import steady_s


class SessionAgent:
    """Says that somebody uses a session: at once, then each second while they do.

    While nobody does it says now and then that it watches still.
    """

    def __init__(self, source: ActivitySource, sensors: Sequence[SensorConnection]) -> None:
        self._source = source
        self._sensors = sensors
        self._is_used = False
        self._told_s = 0.0

    def run(self) -> None:
        """Go on until the session is over. Raises `SessionOver`."""
        while True:
            self.turn()

    def turn(self) -> None:
        """Do what is due, and wait for what comes. Raises `SessionOver`."""
        now_s = steady_s()
        for each in self._sensors:
            each.connect(now_s)
            each.tell_alive(now_s)
        # What the display's library has read already does not make its descriptor readable.
        is_used = self._source.take()
        if is_used is not None:
            self._is_used = is_used
        if is_used or (self._is_used and now_s >= self._told_s + SESSION_PAUSE_S):
            self._told_s = now_s
            for each in self._sensors:
                each.tell_used(now_s)
        self._wait(now_s)

    def _wait(self, now_s: float) -> None:
        poll = select.poll()
        poll.register(self._source.fileno(), select.POLLIN)
        by_fd = {each.fd: each for each in self._sensors if each.fd is not None}
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        dues_s = [each.next_s for each in self._sensors]
        if self._is_used:
            dues_s.append(self._told_s + SESSION_PAUSE_S)
        left_s = min(dues_s, default=None)
        wait_ms = None if left_s is None else max(0.0, left_s - now_s) * 1000 + 1
        for fd, _ in poll.poll(wait_ms):
            if fd in by_fd:
                by_fd[fd].take(steady_s())
