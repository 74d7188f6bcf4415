"""`iriai session-agent`: tells iriai that somebody uses a graphical session."""

from __future__ import annotations

import os
import sys

from iriai.cli.framework.command import Command, GlobalOptions, option
from iriai.model.problem import Refused, UsageProblem

FOR_ALL = "/etc/xdg/autostart"
FILE = "iriai-session-agent.desktop"
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
_ENTRY = """\
[Desktop Entry]
Type=Application
Name=iriai session agent
Comment=Tells iriai that somebody uses this session, and nothing else
Exec={command}
NoDisplay=true
"""


def session_agent(
    options: GlobalOptions,
    install: bool = option(
        False, "--install", help="Have graphical sessions start it: yours, or as root all."
    ),
) -> None:
    """Tell iriai when somebody uses this graphical session, until the session is over.

    A keyboard at the machine is seen without it; remote desktops (VNC, RDP, X2Go) are not. It says
    that somebody is there, never what they type.
    """
    from iriai.client.connection import candidate_directories

    if install:
        print(f"sessions that begin from now on start it: {_install(options)}")
        return
    if not any(map(os.environ.get, DISPLAYS)):
        raise Refused(
            "no-display",
            f"this is no graphical session: none of {', '.join(DISPLAYS)} is set",
            "call it in one, or with --install, which has sessions start it",
        )
    state = None if options.state is None else str(options.state)
    directories = candidate_directories(state, os.environ, os.geteuid())
    words = [sys.executable, "-P", "-m", "iriai.session", *directories]
    os.execv(words[0], words)  # noqa: S606 - no shell is wanted


def _install(options: GlobalOptions) -> str:
    """Write the entry; return its path."""
    from pathlib import Path

    from iriai.system.atomic_files import write_whole

    state = () if options.state is None else ("--state", str(options.state.absolute()))
    words = (sys.executable, "-P", "-m", "iriai", *state, "session-agent")
    path = f"{_autostart_directory()}/{FILE}"
    entry = _ENTRY.format(command=" ".join(map(_quoted, words)))
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, entry.encode(), mode=0o644)
    except OSError as error:
        raise Refused(
            "not-written", f"{path} cannot be written: {error.strerror}", "run it as root"
        ) from error
    return path


def _autostart_directory() -> str:
    if os.geteuid() == 0:
        return FOR_ALL
    base = os.environ.get("XDG_CONFIG_HOME") or f"{os.environ.get('HOME', '')}/.config"
    if not base.startswith("/"):
        raise UsageProblem("no-home", "HOME is not set", "set HOME or XDG_CONFIG_HOME")
    return f"{base}/autostart"


def _quoted(word: str) -> str:
    """Return a word as the Desktop Entry Specification wants it in `Exec`."""
    word = word.replace("%", "%%").replace("\\", "\\\\\\\\")
    for each in '"`$':
        word = word.replace(each, f"\\\\{each}")
    return f'"{word}"'


app = Command(
    session_agent,
    ("iriai session-agent", "run it in this session"),
    ("iriai session-agent --install", "have each session start it"),
)
