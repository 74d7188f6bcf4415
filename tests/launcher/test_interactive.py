"""Tasks that somebody waits for: their output, their input, their terminal."""

import fcntl
import os
import struct
import termios

import pytest

from iriai.launcher.contract.messages import Discard, EndInput, Terminate
from iriai.model.ids import AttemptId
from iriai.model.job import Interaction
from iriai.model.state import EndCause
from tests.launcher.harness import Lab


def started(lab: Lab, *command: str, **more: object) -> AttemptId:
    """Start a task of `run`, and wait until it runs."""
    attempt = lab.launch(lab.spec(*command, **({"interaction": Interaction.STREAM} | more)))
    lab.link.pid_of(attempt)
    return attempt


def test_what_a_task_prints_comes_through_two_pipes(lab: Lab):
    attempt = started(lab, "sh", "-c", "echo said; echo wrong >&2")
    assert lab.link.told.index("StreamEnds") < lab.link.told.index("Spawned")
    assert lab.link.printed(attempt) == "said\n"
    assert lab.link.printed(attempt, "err") == "wrong\n"


def test_a_task_opens_its_output_by_name(lab: Lab):
    attempt = started(lab, "sh", "-c", "echo one > /dev/stderr; echo two > /dev/stdout")
    assert lab.link.printed(attempt, "err") == "one\n"
    assert lab.link.printed(attempt) == "two\n"


def test_a_program_that_may_write_no_file_prints(lab: Lab):
    text = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nprint('said')"
    attempt = lab.launch(lab.python(text, interaction=Interaction.STREAM))
    assert lab.link.printed(attempt) == "said\n"


def test_input_reaches_the_task_up_to_its_end(lab: Lab):
    attempt = started(lab, "cat", takes_input=True)
    source = lab.link.ends[attempt].pop("in")
    os.write(source, b"typed\n")
    os.close(source)
    lab.link.send(EndInput(attempt))
    assert lab.link.printed(attempt) == "typed\n"
    assert lab.link.exit_of(attempt).cause is EndCause.COMPLETED


def test_input_does_not_end_before_the_daemon_says_so(lab: Lab):
    attempt = started(lab, "cat", takes_input=True)
    os.close(lab.link.ends[attempt].pop("in"))
    again = lab.machine.attach()
    lab.link = again
    os.write(again.ends[attempt]["in"], b"of the next daemon\n")
    os.close(again.ends[attempt].pop("in"))
    again.send(EndInput(attempt))
    assert again.printed(attempt) == "of the next daemon\n"


def test_without_input_it_is_empty(lab: Lab):
    end = lab.end_of(lab.spec("cat", interaction=Interaction.STREAM))
    assert end.cause is EndCause.COMPLETED


def test_what_was_printed_while_no_daemon_was_there_is_kept_for_the_next(lab: Lab):
    attempt = started(lab, "sh", "-c", "sleep 0.2; echo meanwhile")
    lab.link.close()
    again = lab.machine.attach()
    lab.link = again
    assert again.printed(attempt) == "meanwhile\n"


def test_a_terminal_is_the_controlling_one(lab: Lab):
    text = """
import os, sys
terminal = os.open("/dev/tty", os.O_RDWR)
os.write(terminal, f"{os.isatty(0)} {os.isatty(2)} {os.tcgetpgrp(0) == os.getpid()}".encode())
os.close(os.open(os.ttyname(0), os.O_RDWR))
sys.exit(5)
"""
    attempt = lab.launch(lab.python(text, interaction=Interaction.TERMINAL, takes_input=True))
    assert lab.link.printed(attempt, "tty") == "True True True"
    assert lab.link.exit_of(attempt).exit_code == 5


def test_a_terminal_begins_with_the_size_of_the_clients(lab: Lab):
    attempt = lab.launch(
        lab.spec("stty", "size", interaction=Interaction.TERMINAL, window=(50, 132))
    )
    assert lab.link.printed(attempt, "tty") == "50 132\r\n"


def test_a_terminal_is_resized(lab: Lab):
    attempt = started(
        lab,
        "bash",
        "-c",
        "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done",
        interaction=Interaction.TERMINAL,
    )
    terminal = lab.link.ends[attempt]["tty"]
    os.set_blocking(terminal, True)
    with os.fdopen(os.dup(terminal), "rb", buffering=0) as shown:
        assert shown.readline() == b"ready\r\n"
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 99, 0, 0))
    assert lab.link.printed(attempt, "tty") == "30 99\r\n"


def test_a_hang_up_ends_the_session(lab: Lab):
    attempt = started(lab, "cat", interaction=Interaction.TERMINAL, takes_input=True)
    os.close(lab.link.ends[attempt].pop("tty"))
    lab.link.send(EndInput(attempt))
    assert lab.link.exit_of(attempt).cause is EndCause.FAILED


def test_each_task_has_its_own_input(lab: Lab):
    attempts = [started(lab, "cat", takes_input=True) for _ in range(3)]
    for each in attempts:
        source = lab.link.ends[each].pop("in")
        os.write(source, str(each).encode())
        os.close(source)
        lab.link.send(EndInput(each))
    for each in attempts:
        assert lab.link.printed(each) == str(each)


def test_no_descriptor_stays_open(lab: Lab):
    assert lab.machine.process is not None
    files = f"/proc/{lab.machine.process.pid}/fd"
    lab.run("true")
    before = len(os.listdir(files))
    for kind in (Interaction.STREAM, Interaction.STREAM, Interaction.TERMINAL):
        for command in ("true", "no-such-command"):
            end = lab.end_of(lab.spec(command, interaction=kind, takes_input=True))
            lab.link.send(Discard((end.attempt,)))
    lab.machine.wait_until_read(lab.link)
    assert len(os.listdir(files)) <= before  # a group that has much cached is given up


def test_ending_an_interactive_task(lab: Lab):
    attempt = started(lab, "sleep", "600")
    lab.link.send(Terminate((attempt,), EndCause.CANCELLED, 60.0))
    assert lab.link.exit_of(attempt).cause is EndCause.CANCELLED


@pytest.mark.parametrize("words", ["", "its output cannot be kept: No space left on device"])
def test_an_end_says_why_the_daemon_wanted_it(lab: Lab, words: str):
    attempt = started(lab, "sleep", "600")
    lab.link.send(Terminate((attempt,), EndCause.FAILED, 0.0, words))
    assert lab.link.exit_of(attempt).message == words
