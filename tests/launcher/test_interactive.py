"""Tasks that somebody waits for: followed output, passed standard input, a terminal."""

import os
import stat

from iriai.launcher.contract.messages import Terminate
from iriai.model.job import Interaction
from iriai.model.state import EndCause
from tests.launcher.harness import Lab

ACCESS = "system.posix_acl_access"


def test_followed_output_lies_in_two_files_that_the_user_reads_and_the_daemon_owns(lab: Lab):
    spec = lab.spec("sh", "-c", "echo said; echo wrong >&2", interaction=Interaction.STREAM)
    end = lab.end_of(spec)
    assert end.cause is EndCause.COMPLETED
    spool = lab.machine.state / "spool"
    name = f"ume-{end.attempt.number}.0-1"
    for kind, content in (("out", "said\n"), ("err", "wrong\n")):
        path = spool / f"{name}.{kind}"
        assert path.read_text() == content
        is_shared = lab.machine.variant.is_privileged and os.geteuid() == 0
        assert path.stat().st_uid == (0 if is_shared else lab.machine.uid)
        # With an access list, what counts as the group's bits is the most that it gives.
        assert stat.S_IMODE(path.stat().st_mode) == (0o640 if is_shared else 0o600)
        if is_shared:
            assert lab.machine.uid.to_bytes(4, "little") in os.getxattr(path, ACCESS)
    assert stat.S_IMODE(spool.stat().st_mode) == 0o711


def test_a_task_opens_its_followed_output_by_name(lab: Lab):
    spec = lab.spec("sh", "-c", "echo one > /dev/stderr", interaction=Interaction.STREAM)
    end = lab.end_of(spec)
    assert end.cause is EndCause.COMPLETED
    spool = lab.machine.state / "spool" / f"ume-{end.attempt.number}.0-1.err"
    assert spool.read_text() == "one\n"


def test_a_task_that_prints_more_than_is_kept_is_ended(lab: Lab):
    text = "truncate -s 1G /dev/stdout; echo more; sleep 600"
    end = lab.end_of(lab.spec("sh", "-c", text, interaction=Interaction.STREAM))
    assert end.cause is EndCause.FAILED
    assert "SPOOL_BYTES_MAX" in end.message


def test_the_clients_own_standard_input_reaches_the_task(lab: Lab):
    read_end, write_end = os.pipe()
    spec = lab.spec("cat", interaction=Interaction.STREAM)
    started = lab.launch(spec, descriptors=(read_end,))
    os.close(read_end)
    lab.link.pid_of(started)
    os.write(write_end, b"typed\n")
    os.close(write_end)
    assert lab.link.exit_of(started).cause is EndCause.COMPLETED
    spool = lab.machine.state / "spool" / f"ume-{started.number}.0-1.out"
    assert spool.read_text() == "typed\n"


def test_without_a_descriptor_standard_input_is_empty(lab: Lab):
    end = lab.end_of(lab.spec("cat", interaction=Interaction.STREAM))
    assert end.cause is EndCause.COMPLETED


def test_a_terminal_is_the_controlling_one(lab: Lab):
    ours, theirs = os.openpty()
    text = """
import os, sys
terminal = os.open("/dev/tty", os.O_RDWR)
os.write(terminal, f"{os.isatty(0)} {os.isatty(2)} {os.tcgetpgrp(0) == os.getpid()}".encode())
sys.exit(5)
"""
    spec = lab.python(text, interaction=Interaction.TERMINAL)
    end = lab.end_of(spec, descriptors=(theirs,))
    assert end.exit_code == 5
    assert os.read(ours, 100) == b"True True True"
    os.close(ours)
    os.close(theirs)


def test_a_hang_up_ends_the_session(lab: Lab):
    ours, theirs = os.openpty()
    started = lab.launch(lab.spec("cat", interaction=Interaction.TERMINAL), descriptors=(theirs,))
    os.close(theirs)
    lab.link.pid_of(started)
    os.close(ours)
    assert lab.link.exit_of(started).cause is EndCause.FAILED


def test_a_terminal_that_is_missing_or_none_is_a_clear_end(lab: Lab):
    spec = lab.spec("true", interaction=Interaction.TERMINAL)
    end = lab.end_of(spec)
    assert (end.cause, end.exit_code) == (EndCause.FAILED, 126)
    assert "terminal" in end.message
    with open("/dev/null") as no_terminal:
        end = lab.end_of(spec, descriptors=(no_terminal.fileno(),))
    assert (end.cause, end.exit_code) == (EndCause.FAILED, 126)
    assert "terminal" in end.message


def test_descriptors_go_to_the_tasks_in_order(lab: Lab):
    pairs = [os.pipe() for _ in range(3)]
    started = [
        lab.launch(lab.spec("cat", interaction=Interaction.STREAM), descriptors=(read_end,))
        for read_end, _ in pairs
    ]
    for number, (read_end, write_end) in enumerate(pairs):
        os.close(read_end)
        os.write(write_end, f"number {number}".encode())
        os.close(write_end)
    for number, each in enumerate(started):
        lab.link.exit_of(each)
        spool = lab.machine.state / "spool" / f"ume-{each.number}.0-1.out"
        assert spool.read_text() == f"number {number}"


def test_no_descriptor_stays_open(lab: Lab):
    assert lab.machine.process is not None
    files = f"/proc/{lab.machine.process.pid}/fd"
    lab.run("true")
    before = len(os.listdir(files))
    for _ in range(3):
        read_end, write_end = os.pipe()
        spec = lab.spec("true", interaction=Interaction.STREAM)
        lab.end_of(spec, descriptors=(read_end,))
        lab.end_of(lab.spec("no-such-command", interaction=Interaction.STREAM))
        lab.end_of(lab.spec("true"), stdin=b"x", script=b"true")
        os.close(read_end)
        os.close(write_end)
    assert len(os.listdir(files)) == before


def test_ending_an_interactive_task(lab: Lab):
    started = lab.launch(lab.spec("sleep", "600", interaction=Interaction.STREAM))
    lab.link.pid_of(started)
    lab.link.send(Terminate((started,), EndCause.CANCELLED, 60.0))
    assert lab.link.exit_of(started).cause is EndCause.CANCELLED
