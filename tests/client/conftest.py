"""Directories short enough for sockets."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def state() -> Iterator[Path]:
    """An empty state directory with a short path: a socket's has room for 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="iriai-") as name:
        yield Path(name)
