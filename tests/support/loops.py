"""Tests in an event loop of their own, and waiting in it for a condition instead of for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.support.waiting import WAIT_S

_PAUSE_S = 0.002


def in_loop(body: Callable[[], Awaitable[None]]) -> None:
    """Run `body()` to its end; one that takes longer than any busy machine fails."""

    async def run() -> None:
        async with asyncio.timeout(WAIT_S):
            await body()

    asyncio.run(run())


async def until(condition: Callable[[], object]) -> None:
    """Return when it holds; asked again and again until whoever runs the loop gives up."""
    while not condition():
        await asyncio.sleep(_PAUSE_S)
