"""The run of the rc file at a start: how far it got, for people."""

from __future__ import annotations

import logging
from collections.abc import Callable

from iriai.config.live_settings import LiveChange
from iriai.model.problem import Problem
from iriai.state.rc_file import RcFile

log = logging.getLogger(__name__)


class RcRun:
    """What became of the rc file that this daemon was to run, if any."""

    def __init__(self, file: RcFile | None, *, is_member: bool) -> None:
        """`is_member`: the machine is in a cluster, where it is not run."""
        self.path = file.path if file is not None else ""
        """The file; empty: there is none."""
        self.is_skipped = is_member
        self.done = 0
        """Lines that were run."""
        self.problem: Problem | None = None
        """Why not all of them."""
        self._file = file

    def run(self, perform: Callable[[LiveChange], None]) -> None:
        """Perform the lines up to the first wrong one."""
        file = self._file
        if file is None:
            return
        if self.is_skipped:
            log.info("%s is not run: %s", file.path, IN_CLUSTER)
            return
        from iriai.config.console_lines import at_line, change_in  # which few starts need

        self.problem = file.problem
        for line in file.lines:
            try:
                perform(change_in(line.text))
            except Problem as problem:
                self.problem = at_line(problem, file.path, line.number)
                break
            self.done += 1
        if self.problem is not None:
            log.warning("%s", self.problem)

    @property
    def trouble(self) -> list[str]:
        """Return what is wrong with the file, for `status` and `doctor`."""
        if self.problem is None:
            return []
        if not self.done:
            return [str(self.problem)]
        hold = "1 line before it holds" if self.done == 1 else f"{self.done} lines before it hold"
        return [f"{self.problem} ({hold}, none after it is run)"]


IN_CLUSTER = "in a cluster what operators set is in the configuration that its machines share"
