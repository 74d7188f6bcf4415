"""An event loop that runs until nothing is left to do, and then returns to the script."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

from counts.scripted import CLOCK
from counts.threads import TURNS

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its clock is the scripted one; other threads run where it would wait."""

    def __init__(self) -> None:
        self.alarm_s: float | None = None
        """When its next alarm is due."""
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Return the scripted time."""
        return CLOCK.now_s

    def run_in_executor(
        self, executor: Executor | None, func: Callable[..., T], *args: object
    ) -> asyncio.Future[T]:
        """Call `func` now; its result is there in the next round."""
        future: asyncio.Future[T] = self.create_future()
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - it is whoever waits who handles it
            self.call_soon(future.set_exception, error)
        else:
            self.call_soon(future.set_result, result)
        return future

    def run_until_idle(self) -> None:
        """Run until all wait for something: for the script, or for a moment."""
        self.run_forever()

    def next_s(self) -> float | None:
        """Return the moment for which the first waits."""
        moments = [each for each in (self.alarm_s, TURNS.next_s()) if each is not None]
        return min(moments, default=None)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and stop at each moment for which somebody waits."""
        end_s = CLOCK.now_s + seconds
        while (next_s := self.next_s()) is not None and next_s <= end_s:
            CLOCK.now_s = max(CLOCK.now_s, next_s)
            TURNS.wake_due()
            self.run_until_idle()
        CLOCK.now_s = end_s


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if found or timeout == 0:
            return found
        if TURNS.run():
            return super().select(0)
        self._loop.alarm_s = None if timeout is None else CLOCK.now_s + timeout
        self._loop.stop()
        return []
