"""The kind of file system of a directory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")
"""Blanks in a mount point stand as octal numbers."""

NETWORKED = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre"})
"""Where several machines may write at once; locks and memory maps are not what they are at home."""
VOLATILE = frozenset({"tmpfs", "ramfs"})
"""Gone with the power."""


class Mount(NamedTuple):
    """One mounted file system."""

    point: str
    kind: str


def mount_of(directory: str, table: str | None = None) -> Mount | None:
    """Return the file system of `directory`, an absolute path without links.

    `table` is the text of a mountinfo file; None: this process's. None if it is not listed.
    """
    if table is None:
        try:
            table = _MOUNTS.read_text()
        except OSError:
            return None
    best: Mount | None = None
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) < 5 or not kinds:
            continue
        point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[4])
        inside = directory == point or directory.startswith(point.rstrip("/") + "/")
        # The last line of equal length is the one mounted over the others.
        if inside and (best is None or len(point) >= len(best.point)):
            best = Mount(point, kinds[0])
    return best


def saves_note(directory: str, table: str | None = None) -> str:
    """Return where a program that saves itself in this directory goes on; empty: wherever it is.

    `directory` and `table` are as of `mount_of`.
    """
    mount = mount_of(directory, table)
    kind = "an unknown file system" if mount is None else mount.kind
    if kind in NETWORKED or kind.startswith("fuse."):
        return ""
    return (
        f"{directory} is of this machine alone ({kind}): on another one the job begins from its "
        "start, unless what it has saved is there too"
    )
