"""What is written into logs is a line for each record, whatever texts of others are in it."""

from __future__ import annotations

import io
import logging

import pytest

from iriai.launcher.system.log_file import LineFormatter
from iriai.model.units import LINE_LENGTH_MAX

FORGED = "kaki\n2026-11-22 10:00:00,000 daemon INFO machine oni joined\x1b[2J"


def logged(*arguments: object, error: Exception | None = None) -> list[str]:
    """The lines of a record."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter("%(levelname)s %(message)s"))
    record = logging.LogRecord("x", logging.INFO, "", 0, *arguments, None)  # type: ignore[arg-type]
    if error is not None:
        record.exc_info = (type(error), error, error.__traceback__)
    handler.handle(record)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("text", [FORGED, "a\rb", "a\x85b", "a\u2028b", "\x1b]0;x\x07", "\udc80"])
def test_no_text_begins_a_line_of_its_own(text: str):
    """T10a: a newline in the name of a machine that asked to join forged a line."""
    [line] = logged("machine %s did not join", (text,))
    assert line.isprintable()
    assert line.startswith("INFO machine ")


def test_a_text_of_a_megabyte_does_not_fill_the_disk():
    [line] = logged("%s", ("x" * (1 << 20),))
    assert len(line) < LINE_LENGTH_MAX + 100
    assert "characters more" in line


def test_the_way_to_an_error_passes_for_no_record():
    try:
        raise ValueError(FORGED)
    except ValueError as error:
        first, *further = logged("it failed", (), error=error)
    assert first == "INFO it failed"
    assert all(line.startswith("  ") for line in further)
    assert "\x1b" not in "".join(further)
