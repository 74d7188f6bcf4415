"""Scripts and standard inputs that are sent with a job."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from iriai.model.problem import Refused

SENT_BYTES_MAX = 64 << 20
"""More is not even read: a daemon refuses less already."""
_LOOK_BYTES = 4096
"""Enough to tell text from a program."""


def is_script(path: Path) -> bool:
    """Whether `path` is a file whose text is meant: it begins with #!, or is no program.

    Raises:
        Refused: it is a file and cannot be read.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            return False
        with path.open("rb") as file:
            start = file.read(_LOOK_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unreadable(path, error) from None
    return start.startswith(b"#!") or (b"\0" not in start and not os.access(path, os.X_OK))


def read_script(path: Path) -> bytes:
    """The text of a script; raises `Refused` where it cannot be run."""
    return _checked(read_sent(path), str(path))


def read_script_from_stdin() -> bytes:
    """As `read_script`, from standard input."""
    return _checked(sys.stdin.buffer.read(SENT_BYTES_MAX + 1), "standard input")


def read_sent(path: Path) -> bytes:
    """The content of a file that is sent along; raises `Refused` where it cannot be."""
    try:
        with path.open("rb") as file:
            content = file.read(SENT_BYTES_MAX + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(content) > SENT_BYTES_MAX:
        raise Refused(
            "too-long",
            f"{path} is larger than {SENT_BYTES_MAX >> 20} MiB",
            "leave it where it is, and have the job read it there",
        )
    return content


def _checked(content: bytes, name: str) -> bytes:
    if not content.strip():
        raise Refused("empty-script", f"the script {name} is empty", "write some commands into it")
    if content.startswith(b"#!") and content.split(b"\n", 1)[0].endswith(b"\r"):
        raise Refused(
            "dos-script",
            f"the lines of the script {name} end as on Windows, which no interpreter understands",
            f"convert it: sed -i 's/\\r$//' {name}",
        )
    return content


def _unreadable(path: Path, error: OSError) -> Refused:
    return Refused(
        "unreadable",
        f"{path} cannot be read ({os.strerror(error.errno or 0)})",
        "see to its permissions, or name another file",
    )
