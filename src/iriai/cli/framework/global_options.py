"""Options that every command has: which daemon, and in which form to answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

PANEL = "Everywhere"


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """Before the command or after it; after it counts."""

    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="DIR",
            help="State directory of the daemon to talk to. Else $IRIAI_STATE, your own "
            "(~/.local/state/iriai), the machine's (/var/lib/iriai).",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one JSON document, errors included.", rich_help_panel=PANEL
        ),
    ] = False

    def within(self, outer: object) -> GlobalOptions:
        """These, completed by those that stand before the command."""
        if not isinstance(outer, GlobalOptions):
            return self
        return GlobalOptions(self.state or outer.state, self.as_json or outer.as_json)
