"""The machines that were ever linked here, and by which state directory each is known.

A machine with attempts that are not settled must not be replaced by another of its name, which
knows nothing of them: what it would answer is not true. So this outlives the daemon, in one small
file that is written when a machine is new, or an operator says that one is gone for good.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)

FILE = "machines.json"


class LocalMachines:
    """See the module; `directory` is the daemon's own."""

    def __init__(self, directory: str) -> None:
        self._path = Path(directory, FILE)
        self._tokens = self._read()

    def names(self) -> list[str]:
        """All that were ever linked, in the order of their first link."""
        return list(self._tokens)

    def token_of(self, name: str) -> str | None:
        """Which state directory the name stands for; None where it is not known."""
        return self._tokens.get(name)

    def learn(self, name: str, token: str) -> None:
        """The name stands for this directory from now on; durable when this returns.

        Raises OSError where it cannot be written; then nothing was changed.
        """
        if self._tokens.get(name) == token:
            return
        self._write(self._tokens | {name: token})

    def forget(self, name: str) -> None:
        """Nothing is known of the name from now on; durable when this returns.

        Raises OSError where it cannot be written; then nothing was changed.
        """
        if name in self._tokens:
            self._write({each: token for each, token in self._tokens.items() if each != name})

    def _write(self, tokens: dict[str, str]) -> None:
        fresh = self._path.with_suffix(".new")
        with fresh.open("w") as file:
            json.dump(tokens, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        self._tokens = tokens

    def _read(self) -> dict[str, str]:
        try:
            said = json.loads(self._path.read_text())
            return {str(name): str(token) for name, token in said.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, AttributeError) as error:
            # Replaced whole, so this is no torn file: somebody wrote it. Machines are known again
            # when they link.
            log.warning("%s was not written by iriai (%s): it is replaced", self._path, error)
            return {}
