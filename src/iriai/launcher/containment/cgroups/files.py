"""Reading and writing the small files of control groups."""

from __future__ import annotations

import os
from contextlib import suppress

_NUMBER_BYTES = 32
_TEXT_BYTES = 4096


def open_file(directory: str, name: str, flags: int = os.O_RDONLY) -> int:
    """Open a file that stays open; reading it again is one call."""
    return os.open(f"{directory}/{name}", flags | os.O_CLOEXEC)


def read_number(fd: int) -> int:
    """Return the number that an open file contains now; `max` is -1."""
    text = os.pread(fd, _NUMBER_BYTES, 0)
    return -1 if text.startswith(b"max") else int(text)


def read_field(fd: int, field: bytes) -> int:
    """Return the number after `field` in an open file of `name number` lines; 0 if missing."""
    for line in os.pread(fd, _TEXT_BYTES, 0).splitlines():
        name, _, number = line.partition(b" ")
        if name == field:
            return int(number)
    return 0


def write_file(directory: str, name: str, text: str) -> None:
    """Write a setting; raise OSError if the kernel refuses it."""
    fd = os.open(f"{directory}/{name}", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def read_pids(directory: str) -> list[int]:
    """Return the processes in a group, without zombies."""
    with open(f"{directory}/cgroup.procs", encoding="utf-8") as file:
        return [int(line) for line in file]


def stop_growth(directory: str) -> None:
    """Kill all members of a group at once, or keep them from forking, if the kernel can."""
    for name, text in (("cgroup.kill", "1"), ("pids.max", "0")):
        with suppress(OSError):
            write_file(directory, name, text)
