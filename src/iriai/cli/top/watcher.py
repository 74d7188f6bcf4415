"""Asks a daemon again and again in a thread of its own, and what a person wants in between."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from iriai.cli.top.source import Overview, Source
from iriai.client.client import Client
from iriai.model.problem import Problem, Unreachable

INTERVAL_MIN_S = 0.5
INTERVAL_MAX_S = 3600.0
WAITING_MAX = 8
"""Requests that wait for the thread; a key that is held down sends no more."""

Work = Callable[[Client], str]
"""Asks something, and returns the text to show."""
Then = Callable[[str, bool], None]
"""Gets the text, and whether it is a problem; called in the thread."""


class Watcher:
    """A thread with the connection. No overview begins before `interval_s` after the last one.

    After a change one comes earlier, but no sooner than `INTERVAL_MIN_S` after the last one.
    """

    def __init__(
        self,
        source: Source,
        interval_s: float,
        deliver: Callable[[Overview], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """Both are called in the thread: `deliver` with each overview, `fail` at an early end."""
        self.source = source
        self.interval_s = interval_s
        self.is_paused = False
        self._deliver = deliver
        self._fail = fail
        self._waiting: queue.Queue[tuple[Work, Then, bool] | None] = queue.Queue(WAITING_MAX)
        # It may wait for a daemon that never answers, and keeps nobody from leaving.
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        """Begin with an overview at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; what is being asked is not waited for."""
        self.is_paused = True
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return

    def ask(self, work: Work, then: Then, *, changes: bool = False) -> bool:
        """Have `work` done, between two overviews; return whether there is room for it.

        One that `changes` something is followed by an overview.
        """
        try:
            self._waiting.put_nowait((work, then, changes))
        except queue.Full:
            return False
        return True

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as error:  # noqa: BLE001 - whoever looks has to be told of any
            self._fail(error)

    def _watch(self) -> None:
        goes_on = True
        while goes_on:
            began_s = time.monotonic()
            if not self.is_paused:
                self._deliver(self.source.overview())
            goes_on = self._serve(began_s)
        self.source.close()

    def _serve(self, began_s: float) -> bool:
        """Do what is wanted until the next overview is due; return False at the end.

        One thing is done in any case: overviews may take longer than the interval.
        """
        due_s, is_first = began_s + self.interval_s, True
        while (left_s := due_s - time.monotonic()) > 0 or is_first:
            is_first = False
            try:
                wanted = self._waiting.get(timeout=max(left_s, 0.0))
            except queue.Empty:
                break
            if wanted is None:
                return False
            work, then, changes = wanted
            then(*self._done(work))
            if changes:
                due_s = min(due_s, began_s + INTERVAL_MIN_S)
        return True

    def _done(self, work: Work) -> tuple[str, bool]:
        try:
            return work(self.source.client()), False
        except Unreachable as problem:
            self.source.close()
            return str(problem), True
        except Problem as problem:
            return str(problem), True
