"""Swap on a file, on a machine that may have none."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def swap_file(size_bytes: int) -> Iterator[None]:
    """There is so much swap meanwhile; it takes root."""
    descriptor, name = tempfile.mkstemp(dir="/var/tmp", prefix="iriai-swap-")
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
        os.close(descriptor)
        subprocess.run(["mkswap", name], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["swapon", name], check=True)
        try:
            yield
        finally:
            subprocess.run(["swapoff", name], check=True)
    finally:
        Path(name).unlink()
