"""State directories, and a shell to run commands in."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The state directory that commands use, with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="iriai-") as name:
        monkeypatch.setenv("IRIAI_STATE", name)
        yield Path(name)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    """Runs commands in this process."""
    return Shell(capsys)
