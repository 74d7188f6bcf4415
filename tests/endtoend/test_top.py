"""`iriai top` on a terminal, with a real daemon that goes away and comes back."""

from __future__ import annotations

import os

import pytest

from tests.endtoend.terminal import Terminal
from tests.support.waiting import until


@pytest.fixture
def terminal(iriai):
    iriai.start()
    command = iriai.command("top", "--interval", "0.5")
    environment = iriai.environment() | {"TERM": "xterm-256color"}
    opened = Terminal(command, environment, iriai.work)
    yield opened
    opened.close()


def test_a_job_is_seen_looked_into_and_cancelled(iriai, terminal):
    with iriai.client() as client:
        job = client.submit(iriai.draft("sh", "-c", "echo here it is; sleep 600", output="said")).id
        terminal.expect("Machines")
        terminal.expect(job)
        until((iriai.work / "said").exists, "the start of the job")
        terminal.type("l")
        terminal.expect("here it is")
        terminal.type("\x1b")
        terminal.expect("Queues")
        terminal.type("c")
        terminal.expect(f"Cancel {job}")
        terminal.type("y")
        [outcome] = client.wait([job])
    assert outcome.cause == "cancelled"
    terminal.type("q")
    assert terminal.wait() == 0


def test_it_goes_on_when_the_daemon_is_back_and_leaves_the_terminal_as_it_was(iriai, terminal):
    terminal.expect("Machines")
    iriai.leave_launcher()
    terminal.expect("no daemon answers for")
    iriai.start()
    with iriai.client() as client:
        job = client.submit(iriai.draft("sleep", "600", output=os.devnull)).id
    terminal.expect(job)
    terminal.type("q")
    assert terminal.wait() == 0
    assert "\x1b[?1049h" in terminal.text
    assert terminal.text.rindex("\x1b[?1049l") > terminal.text.rindex("\x1b[?1049h")
