"""Screens above the panels: what is known of a job, the keys, a question."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from iriai.cli.framework.table import printable_lines

KEYS = """\
Tab, Shift+Tab   the next panel, the one before
1 to 9           the panel of that number
Up, Down         choose a row; also Page Up, Page Down, Home, End
z                this panel alone, and all of them again
Enter            look into the row: a job as iriai show has it
w                why the job waits
l                the end of its output
h                hold the job
r                release it
c                cancel it, after a question
a                jobs of all users (for operators), or yours
p                pause, and go on
?                these keys
Escape           back
q                leave; also Ctrl+C
"""


class TextScreen(ModalScreen[None]):
    """A text that fills the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss_screen", "Back")]
    DEFAULT_CSS = """
    TextScreen { background: $background; }
    TextScreen .title { background: $primary; height: 1; padding: 0 1; }
    TextScreen VerticalScroll { height: 1fr; padding: 0 1; }
    """

    def __init__(
        self, title: str, text: str, again: Callable[[TextScreen], None] | None = None
    ) -> None:
        """`again` asks for the text anew; it is called from time to time."""
        super().__init__()
        self.heading = title
        self.again = again
        self._text = text

    def compose(self) -> ComposeResult:
        """Make what is in it."""
        yield Static(Text(self.heading), markup=False, classes="title")
        with VerticalScroll(can_focus=True):
            yield Static(Text(self._text), markup=False, id="text")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Have the keys scroll the text."""
        self.query_one(VerticalScroll).focus()

    def update(self, text: str) -> None:
        """Show another text, scrolled to where the last one was."""
        self._text = printable_lines(text)
        if self.is_mounted:
            self.query_one("#text", Static).update(Text(self._text))

    def action_dismiss_screen(self) -> None:
        """Go back."""
        self.dismiss()


class Confirmation(ModalScreen[bool]):
    """A question that is answered with y or n."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape,q", "answer(False)", "No"),
    ]
    DEFAULT_CSS = """
    Confirmation { align: center middle; }
    Confirmation Vertical { width: auto; height: auto; border: heavy $warning; padding: 1 2; }
    Confirmation Static { width: auto; }
    """

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Make what is in it."""
        with Vertical():
            yield Static(Text(f"{self._question} (y/n)"), markup=False)

    def action_answer(self, is_yes: bool) -> None:
        """Close it with the answer."""
        self.dismiss(is_yes)
