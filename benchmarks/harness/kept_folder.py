"""Folders of one benchmark: all of them stay until it has ended.

Ext4 passes over the inodes of files that were deleted within the last minutes, one by one, whenever
it makes a file. So whoever is measured after ten thousand files were deleted pays for it: a fifth
of all processor time, in a profile of an array.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

ROOT_VARIABLE = "IRIAI_BENCHMARK_FOLDER"
"""Names the folder that holds them, for the programs that a benchmark starts."""


def kept_folder(prefix: str) -> Path:
    """Make a folder that other users can pass through; it goes when the benchmark ends."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=_root()))
    folder.chmod(0o755)
    return folder


def _root() -> str:
    root = os.environ.get(ROOT_VARIABLE)
    if root is None:
        # Short, and not below TMPDIR: sockets lie in it, whose paths must be short.
        root = os.environ[ROOT_VARIABLE] = tempfile.mkdtemp(prefix="iriai-bench-", dir="/tmp")
        os.chmod(root, 0o755)
        atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


def file_of_all(name: str) -> Path:
    """Make a file that tasks of all users and machines may write; it goes when the benchmark ends.

    It does not lie below /tmp, of which each task has its own.
    """
    handle, path = tempfile.mkstemp(prefix=f"iriai-{name}-", dir="/var/tmp")
    os.close(handle)
    os.chmod(path, 0o666)
    atexit.register(Path(path).unlink, missing_ok=True)
    return Path(path)
