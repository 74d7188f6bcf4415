"""A machine on this host with terminals of its own, and a person who types at one of them.

All machines on one host see each other's terminals, so a line at one would be noticed by all.
"""

from __future__ import annotations

import subprocess
import sys

from tests.endtoend.network import Networked
from tests.support.waiting import until

OWN = (
    "mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts /dev/pts"
    " && mount --bind /dev/pts/ptmx /dev/ptmx"
    ' && exec "$@"'
)
KEYS = """
import os, pty, subprocess, sys
keys, terminal = pty.openpty()
reader = subprocess.Popen(["cat"], stdin=terminal, stdout=subprocess.DEVNULL)
os.close(terminal)
print("ready", flush=True)
for _ in sys.stdin:
    os.write(keys, b"ls\\n")
    print("typed", flush=True)
reader.kill()
"""


def with_own_terminals(machine: Networked) -> Networked:
    """Let it have terminals that no other machine on this host sees; before its start."""
    machine.prefix = (*machine.prefix, "unshare", "--mount", "sh", "-c", OWN, "own-terminals")
    return machine


class Person:
    """Somebody at a terminal of a machine with terminals of its own, which runs."""

    def __init__(self, machine: Networked) -> None:
        pid = until(lambda: machine.pid("launcher"), "the launcher")
        inside = ("nsenter", f"--mount=/proc/{pid}/ns/mnt", "--")
        self._process = subprocess.Popen(
            [*inside, sys.executable, "-c", KEYS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._said("ready")

    def _said(self, word: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == word

    def types(self) -> None:
        """Type a line; it is read when this returns, or soon."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._said("typed")

    def leaves(self) -> None:
        """Close the terminal."""
        self._process.communicate(timeout=10.0)
