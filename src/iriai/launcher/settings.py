"""The launcher's command line."""

from __future__ import annotations

import os
from typing import NamedTuple

from iriai.model.problem import UsageProblem

MINIMUM_UID = 1000
"""Where ordinary users begin on Linux distributions."""
USAGE = """\
usage: python -m iriai.launcher --state DIR --socket PATH [--daemon-uid UID] [--minimum-uid N]
                                [--isolation auto|v1|v2|none] [--helper auto|c|python]
                                [--devices DIR]
"""
_CHOICES = {"isolation": ("auto", "v1", "v2", "none"), "helper": ("auto", "c", "python")}


class LauncherSettings(NamedTuple):
    """One launcher's settings."""

    state: str = ""
    """The state directory."""
    socket: str = ""
    """Where the daemon connects."""
    daemon_uid: int = -1
    """Who may connect, beside root; -1 is the launcher's own user."""
    minimum_uid: int = MINIMUM_UID
    """Nothing is run for users below; 0 permits root."""
    isolation: str = "auto"
    """Which control groups may be used."""
    helper: str = "auto"
    """The program between launcher and task."""
    devices: str = "/dev"
    """Where terminals and input devices are, which show that the owner is there."""


def read_arguments(arguments: list[str]) -> LauncherSettings:
    """Return the settings in `arguments`, `--name value` each; raise `UsageProblem`.

    Not by argparse, which would stay in memory with a twentieth of all that the launcher needs.
    """
    given: dict[str, str | int] = {}
    words = iter(arguments)
    for word in words:
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("--") or name not in LauncherSettings._fields:
            raise UsageProblem("bad-option", f"{word} is not known", USAGE)
        given[name] = _value(name, word, next(words, ""))
    settings = LauncherSettings(**given)  # type: ignore[arg-type]  # each has the type of its field
    if not (settings.state and settings.socket):
        raise UsageProblem("bad-option", "--state and --socket are needed", USAGE)
    if settings.daemon_uid < 0:
        settings = settings._replace(daemon_uid=os.geteuid())
    return settings


def _value(name: str, word: str, text: str) -> str | int:
    if name in ("daemon_uid", "minimum_uid"):
        if not text.isdecimal():
            raise UsageProblem("bad-option", f"{word} needs a user id, not '{text}'", USAGE)
        return int(text)
    if not text or text not in _CHOICES.get(name, (text,)):
        raise UsageProblem("bad-option", f"{word} cannot be '{text}'", USAGE)
    return text
