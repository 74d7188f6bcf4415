"""The one writer: a thread that makes batches durable, as many at a time as have gathered.

While one commit waits for the disk further batches queue up, and the next commit takes them all
(group commit). So a busy machine pays for one sync what an idle one pays for a single batch.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from iriai.model.records import Record
from iriai.store.sqlite import StoreFailure
from iriai.store.store import Store

LAZY_S = 1.0
"""Records that are not urgent ride with the next urgent ones, after this time they go alone. More
would lose more of what is only nice to have, less would keep an idle disk awake."""
RETRY_S = 1.0
"""The retry interval while writing fails."""
TIDY_AFTER_S = 1.0
"""The idle time after which the log is checkpointed."""
GROUP_RECORDS_MAX = 4096
"""Records of one commit, beyond which a later batch waits for the next: it bounds the time until
the first of a long queue is reported durable to some tens of milliseconds."""
QUEUE_RECORDS_MAX = 500_000
"""Records that wait for a disk that does not take them: some hundred megabytes."""
SWITCH_INTERVAL_S = 0.0005
"""A commit asks for Python's lock some ten times. A busy thread gives it up only after the switch
interval, by default 5 ms, which would make each commit take 50."""

Notify = Callable[[int], None]
Report = Callable[[StoreFailure | None], None]


class _Pending(NamedTuple):
    sequence: int
    records: Sequence[Record]


def _ignore(failure: StoreFailure | None) -> None:
    """Ignore reports, for callers that read `Writer.failure` instead."""


class Writer:
    """Takes batches from one thread and makes them durable, in order, in another.

    `notify` is called in the writer's thread after each commit with the highest sequence number
    that is durable now. `report` is called there when writing begins to fail and, with None, when
    it works again. Meanwhile everything submitted is kept and tried again each second; a failure
    that is not `passing` ends the writer, and `submit` raises it.
    """

    def __init__(self, store: Store, notify: Notify, report: Report = _ignore) -> None:
        self._store = store
        self._notify = notify
        self._report = report
        self._untidy = False
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        # All below is guarded by the lock.
        self._queue: deque[_Pending] = deque()
        self._records = 0
        self._submitted = 0
        self._durable = 0
        self._write_by_s: float | None = None
        """When the first of the queue must go, on the monotonic clock; None: nothing waits."""
        self.failure: StoreFailure | None = None
        """Why nothing can be written at present; None if it can."""
        self._closing = False
        sys.setswitchinterval(min(SWITCH_INTERVAL_S, sys.getswitchinterval()))
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    @property
    def durable(self) -> int:
        """The highest sequence number up to which all batches are durable."""
        return self._durable

    def submit(self, records: Sequence[Record], urgent: bool = True) -> int:
        """Queue a batch: all of it becomes durable, or none.

        Returns its sequence number. An empty batch has the number of the one before it.

        Raises:
            StoreFailure: the queue is full, or writing has ended for good; nothing was queued.
        """
        with self._lock:
            self._check_room(len(records))
            if records:
                self._submitted += 1
                self._records += len(records)
                self._queue.append(_Pending(self._submitted, records))
            if self._queue:
                self._hurry(0.0 if urgent else LAZY_S)
            return self._submitted

    def close(self) -> None:
        """Write what is queued, and end.

        Raises:
            StoreFailure: it could not be written. Nobody was told that it is durable.
        """
        with self._lock:
            self._closing = True
            if self.failure is not None and self.failure.passing:
                self.failure = None  # it is tried once more
            self._changed.notify()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _check_room(self, more: int) -> None:
        if self.failure is not None and not self.failure.passing:
            raise self.failure
        if self._records + more > QUEUE_RECORDS_MAX:
            raise self.failure or StoreFailure(
                "store-behind",
                f"{self._records} records wait for the disk of {self._store.path}",
                "it is too slow for this load",
                passing=True,
            )

    def _hurry(self, within_s: float) -> None:
        if self.failure is not None:
            return  # the next attempt has its time
        write_by_s = time.monotonic() + within_s
        if self._write_by_s is None or write_by_s < self._write_by_s:
            self._write_by_s = write_by_s
            self._changed.notify()

    def _run(self) -> None:
        try:
            while step := self._next_step():
                step()
        except BaseException as error:
            trouble = f"{type(error).__name__}: {error}"
            self._fail(StoreFailure("store-broken", trouble, "restart iriai", passing=False))
            raise

    def _next_step(self) -> Callable[[], None] | None:
        """Wait for the next step; return None when the writer ends."""
        with self._lock:
            while not self._has_ended():
                if self._is_due():
                    return self._write_group
                woken = self._changed.wait(self._pause_s())
                if not woken and self._write_by_s is None:
                    return self._tidy
            return None

    def _has_ended(self) -> bool:
        if self.failure is not None and not self.failure.passing:
            return True
        return self._closing and (not self._queue or self.failure is not None)

    def _is_due(self) -> bool:
        if self._write_by_s is None:
            return False
        return self._closing or time.monotonic() >= self._write_by_s

    def _pause_s(self) -> float | None:
        """Return the time until the next step is due; None if none is."""
        if self._write_by_s is not None:
            return max(0.0, self._write_by_s - time.monotonic())
        return TIDY_AFTER_S if self._untidy else None

    def _write_group(self) -> None:
        group, batches = self._gather()
        try:
            self._store.write(group)
        except StoreFailure as failure:
            self._fail(failure)
            return
        with self._lock:
            for _ in range(batches):
                self._durable = self._queue.popleft().sequence
            self._records -= len(group)
            if not self._queue:
                self._write_by_s = None
            self._untidy = True
            recovered = self.failure is not None
            self.failure = None
        if recovered:
            self._report(None)
        self._notify(self._durable)

    def _gather(self) -> tuple[list[Record], int]:
        """Return the records and batches of the next commit, which stay queued."""
        group: list[Record] = []
        batches = 0
        with self._lock:
            for pending in self._queue:
                if group and len(group) + len(pending.records) > GROUP_RECORDS_MAX:
                    break
                group.extend(pending.records)
                batches += 1
        return group, batches

    def _fail(self, failure: StoreFailure) -> None:
        with self._lock:
            known = self.failure is not None and self.failure.code == failure.code
            self.failure = failure
            self._write_by_s = time.monotonic() + RETRY_S
        if not known:
            self._report(failure)

    def _tidy(self) -> None:
        self._untidy = False
        try:
            self._untidy = self._store.checkpoint()
        except StoreFailure as failure:
            if not failure.passing:
                self._fail(failure)
