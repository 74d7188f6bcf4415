"""Running one command in this process, as a shell would in another."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from iriai.cli.framework.program import run_arguments


class Said(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> object:
        """Standard output as the one JSON document that it has to be."""
        return json.loads(self.out)


class Shell:
    """Runs commands and collects what they say."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured

    def __call__(self, *words: str) -> Said:
        self._captured.readouterr()
        code = run_arguments(words)
        return Said(code, *self._captured.readouterr())
