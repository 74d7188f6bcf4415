"""Which tests each of `make check`, `make test` and `make soak` runs, by where a test stands.

A test in one of the `CHECKED` folders is of `make check`, every other one of `make test`. A marker
says otherwise: `long`, `root`, `serial` and `logs` move a test to `make test`, `soak` any test to
`make soak`. `make test` runs what `make check` runs too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
CHECKED = frozenset(
    [
        *("architecture", "broker", "classad", "cli", "client", "cluster", "config", "golden"),
        *("home", "identity", "jobs", "links", "machine", "model", "mutants", "node", "plugins"),
        *("policy", "protocol", "reports", "sim", "store", "system"),
    ]
)
"""Folders of tests that need no process of iriai: pure packages, and those below them."""
NOT_CHECKED = frozenset(("long", "root", "serial", "logs"))


def tier(path: Path, marks: frozenset[str]) -> str:
    """Return the tier of a test in this file with these markers: check, test or soak."""
    if "soak" in marks:
        return "soak"
    is_checked = path.relative_to(TESTS).parts[0] in CHECKED and not marks & NOT_CHECKED
    return "check" if is_checked else "test"


class Guard:
    """Refuses, while it is closed, to start programs other than Python, and to use the network.

    An audit hook cannot be removed: one hook of this process asks one guard.
    """

    def __init__(self) -> None:
        self.is_closed = False
        sys.addaudithook(self._look)

    def _look(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.is_closed:
            return
        if event == "subprocess.Popen":
            _, words, *_ = arguments
            assert isinstance(words, Sequence)
            if words[0] == sys.executable and not any(w.startswith("iriai") for w in words[1:]):
                return
        elif event in ("socket.connect", "socket.bind"):
            if not isinstance(arguments[1], tuple):  # a local socket
                return
        elif event not in ("os.fork", "os.forkpty", "os.posix_spawn", "os.system"):
            return
        pytest.fail(f"a test of `make check` may not cause {event}{arguments[1:]}: mark it `long`")
