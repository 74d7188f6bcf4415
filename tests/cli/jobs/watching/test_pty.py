"""A terminal of `run` is prepared before what a task prints is shown on it."""

import os
import pty
import termios
from types import SimpleNamespace

import pytest

from iriai.cli.jobs.watching import pty as watched
from iriai.cli.jobs.watching import waiting_line
from iriai.cli.jobs.watching.pty import run_on_terminal
from iriai.model.problem import Refused
from iriai.model.state import EndCause
from iriai.wire.requests import LogFile, Outcome, OutputPiece

OUTCOME = Outcome("ume-1", EndCause.COMPLETED, 0, None, "")
PROMPT = b"> "


class Home:
    """A daemon whose task waits, then prints at once, and ends."""

    is_lost = False

    def __init__(self, *, waits: int, steps: int) -> None:
        self.waits = waits
        """How often the task is seen to wait."""
        self.steps = steps
        """How often the client looks before the end."""

    def submit(self, _draft, *, takes_input, window, immediate):
        return SimpleNamespace(id="ume-1", warnings=())

    def waiting(self, _names, on_progress, _on_lost):
        self.on_progress = on_progress
        return self

    def poll(self, _timeout_s):
        self.steps -= 1
        self.on_progress(self.steps)
        return (OUTCOME,) if self.steps < 0 else None

    def logs(self, _name, _after_index):
        self.waits -= 1
        return () if self.waits >= 0 else (
            LogFile("ume-1.0", 1, False, "/far/out", "/far/out", "take", True, "ann", True),
        )  # fmt: skip

    def output(self, _file, _kind):
        def read(offset, _wait_s=0.0):
            return OutputPiece(PROMPT[offset:], is_complete=offset >= len(PROMPT))

        return SimpleNamespace(poll=read, read=read)

    def why(self, _job):
        return SimpleNamespace(reasons=("it waits",))


def no_input():
    raise Refused("over", "the job is over")


@pytest.mark.parametrize(("waits", "steps"), [(2, 5), (2, 2)])
def test_the_first_prompt_comes_when_keys_are_the_tasks_and_the_waiting_line_is_gone(
    monkeypatch, waits, steps
):
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    shown: list[tuple[str, bool]] = []

    def show(data):
        is_echoing = bool(termios.tcgetattr(slave)[3] & termios.ECHO)
        shown.append((data if isinstance(data, str) else data.decode(), is_echoing))

    monkeypatch.setattr(watched, "STDIN", slave)
    monkeypatch.setattr(watched, "sink_to", lambda _: show)
    monkeypatch.setattr(waiting_line, "PATIENCE_S", 0.0)
    monkeypatch.setattr(waiting_line.WaitingLine, "_write", staticmethod(show))
    monkeypatch.setattr(waiting_line.os, "isatty", lambda _: True)
    monkeypatch.setattr("iriai.cli.framework.reasons.reason_text", str)
    outcome = run_on_terminal(no_input, Home(waits=waits, steps=steps), None, immediate=False)
    assert outcome is OUTCOME
    line, cleared, prompt = shown
    assert "ume-1 waits: it waits" in line[0]
    assert cleared == ("\r\x1b[K", True)
    assert prompt == ("> ", False)
    assert termios.tcgetattr(slave) == before
    os.close(slave)
    os.close(master)
