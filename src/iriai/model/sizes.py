"""Sizes of submitted texts: what the kernel accepts when a task is started.

Linux refuses a program whose arguments and environment are over a quarter of its stack limit (2 MiB
of the usual 8), and any single text among them over 128 KiB (execve(2), MAX_ARG_STRLEN). A larger
job could never start, so it is refused at submission, and again by the launcher.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ENVIRONMENT_BYTES_MAX = 1 << 20
"""Bytes of all variables with their names, packed as they are sent and stored."""
ENVIRONMENT_VARIABLES_MAX = 16_384
"""The number of variables: each costs memory beyond its text wherever it is decoded."""
COMMAND_BYTES_MAX = 512 << 10
"""Bytes of all arguments of a command, as `command_bytes` counts them."""
ARGUMENT_BYTES_MAX = (128 << 10) - 2
"""Bytes of one argument, or of one variable with its name and the equals sign: the kernel's limit,
less the zero at its end and a mark that it has until its task begins."""
FILE_NAME_BYTES_MAX = 4_095
"""A path of a file or directory (PATH_MAX, less the zero at its end)."""
_POINTER_BYTES = 8


class SizeProblem(NamedTuple):
    """A part of a job that is too large to start, and what to do."""

    words: str
    hint: str

    def __str__(self) -> str:
        return f"{self.words}: {self.hint}" if self.hint else self.words


def command_problem(command: tuple[str, ...]) -> SizeProblem | None:
    """Return the problem with starting `command`; None: there is none."""
    size_bytes = command_bytes(command)
    if size_bytes > COMMAND_BYTES_MAX:
        return SizeProblem(
            f"its command has {size_bytes} bytes; the limit of the system is COMMAND_BYTES_MAX "
            f"= {COMMAND_BYTES_MAX}",
            "put them into a file",
        )
    longest = max(map(text_bytes, command), default=0)
    if longest > ARGUMENT_BYTES_MAX:
        return SizeProblem(
            f"an argument has {longest} bytes; the limit of the system is ARGUMENT_BYTES_MAX = "
            f"{ARGUMENT_BYTES_MAX}",
            "put it into a file",
        )
    if any("\0" in word for word in command):
        return SizeProblem("an argument contains a NUL", "")
    return None


def file_problem(what: str, path: str) -> SizeProblem | None:
    """Return the problem with a file or directory of that name; None: there is none."""
    if "\0" in path:
        return SizeProblem(f"the name of its {what} contains a NUL", "")
    size_bytes = text_bytes(path)
    if size_bytes > FILE_NAME_BYTES_MAX:
        return SizeProblem(
            f"the name of its {what} has {size_bytes} bytes; the limit of the system is "
            f"FILE_NAME_BYTES_MAX = {FILE_NAME_BYTES_MAX}",
            "give a shorter one",
        )
    return None


def variables_problem(given: Mapping[str, str]) -> SizeProblem | None:
    """Return the problem with these variables for starting a program; None: there is none."""
    if len(given) > ENVIRONMENT_VARIABLES_MAX:
        return SizeProblem(
            f"the environment has {len(given)} variables, more than"
            f" ENVIRONMENT_VARIABLES_MAX = {ENVIRONMENT_VARIABLES_MAX}",
            "unset what the job does not need",
        )
    for name, value in given.items():
        size_bytes = text_bytes(name) + text_bytes(value) + 1
        if size_bytes > ARGUMENT_BYTES_MAX:
            return SizeProblem(
                f"variable {name[:64]!r} has {size_bytes} bytes; the limit of the system is "
                f"ARGUMENT_BYTES_MAX = {ARGUMENT_BYTES_MAX}",
                "put it into a file",
            )
    return None


def command_bytes(command: tuple[str, ...]) -> int:
    """Return the kernel's size of the arguments of `command`: text, zero and pointer each."""
    text_bytes = sum(map(len, map(_encoded, command)))
    return text_bytes + (1 + _POINTER_BYTES) * len(command)


def text_bytes(text: str) -> int:
    """Return the number of bytes of `text` for the kernel; bytes not UTF-8 count as one each."""
    return len(_encoded(text))


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
