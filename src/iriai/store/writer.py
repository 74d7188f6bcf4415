"""The one writer: makes batches durable, as many at a time as have gathered.

While one commit waits for the disk further batches queue up, and the next commit takes them all
(group commit). So a busy machine pays for one sync what an idle one pays for a single batch. That
needs a thread. Where commits are short, a small one is made in the thread of the caller: handing it
to another and hearing of it again takes as long.
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
HERE_S = 0.004
"""Commits that take no longer, on average, are made in the caller's thread: it waits for the disk
meanwhile, which nobody notices."""
HERE_WEIGHT = 0.1
"""Of the last commit in that average."""
HERE_RECORDS_MAX = 64
"""Records of such a commit: more are worth a thread."""
HERE_COMMITS_MAX = 500
"""Such commits before the other thread checkpoints the log: SQLite would do so at 32 MB, within a
commit."""
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
    """Takes batches from one thread and makes them durable, in order, there or in another.

    `notify` is called in the writer's thread after each commit with the highest sequence number
    that is durable now. `report` is called there when writing begins to fail and, with None, when
    it works again. Meanwhile everything submitted is kept and tried again each second; a failure
    that is not `passing` ends the writer, and `submit` raises it.
    """

    def __init__(self, store: Store, notify: Notify, report: Report = _ignore) -> None:
        self._store = store
        self._notify = notify
        self._report = report
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
        self._is_busy = False
        """Whether the writer's thread uses the store."""
        self._commit_s = 0.0
        """What a commit takes, on average."""
        self._commits_here = 0
        """In the caller's thread, since the log was checkpointed."""
        self._tidy_at_s: float | None = None
        """When the log is checkpointed, if nothing is written until then; None: it is empty."""
        sys.setswitchinterval(min(SWITCH_INTERVAL_S, sys.getswitchinterval()))
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    @property
    def durable(self) -> int:
        """The highest sequence number up to which all batches are durable."""
        return self._durable

    def submit(
        self, records: Sequence[Record], urgent: bool = True, *, may_wait: bool = False
    ) -> int:
        """Queue a batch: all of it becomes durable, or none.

        Returns its sequence number. An empty batch has the number of the one before it. With
        `may_wait` an urgent batch may be `durable` on return, without a call of `notify`.

        Raises:
            StoreFailure: the queue is full, or writing has ended for good; nothing was queued.
        """
        with self._lock:
            self._check_room(len(records))
            if records:
                self._submitted += 1
                self._records += len(records)
                self._queue.append(_Pending(self._submitted, records))
            if self._queue and not (urgent and may_wait and self._write_here()):
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

    def _write_here(self) -> bool:
        """Write what is queued now, in the caller's thread; return False if that must not be.

        The caller holds the lock.
        """
        began_s = time.monotonic()
        is_here = (
            self._commit_s <= HERE_S
            and self._records <= HERE_RECORDS_MAX
            and not (self._is_busy or self._closing or self.failure is not None)
            and (self._write_by_s is None or self._write_by_s > began_s)
        )
        if not is_here:
            return False
        try:
            self._store.write([r for each in self._queue for r in each.records], waits=False)
        except StoreFailure:
            return False  # the other thread tries again, waits, and reports what it finds
        self._commits_here += 1
        self._written(len(self._queue), began_s)
        return True

    def _written(self, batches: int, began_s: float) -> None:
        """Note that the first batches of the queue are durable. The caller holds the lock."""
        for _ in range(batches):
            done = self._queue.popleft()
            self._records -= len(done.records)
        self._durable = done.sequence
        if not self._queue:
            self._write_by_s = None
        over_s = time.monotonic()
        self._commit_s += HERE_WEIGHT * (over_s - began_s - self._commit_s)
        is_first, is_long = self._tidy_at_s is None, self._commits_here >= HERE_COMMITS_MAX
        self._tidy_at_s = over_s + (0.0 if is_long else TIDY_AFTER_S)
        if is_first or is_long:
            self._changed.notify()

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
            self._is_busy = False
            while not self._has_ended():
                step = self._due_step()
                if step is not None:
                    self._is_busy = True
                    return step
                self._changed.wait(self._pause_s())
            return None

    def _has_ended(self) -> bool:
        if self.failure is not None and not self.failure.passing:
            return True
        return self._closing and (not self._queue or self.failure is not None)

    def _due_step(self) -> Callable[[], None] | None:
        """Return what must be done now, if anything."""
        now_s = time.monotonic()
        if self._write_by_s is not None:
            return self._write_group if self._closing or now_s >= self._write_by_s else None
        is_idle = self._tidy_at_s is not None and now_s >= self._tidy_at_s
        return self._tidy if is_idle else None

    def _pause_s(self) -> float | None:
        """Return the time until the next step is due; None if none is."""
        due_s = self._tidy_at_s if self._write_by_s is None else self._write_by_s
        return None if due_s is None else max(0.0, due_s - time.monotonic())

    def _write_group(self) -> None:
        group, batches = self._gather()
        began_s = time.monotonic()
        try:
            self._store.write(group)
        except StoreFailure as failure:
            self._fail(failure)
            return
        with self._lock:
            self._written(batches, began_s)
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
        self._tidy_at_s, self._commits_here = None, 0
        try:
            if self._store.checkpoint():
                self._tidy_at_s = time.monotonic() + TIDY_AFTER_S
        except StoreFailure as failure:
            if not failure.passing:
                self._fail(failure)
