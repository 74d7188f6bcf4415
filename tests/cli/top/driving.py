"""A person before the view of `iriai top`: presses keys, waits, and reads."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from rich.console import Console
from textual.pilot import Pilot

from iriai.cli.top.panels import Panel
from iriai.cli.top.screens import TextScreen
from iriai.cli.top.source import Source
from iriai.cli.top.view import TopView
from iriai.client.client import Client
from tests.cli.top.daemon import NOW_S
from tests.support.waiting import WAIT_S


class Driven:
    """The view, and who sits before it."""

    def __init__(self, view: TopView, pilot: Pilot) -> None:
        self.view = view
        self._pilot = pilot
        self.notes: list[str] = []
        """The notes that were shown."""
        notify = view.notify

        def noting(message: str, **how: object) -> None:
            self.notes.append(message)
            notify(message, **how)

        view.notify = noting

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)
        await self._pilot.pause()

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until it is so; only a failure takes long."""
        deadline_s = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline_s, f"{what} did not come true"
            await asyncio.sleep(0.005)
        await self._pilot.pause()

    async def screen(self) -> str:
        """What is on the screen, once it is drawn and does not change any more."""
        before, text = "", screen_text(self.view)
        while before != text:
            await self._pilot.pause(0.05)
            before, text = text, screen_text(self.view)
        return text

    def state(self) -> str:
        """The line above the panels."""
        return str(self.view._state.render())

    def text(self) -> str:
        """What the screen above the panels says; empty where there is none."""
        screen = self.view.screen
        return str(screen.query_one("#text").render()) if isinstance(screen, TextScreen) else ""

    def first_column(self, name: str) -> list[str]:
        """The names of the rows of a panel."""
        [view] = [each for each in self.view._views if each.panel.name == name]
        return [str(view.table.get_row_at(at)[0]) for at in range(view.table.row_count)]


def screen_text(view: TopView) -> str:
    """What is on the screen now."""
    width, height = view.size
    console = Console(
        width=width, height=height, file=io.StringIO(), force_terminal=True, record=True
    )
    update = view.screen._compositor.render_update(full=True, screen_stack=view._background_screens)
    console.print(update)
    return "\n".join(line.rstrip() for line in console.export_text().splitlines()) + "\n"


@asynccontextmanager
async def drive(
    connect: Callable[[], Client],
    panels: Sequence[Panel],
    size: tuple[int, int] = (100, 40),
    *,
    interval_s: float = 3600.0,
    everyone: bool = False,
) -> AsyncIterator[Driven]:
    """The view with its first overview, at an interval that does not end unless one is given."""
    source = Source(connect, panels, clock=lambda: NOW_S, everyone=everyone)
    view = TopView(source, panels, interval_s)
    async with view.run_test(size=size) as pilot:
        driven = Driven(view, pilot)
        await driven.until(lambda: view._overview is not None, "a first overview")
        yield driven
