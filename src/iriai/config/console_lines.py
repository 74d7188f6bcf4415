"""Lines of the console, as a person types them or a file has them; no I/O.

docs/spec/013-queues.md, section 6.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from iriai.config.live_settings import LiveChange, checked
from iriai.model.bounds import CONSOLE_BYTES_MAX
from iriai.model.problem import Problem, UsageProblem, problem_from

LINES_MAX = 1000
"""Lines of such a file."""
SECTIONS_OF = {"queue": "queues", "pool": "pools", "gang": "gang"}
"""The section that each command sets."""
_SHOWN = 60
"""Characters of a wrong line in a message."""


class ConsoleLine(NamedTuple):
    """A line that is neither blank nor a comment."""

    number: int
    """Its number in the file, from 1."""
    text: str


def lines_of(content: bytes, where: str) -> list[ConsoleLine]:
    """Return the lines of a file; raises `UsageProblem` if it is too large, or no text."""
    hint = "this does not look like console lines; check which file it is"
    if len(content) > CONSOLE_BYTES_MAX:
        raise UsageProblem("bad-lines", f"{where} has more than {CONSOLE_BYTES_MAX} bytes", hint)
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise UsageProblem(
            "bad-lines", f"{where} is not UTF-8 text (byte {error.start})", hint
        ) from None
    if len(lines) > LINES_MAX + 1 or (len(lines) > LINES_MAX and lines[-1]):
        raise UsageProblem("bad-lines", f"{where} has more than {LINES_MAX} lines", hint)
    numbered = (ConsoleLine(number, text.strip()) for number, text in enumerate(lines, 1))
    return [line for line in numbered if line.text and not line.text.startswith("#")]


def words_of(text: str) -> list[str]:
    """Return the words of a line, as a shell would; raises `UsageProblem`."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        raise UsageProblem(
            "bad-line", f"a quotation does not end: {text[:_SHOWN]}", "close it, or leave it out"
        ) from None


def setting_in(text: str) -> tuple[str, str]:
    """Return key and value of `KEY=VALUE`; raises `UsageProblem`."""
    key, equals, value = text.partition("=")
    if not (key.strip() and equals):
        raise UsageProblem(
            "bad-setting", f"'{text[:_SHOWN]}' is not KEY=VALUE", "write one as in state=enabled"
        )
    return key.strip(), value.strip()


def change_in(text: str) -> LiveChange:
    """Return what a line of an rc file sets; raises a `Problem`."""
    words = words_of(text)
    if words[:2] == ["gang", "set"] and words[2:]:
        return checked("gang", "", map(setting_in, words[2:]))
    if words == ["gang", "unset"]:
        return checked("gang", "", ())
    match words:
        case ["queue" | "pool" as command, "set", name, *settings] if settings:
            return checked(SECTIONS_OF[command], name, map(setting_in, settings))
        case ["queue" | "pool" as command, "unset", name]:
            return checked(SECTIONS_OF[command], name, ())
    raise UsageProblem(
        "bad-line",
        f"'{text[:_SHOWN]}' is no setting",
        "write queue or pool, set or unset, a name and KEY=VALUE...; or gang without a name",
    )


def at_line(problem: Problem, where: str, number: int) -> Problem:
    """Return a problem with the place of its line."""
    message = f"{where}, line {number}: {problem.message}"
    return problem_from(problem.exit_code, problem.code, message, problem.hint)
