"""A directory for programs that are run with root's rights: nobody else can write the way to it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARENT = "/var/lib" if os.geteuid() == 0 else os.path.expanduser("~")


@contextmanager
def trusted_place() -> Iterator[Path]:
    """A new directory that everybody may enter, removed at the end."""
    place = Path(tempfile.mkdtemp(prefix="iriai-test-", dir=PARENT))
    place.chmod(0o755)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
