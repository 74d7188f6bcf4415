"""An event loop whose time passes only when nothing else is left to do: seconds cost nothing."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable

import pytest

from iriai.model.instant import Instant


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs what is ready; where nothing is, it is the next alarm's moment at once."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        super().__init__(_Impatient(self))

    def time(self) -> float:
        """The loop's clock."""
        return self.now_s

    def clocks(self, cause: str) -> Instant:
        """What `iriai.system.clock.now` would say in this loop."""
        return Instant(self.now_s, 1.7e9 + self.now_s, cause)


class _Impatient(selectors.DefaultSelector):
    """Does not wait for what happens, but lets as much time pass; files are not waited for."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list:
        found = super().select(0.0)
        if not found and timeout:
            self._loop.now_s += timeout
        return found


def virtual_story(
    monkeypatch: pytest.MonkeyPatch, body: Callable[[VirtualLoop], Awaitable[None]]
) -> None:
    """Run `body` in virtual time; links read the same clock."""
    loop = VirtualLoop()
    monkeypatch.setattr("iriai.daemon.net.link.read_clocks", loop.clocks)
    try:
        loop.run_until_complete(body(loop))
    finally:
        loop.close()
