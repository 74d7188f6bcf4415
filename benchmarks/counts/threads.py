"""Threads that take turns: which one runs, and when it waits, is the same in each run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from counts.scripted import CLOCK

PATIENCE_S = 60.0
"""Of the real clock, until a thread counts as one that waits for what no script gives it."""


class Turns:
    """Threads of the product, of which one runs at a time, and the main thread when none can."""

    def __init__(self) -> None:
        self._threads: list[ScriptedThread] = []
        self._main = threading.Semaphore(0)
        self.current: ScriptedThread | None = None

    def add(self, thread: ScriptedThread) -> None:
        """Let a thread run from the next `run` on."""
        self._threads.append(thread)

    def next_s(self) -> float | None:
        """Return when the first thread wakes that waits for a moment."""
        moments = [each.deadline_s for each in self._threads if each.deadline_s is not None]
        return min(moments, default=None)

    def wake_due(self) -> None:
        """Let those threads run from the next `run` on whose moment has come."""
        for each in self._threads:
            if each.deadline_s is not None and each.deadline_s <= CLOCK.now_s:
                each.can_run = True

    def run(self) -> bool:
        """Run each thread that can run until it waits; return whether any could."""
        ready = [each for each in self._threads if each.can_run]
        for thread in ready:
            self.current = thread
            thread.baton.release()
            if not self._main.acquire(timeout=PATIENCE_S):
                raise RuntimeError(
                    f"the thread {thread.name} waits for something that no script gives it: "
                    "have it wait at a threading.Condition, or script that in counts/threads.py"
                )
            self.current = None
        self._threads = [each for each in self._threads if not each.is_over]
        return bool(ready)

    def yield_to_main(self) -> None:
        """Called by a thread that waits, or is over."""
        self._main.release()


TURNS = Turns()


class ScriptedThread:
    """A thread that runs in its turns; as `threading.Thread`."""

    watch: Callable[[], None] = staticmethod(lambda: None)
    """Called first in each thread."""

    def __init__(
        self, target: Callable[[], object], name: str = "", daemon: bool | None = None
    ) -> None:
        self.name = name
        self.baton = threading.Semaphore(0)
        self.can_run = True
        self.is_over = False
        self.deadline_s: float | None = None
        """When it wakes at the latest; None: it waits for no moment."""
        self._target = target
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Run from its first turn on."""
        TURNS.add(self)
        self._thread.start()

    def join(self, timeout: float | None = None) -> None:
        """Give all threads their turns until this one is over."""
        while not self.is_over and TURNS.run():
            pass

    def is_alive(self) -> bool:
        """Return whether it is not over."""
        return not self.is_over

    def _run(self) -> None:
        self.baton.acquire()
        type(self).watch()
        try:
            self._target()
        finally:
            self.is_over = True
            self.can_run = False
            sys.settrace(None)
            sys.setprofile(None)
            TURNS.yield_to_main()


class ScriptedCondition:
    """As `threading.Condition`, for scripted threads.

    Only one thread runs, so it locks nothing; a lock that it was given is free while one waits.
    """

    def __init__(self, lock: threading.Lock | None = None) -> None:
        self._lock = lock or threading.Lock()
        self._waiting: list[ScriptedThread] = []

    def __enter__(self) -> ScriptedCondition:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for `notify`, or for the moment; return whether it was notified."""
        thread = TURNS.current
        if thread is None:
            raise RuntimeError("the main thread waits at a condition: no script expects that")
        self._waiting.append(thread)
        thread.can_run = False
        thread.deadline_s = None if timeout is None else CLOCK.now_s + timeout
        is_held = self._lock.locked()
        if is_held:
            self._lock.release()
        TURNS.yield_to_main()
        thread.baton.acquire()
        if is_held:
            self._lock.acquire()
        thread.deadline_s = None
        if thread in self._waiting:
            self._waiting.remove(thread)
            return False
        return True

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `predicate` holds; the main thread lets the others run meanwhile."""
        while not (holds := predicate()):
            if not (TURNS.run() if TURNS.current is None else self.wait(timeout)):
                break
        return holds

    def notify(self, count: int = 1) -> None:
        """Wake so many."""
        for thread in self._waiting[:count]:
            thread.can_run = True
        del self._waiting[:count]

    def notify_all(self) -> None:
        """Wake all."""
        self.notify(len(self._waiting))


class _Threading:
    """The module `threading` with scripted threads and conditions."""

    Thread = ScriptedThread
    Condition = ScriptedCondition

    def __getattr__(self, name: str) -> object:
        return getattr(threading, name)


def script_threads(watch: Callable[[], None]) -> None:
    """Let modules of iriai that were imported so far use scripted threads; `watch` in each."""
    ScriptedThread.watch = staticmethod(watch)
    for name, module in list(sys.modules.items()):
        if name.startswith("iriai.") and getattr(module, "threading", None) is threading:
            setattr(module, "threading", _Threading())  # noqa: B010 - a module has no such field
