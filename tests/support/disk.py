"""A file system of its own that can be full or read-only; needs root."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path


class Disk:
    """A small file system mounted at a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ballast = directory / "ballast"

    def mount(self, size: str = "2m") -> None:
        options = ["-t", "tmpfs", "-o", f"size={size}", "none"]
        subprocess.run(["mount", *options, self.directory], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", self.directory], check=True)

    def make_read_only(self) -> None:
        subprocess.run(["mount", "-o", "remount,ro", self.directory], check=True)

    def fill(self, leave_bytes: int = 0) -> None:
        """Use up the space that is left, but for so much."""
        left = os.statvfs(self.directory)
        try:
            self._ballast.write_bytes(bytes(left.f_bavail * left.f_bsize - leave_bytes))
        except OSError as error:  # somebody else took a little in the meantime: it is full
            if leave_bytes or error.errno != errno.ENOSPC:
                raise

    def make_room(self) -> None:
        self._ballast.unlink()
