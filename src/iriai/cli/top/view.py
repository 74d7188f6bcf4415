"""The live view of `iriai top`, in Textual (docs/adr/0121)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.events import Resize
from textual.message import Message
from textual.widgets import DataTable, Footer, Static

from iriai.cli.framework.table import clock_text, printable_lines, span_text
from iriai.cli.machine.status import jobs_text
from iriai.cli.top.looks import CHANGES, LOOKS, row_text
from iriai.cli.top.panel_view import PanelView, heights
from iriai.cli.top.panels import Panel
from iriai.cli.top.screens import KEYS, Confirmation, TextScreen
from iriai.cli.top.source import Overview, Source
from iriai.cli.top.watcher import Watcher
from iriai.model.units import printable

TWO_COLUMNS = 140
"""Width of the terminal from which panels stand beside each other."""
SILENT_S = 3.0
"""A daemon that has not answered for so long after it was due is said to be silent."""
BUSY = "too much is waiting for the daemon already"


class Fresh(Message):
    """An overview has come."""

    def __init__(self, overview: Overview) -> None:
        super().__init__()
        self.overview = overview


class Said(Message):
    """The answer to what a person wanted."""

    def __init__(self, text: str, *, is_problem: bool, screen: TextScreen | None = None) -> None:
        super().__init__()
        self.text = text
        self.is_problem = is_problem
        self.on_screen = screen
        """Where it is shown; None: as a note that goes away."""


class WatchEnded(Message):
    """Nothing more will come."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class TopView(App[None]):
    """All panels, and a line with the state of the machine above them."""

    TITLE = "iriai top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #state { height: 1; padding: 0 1; background: $primary; }
    #state.lost { background: $error; }
    #panels { height: 1fr; }
    #panels.two { layout: horizontal; }
    #left, #right { height: auto; }
    #panels.two #left { width: 1fr; }
    #panels.two #right { width: 1fr; margin-left: 1; }
    #panels.alone PanelView { display: none; }
    #panels.alone PanelView.alone { display: block; }
    #panels.alone .empty { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "keys", "Keys", key_display="?"),
        Binding("enter", "look('show')", "Show", show=False),
        Binding("w", "look('why')", "Why"),
        Binding("l", "look('logs')", "Logs"),
        Binding("h", "change('hold')", "Hold"),
        Binding("r", "change('release')", "Release"),
        Binding("c", "change('cancel')", "Cancel"),
        Binding("a", "everyone", "All"),
        Binding("p", "pause", "Pause"),
        Binding("z", "alone", "Zoom"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
        *(Binding(str(n), f"panel({n})", "", show=False) for n in range(1, 10)),
    ]

    def __init__(self, source: Source, panels: Sequence[Panel], interval_s: float) -> None:
        super().__init__()
        self._views = [PanelView(panel, place) for place, panel in enumerate(panels, start=1)]
        self._groups = [
            [each for each in self._views if each.panel.is_right == is_right]
            for is_right in (False, True)
        ]
        self._state = Static("", markup=False, id="state")
        self._box = Container(id="panels")
        self._sides = (Vertical(id="left"), Vertical(id="right"))
        self._overview: Overview | None = None
        self._come_s = time.monotonic()
        self._watcher = Watcher(
            source,
            interval_s,
            lambda overview: self._post(Fresh(overview)),
            lambda error: self._post(WatchEnded(error)),
        )
        self.failure: Exception | None = None
        """What has ended it early."""

    def _post(self, message: Message) -> None:
        """Give a message from the watcher's thread to this one."""
        with suppress(RuntimeError):  # who looked has left meanwhile
            self.post_message(message)

    def compose(self) -> ComposeResult:
        """Make what is in it."""
        yield self._state
        with self._box:
            for side, views in zip(self._sides, self._groups, strict=True):
                with side:
                    yield from views
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin to ask."""
        self._watcher.start()
        self.set_interval(1.0, self._draw_state)
        next((each for each in self._views if each.panel.are_jobs), self._views[0]).take_focus()

    def on_unmount(self) -> None:
        """Ask no more."""
        self._watcher.stop()

    def on_resize(self, event: Resize) -> None:
        """Put panels beside each other where there is room."""
        self._box.set_class(event.size.width >= TWO_COLUMNS, "two")
        self._share_out()

    def _share_out(self) -> None:
        """Give each panel its height."""
        groups = self._groups
        room = self.size.height - 2  # the state, and the keys
        if self._box.has_class("alone"):
            groups = [[each for each in self._views if each.has_class("alone")]]
        elif not self._box.has_class("two"):
            groups = [groups[0] + groups[1]]
        for group in groups:
            shares = heights([each.wanted_height for each in group], room)
            for each, lines in zip(group, shares, strict=True):
                each.give(lines)

    # --- what comes from the daemon --------------------------------------------------------------

    def on_fresh(self, message: Fresh) -> None:
        """Draw an overview."""
        if not self._state.is_attached:  # it is over
            return
        self._overview, self._come_s = message.overview, time.monotonic()
        if message.overview.problem is None:
            for view, section in zip(self._views, message.overview.sections, strict=True):
                view.show(section)
            self._share_out()
            if isinstance(self.screen, TextScreen) and self.screen.again is not None:
                self.screen.again(self.screen)
        self._draw_state()

    def on_said(self, message: Said) -> None:
        """Show what was asked for."""
        if message.on_screen is not None:
            message.on_screen.update(message.text)
        elif message.text:
            self.notify(
                printable_lines(message.text),
                severity="error" if message.is_problem else "information",
                markup=False,
            )

    def on_watch_ended(self, message: WatchEnded) -> None:
        """Leave; whoever called has the error."""
        self.failure = message.error
        self.exit()

    def _draw_state(self) -> None:
        if self._state.is_attached:
            text, is_lost = self._state_text()
            self._state.set_class(is_lost, "lost")
            self._state.update(Text(text, no_wrap=True, overflow="ellipsis"))

    def _state_text(self) -> tuple[str, bool]:
        overview = self._overview
        if overview is None:
            return "waiting for the daemon", False
        if overview.problem is not None and overview.lost_wall_s is not None:
            away = span_text(time.time() - overview.lost_wall_s)
            return f"no daemon answers for {away}; trying again: {overview.problem}", True
        late_s = time.monotonic() - self._come_s - self._watcher.interval_s
        if self._watcher.is_paused:
            return f"paused at {clock_text(overview.taken_wall_s)}; p goes on", False
        if late_s > SILENT_S:
            return f"the daemon has not answered for {span_text(late_s)}", True
        status = overview.status
        parts = [
            f"{status.cluster_name or status.home}  {clock_text(overview.taken_wall_s)}",
            jobs_text(status),
            f"load {status.load:.2f}",
            *status.trouble,
        ]
        return printable("  ".join(parts)), False

    # --- what a person does ----------------------------------------------------------------------

    def _focused(self) -> PanelView | None:
        return next((each for each in self._views if each.has_focus_within), None)

    def _job(self) -> str | None:
        """Return the id of the chosen job; None, with a note, where no job is chosen."""
        view = self._focused()
        chosen = view.chosen if view is not None and view.panel.are_jobs else None
        if chosen is None:
            self.notify("choose a job first", markup=False)
            return None
        job: str = chosen[1].id
        return job

    def on_data_table_row_selected(self, _: DataTable.RowSelected) -> None:
        """Look into the row."""
        self.action_look("show")

    def action_look(self, what: str) -> None:
        """Open a screen with what is known of the chosen row."""
        if len(self.screen_stack) > 1:
            return
        view = self._focused()
        if view is not None and not view.panel.are_jobs and what == "show":
            if view.chosen is not None:
                self.push_screen(TextScreen(view.panel.title, row_text(*view.chosen)))
            return
        job = self._job()
        if job is None:
            return

        def again(screen: TextScreen) -> None:
            self._watcher.ask(
                lambda client: LOOKS[what](client, job),
                lambda text, is_problem: self._post(
                    Said(text, is_problem=is_problem, screen=screen)
                ),
            )

        screen = TextScreen(f"{what} {job}", "", again)
        self.push_screen(screen)
        again(screen)

    def action_change(self, what: str) -> None:
        """Hold, release or cancel the chosen job."""
        job = self._job() if len(self.screen_stack) == 1 else None
        if job is None:
            return
        if what != "cancel":
            self._change(what, job)
            return
        self.push_screen(
            Confirmation(f"Cancel {job}?"), lambda yes: self._change(what, job) if yes else None
        )

    def _change(self, what: str, job: str) -> None:
        has_room = self._watcher.ask(
            lambda client: CHANGES[what](client, job),
            lambda text, is_problem: self._post(Said(text, is_problem=is_problem)),
            changes=True,
        )
        if not has_room:
            self.notify(BUSY, severity="warning", markup=False)

    def action_keys(self) -> None:
        """Show the keys."""
        if len(self.screen_stack) == 1:
            self.push_screen(TextScreen("Keys", KEYS))

    def action_everyone(self) -> None:
        """Ask for the jobs of all users, or of this one alone."""
        source = self._watcher.source
        source.everyone = not source.everyone
        whose = "of all users" if source.everyone else "of yours alone"
        self.notify(f"jobs {whose}, from the next look on", markup=False)

    def action_pause(self) -> None:
        """Ask no more until this is said again."""
        self._watcher.is_paused = not self._watcher.is_paused
        self._draw_state()

    def action_panel(self, number: int) -> None:
        """Choose a panel."""
        if number <= len(self._views) and len(self.screen_stack) == 1:
            self._views[number - 1].take_focus()

    def action_alone(self) -> None:
        """Show the chosen panel alone, or all again."""
        view = self._focused()
        is_alone = not self._box.has_class("alone") and view is not None
        self._box.set_class(is_alone, "alone")
        for each in self._views:
            each.set_class(is_alone and each is view, "alone")
        for side, views in zip(self._sides, self._groups, strict=True):
            side.set_class(is_alone and view not in views, "empty")
        self._share_out()
