"""Which processes are not of our tasks: those that are not below the launcher."""

from __future__ import annotations

from iriai.launcher.owner.polled.reading import read_text

DEPTH_MAX = 1024
"""Of a tree of processes: what lies deeper is not looked at, as keys are not to wait for it."""


def parent_of(pid: int, proc: str) -> int | None:
    """Return the parent of a process; None if it is gone."""
    try:
        text = read_text(f"{proc}/{pid}/stat")
        # The name stands in parentheses and may hold anything, parentheses too.
        return int(text[text.rindex(")") + 2 :].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def is_foreign(pid: int, launcher: int, proc: str = "/proc") -> bool:
    """Return whether a process is not below the launcher; False while that cannot be known."""
    for _ in range(DEPTH_MAX):
        if pid == launcher:
            return False
        parent = parent_of(pid, proc)
        if parent is None:
            return False
        if parent <= 1:
            return parent != launcher
        pid = parent
    return False
