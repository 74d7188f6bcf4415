"""The reason for waiting on a terminal, in one line that is updated and then removed."""

from __future__ import annotations

import os
import sys
import time

from iriai.client.client import Client
from iriai.client.rpc_channel import ConnectionLost
from iriai.model.problem import NotFound
from iriai.model.units import printable

PATIENCE_S = 1.0
"""A shorter wait needs no explanation."""
REFRESH_S = 1.0


class WaitingLine:
    """The line for one job, on standard error; does nothing if that is not a terminal."""

    def __init__(self, client: Client, job: str) -> None:
        self._client = client
        self._job = job
        self._is_shown = False
        self._wants = sys.stderr is not None and os.isatty(2)
        self._next_s = time.monotonic() + PATIENCE_S

    def update(self, *, is_started: bool) -> None:
        """Show or update the line when it is due, and clear it once the job has started."""
        if is_started:
            self.clear()
            self._wants = False
        elif self._wants and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + REFRESH_S
            try:
                reasons = self._client.why(self._job).reasons
            except (ConnectionLost, NotFound):
                return
            if reasons:
                from iriai.cli.framework.reasons import reason_text

                self._show(f"{self._job} waits: {reason_text(reasons[0])}")

    def clear(self) -> None:
        """Remove the line."""
        if self._is_shown:
            self._write("\r\x1b[K")
            self._is_shown = False

    def _show(self, text: str) -> None:
        from iriai.cli.framework.table import terminal_columns

        width = terminal_columns() - 1
        text = printable(text)
        self._write("\r\x1b[K" + (text if len(text) <= width else text[: width - 1] + "…"))
        self._is_shown = True

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
