"""Output of several ranks in one stream: each line begins with the rank that wrote it."""

from __future__ import annotations

from iriai.client.tail import Sink
from iriai.wire.requests import LogFile

LINE_BYTES_MAX = 64 << 10
"""Of a line that is not complete; more is written as if it were."""


class LabelledLines:
    """A sink that passes on whole lines, each after a label."""

    def __init__(self, label: str, sink: Sink) -> None:
        self._label = label.encode()
        self._sink = sink
        self._rest = b""
        """The begin of a line."""

    def write(self, data: bytes) -> None:
        """Pass on the lines that are complete with `data`."""
        *lines, rest = (self._rest + data).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            lines, rest = [*lines, rest], b""
        self._rest = rest
        if lines:
            self._sink(b"".join(b"%b%b\n" % (self._label, line) for line in lines))

    def finish(self) -> None:
        """Pass on a last line without an end, as a line."""
        if self._rest:
            self.write(b"\n")


class RankLabels:
    """Labels the output of a task that has several ranks."""

    def __init__(self, output: Sink, error: Sink, *, are_shown: bool) -> None:
        self._sinks = (output, error)
        self._are_shown = are_shown
        self._lines: list[LabelledLines] = []

    def sinks_for(self, file: LogFile) -> tuple[Sink, Sink]:
        """Return where output and errors of the rank go that writes `file`."""
        if not self._are_shown or file.writers == file.ranks:
            return self._sinks
        output, error = (LabelledLines(f"{file.rank}: ", sink) for sink in self._sinks)
        self._lines += (output, error)
        return output.write, error.write

    def finish(self) -> None:
        """Pass on what has no end of a line."""
        for each in self._lines:
            each.finish()
