"""`iriai session-agent --install`: what sessions of this user start from then on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from iriai.cli.framework.program import run_arguments
from iriai.cli.machine import session_agent


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where desktops look for what they start; root's is for all."""
    monkeypatch.setattr(session_agent, "FOR_ALL", str(tmp_path / "autostart"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "autostart" / session_agent.FILE


@pytest.mark.parametrize("uid", [0, 1000])
def test_it_is_installed_for_all_by_root_and_else_for_its_user(place, uid, monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert run_arguments(["session-agent", "--install"]) == 0
    assert str(place) in capsys.readouterr().out
    lines = place.read_text().splitlines()
    assert lines[0] == "[Desktop Entry]"
    assert f'Exec="{sys.executable}" "-P" "-m" "iriai" "session-agent"' in lines
    assert place.stat().st_mode & 0o777 == 0o644


def test_the_state_directory_is_kept_and_quoted(place):
    assert run_arguments(["session-agent", "--install", "--state", '/lab 1/$HOME"%']) == 0
    assert '"--state" "/lab 1/\\\\$HOME\\\\"%%"' in place.read_text()


def test_where_it_cannot_be_written_it_says_so(place, capsys):
    place.parent.parent.joinpath("autostart").write_text("a file")
    assert run_arguments(["session-agent", "--install"]) == 3
    assert "cannot be written" in capsys.readouterr().err


def test_without_a_display_it_says_so(monkeypatch, capsys):
    for name in session_agent.DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    assert run_arguments(["session-agent"]) == 3
    assert "no graphical session" in capsys.readouterr().err


def test_in_a_session_it_becomes_the_agent(monkeypatch):
    called: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _path, words: called.append(words))
    monkeypatch.setenv("DISPLAY", ":9")
    assert run_arguments(["session-agent", "--state", "/lab"]) == 0
    assert called == [[sys.executable, "-P", "-m", "iriai.session", "/lab"]]
