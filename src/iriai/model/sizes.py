"""How large what a person hands in may be: what the kernel takes when a task is started.

Linux refuses a program whose arguments and environment are over a quarter of its stack limit (2 MiB
of the usual 8), and any single text among them over 128 KiB (execve(2), MAX_ARG_STRLEN). What is
larger could never start, so it is refused where it is handed in, and again by the launcher.
"""

from __future__ import annotations

ENVIRONMENT_BYTES_MAX = 1 << 20
"""All variables with their names, packed as they are sent and stored."""
ENVIRONMENT_VARIABLES_MAX = 16_384
"""Each costs memory beyond its text wherever it is decoded."""
COMMAND_BYTES_MAX = 512 << 10
"""All arguments of a command, as `command_bytes` counts them."""
ARGUMENT_BYTES_MAX = (128 << 10) - 2
"""One argument, or one variable with its name and the equals sign: what the kernel takes, less the
zero at its end and a mark that it carries until its task begins."""
FILE_NAME_BYTES_MAX = 4_095
"""A path of a file or directory (PATH_MAX, less the zero at its end)."""
_POINTER_BYTES = 8


def command_bytes(command: tuple[str, ...]) -> int:
    """What the arguments of `command` cost where the kernel counts: text, zero and pointer each."""
    text_bytes = sum(map(len, map(_encoded, command)))
    return text_bytes + (1 + _POINTER_BYTES) * len(command)


def text_bytes(text: str) -> int:
    """How many bytes `text` has for the kernel; bytes that are no UTF-8 stand for themselves."""
    return len(_encoded(text))


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
