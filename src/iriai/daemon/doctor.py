"""What `iriai doctor` finds: how each limit is kept here, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iriai.daemon.settings import Settings
from iriai.launcher.messages import Enforcement
from iriai.wire.requests import Finding


def findings(
    settings: Settings, enforcement: Iterable[Enforcement], trouble: Sequence[str]
) -> list[Finding]:
    """Trouble first, then each limit and how it is kept."""
    found = [Finding("daemon", "trouble", text) for text in trouble]
    found += [Finding(row.limit, "ok", row.by, row.note) for row in enforcement]
    found.append(Finding("state directory", "ok", settings.paths.directory))
    return found
