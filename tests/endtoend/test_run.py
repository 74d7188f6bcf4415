"""`iriai run`: a job that feels like the command itself."""

import os
import signal
import subprocess

import pytest

from tests.endtoend.installation import PYTHON, ended_afterwards, installed
from tests.endtoend.terminal import CTRL_C, CTRL_Z, SAYS_WHEN_IT_RUNS, Terminal
from tests.support.waiting import is_gone, until

CONFIGURATION = """
[machine]
cpus = 8
[jobs]
kill_grace_s = 0.5
"""
# It holds what it has taken, for where the kernel does not look but we do.
ALLOCATE = "held = bytearray(400 << 20)\nfor i in range(0, len(held), 4096): held[i] = 1\n"
HOLD = "import time; time.sleep(60)"


@pytest.fixture(scope="module")
def machine(person):
    with installed(person, CONFIGURATION) as installation:
        yield installation


@pytest.fixture
def running(machine):
    """Starts `iriai run` with pipes; ended with the test."""

    def start(*words):
        started.append(machine.begin_call("run", *words))
        return started[-1]

    with ended_afterwards() as started:
        yield start


@pytest.fixture
def window(machine):
    """Starts `iriai run` on a terminal; closed with the test."""
    opened = []

    def start(*words):
        command = machine.command("run", *words)
        terminal = Terminal(command, machine.environment() | {"TERM": "dumb"}, machine.work)
        opened.append(terminal)
        return terminal

    yield start
    for terminal in opened:
        terminal.close()


def last_job(machine):
    with machine.client() as client:
        return client.jobs()[-1].id


def ending(machine, job):
    with machine.client() as client:
        [outcome] = client.wait([job])
    return outcome


# --- output, input, exit code ---------------------------------------------------------------------


def test_output_and_errors_go_where_the_commands_would(machine):
    done = machine.call("run", "--", "sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 0)


def test_output_comes_while_the_task_runs(running):
    process = running("--", "sh", "-c", "echo first; read line; echo $line")
    assert process.stdout.readline() == "first\n"
    assert process.poll() is None
    process.stdin.write("second\n")
    process.stdin.flush()
    assert process.stdout.readline() == "second\n"
    assert process.wait() == 0


def test_standard_input_is_passed_on_to_its_end(machine):
    text = "".join(f"line {number}\n" for number in range(20_000))
    done = machine.call("run", "--", "sh", "-c", "cat; echo over", stdin=text)
    assert done.stdout == text + "over\n"


def test_much_output_is_neither_lost_nor_mixed(machine):
    program = "import sys\nfor n in range(200_000): print(n)"
    done = machine.call("run", "--", PYTHON, "-S", "-c", program)
    assert done.stdout == "".join(f"{n}\n" for n in range(200_000))
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--", "sh", "-c", "exit 7"], 7),
        (["--", "sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
        (["--", "sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL),
        (["--time", "1s", "--", "sleep", "1000"], 124),
        (["--memory", "64M", "--", PYTHON, "-S", "-c", ALLOCATE + HOLD], 125),
        (["--no-check", "--", "no-such-program"], 127),
    ],
)
def test_the_exit_code_is_the_tasks(machine, words, code):
    assert machine.call("run", *words).returncode == code


def test_a_limit_is_named(machine):
    done = machine.call("run", "--time", "1s", "--", "sleep", "1000")
    [line] = done.stderr.splitlines()
    assert "time limit of 1.0s reached" in line


def test_a_job_that_another_command_cancels(machine, running):
    process = running("--", "sh", "-c", "echo begun; exec sleep 1000")
    assert process.stdout.readline() == "begun\n"
    assert machine.call("cancel", last_job(machine)).returncode == 0
    assert process.wait() == 130


def test_a_reader_that_leaves_does_not_end_the_job(machine):
    words = machine.command("run", "--", "sh", "-c", "yes | head -n 100000; touch written")
    done = subprocess.run(
        ["sh", "-c", '"$@" | head -n 1', "sh", *words],
        cwd=machine.work,
        env=machine.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "y\n"
    until((machine.work / "written").exists, "the end of the task")


# --- interruptions --------------------------------------------------------------------------------


def test_one_interruption_asks_and_the_job_goes_on(machine, window):
    terminal = window("--", "sh", "-c", "echo begun; read line; echo got $line; exit 5")
    terminal.expect("begun")
    terminal.type(CTRL_C)
    terminal.expect("press Ctrl-C again to cancel")
    terminal.type("an answer\n")
    terminal.expect("got an answer")
    assert terminal.wait() == 5


def test_two_interruptions_cancel(machine, window):
    terminal = window("--", "sh", "-c", "echo begun; exec sleep 1000")
    terminal.expect("begun")
    job = last_job(machine)
    terminal.type(CTRL_C)
    terminal.expect("press Ctrl-C again to cancel")
    terminal.type(CTRL_C)
    assert terminal.wait() == 130
    assert ending(machine, job).cause == "cancelled"


def test_a_job_that_waits_is_cancelled_as_well(machine, window):
    with machine.client() as client:
        blocker = client.submit(machine.draft("sleep", "1000", cpus=8, output=os.devnull)).id
        until(lambda: client.show(blocker).row.state == "running", "the blocker")
        terminal = window("--", "true")
        until(lambda: len(client.jobs()) == 2, "the job")
        terminal.type(CTRL_C)
        terminal.expect("press Ctrl-C again to cancel")
        terminal.type(CTRL_C)
        assert terminal.wait() == 130
        client.cancel([blocker])
        client.wait([blocker])


def test_a_job_outlives_the_command_that_is_killed(machine, running):
    process = running(
        "--", "sh", "-c", "echo begun; while [ ! -e go ]; do sleep 0.05; done; exit 6"
    )
    assert process.stdout.readline() == "begun\n"
    job = last_job(machine)
    process.kill()
    process.wait()
    (machine.work / "go").touch()
    assert ending(machine, job).exit_code == 6


def test_a_daemon_that_dies_meanwhile_is_waited_for(machine, running):
    process = running("--", "sh", "-c", "echo begun; read line; echo $line; exit 4")
    assert process.stdout.readline() == "begun\n"
    machine.kill("daemon")
    assert "is offline" in process.stderr.readline()
    process.stdin.write("still here\n")
    process.stdin.flush()
    assert process.stdout.readline() == "still here\n"
    assert process.wait() == 4


def test_a_task_that_is_lost_is_run_again_and_shown_again(machine, running):
    script = "echo attempt $IRIAI_ATTEMPT; test $IRIAI_ATTEMPT -gt 1 || exec sleep 1000"
    process = running("--no-stdin", "--", "sh", "-c", script)
    assert process.stdout.readline() == "attempt 1\n"
    machine.kill("launcher")
    assert process.stdout.readline() == "attempt 2\n"
    assert process.wait() == 0


def test_a_task_whose_input_cannot_be_had_twice_is_not_run_twice(machine, running):
    process = running("--", "sh", "-c", "echo begun; cat")
    assert process.stdout.readline() == "begun\n"
    machine.kill("launcher")
    assert process.wait() == 125
    assert "lost" in process.stderr.read()


def test_a_job_that_waits_with_its_input_outlives_the_daemon(machine, running):
    with machine.client() as client:
        blocker = client.submit(machine.draft("sleep", "1000", cpus=8, output=os.devnull)).id
        until(lambda: client.show(blocker).row.state == "running", "the blocker")
        process = running("--", "cat")
        process.stdin.write("typed early\n")
        process.stdin.close()
        until(lambda: len(client.jobs()) == 2, "the job")
        client.usage()  # which is answered when the job is durable, and was told so
    machine.kill("daemon")
    until(machine.runs_tasks, "a new daemon")
    with machine.client() as client:
        client.cancel([blocker])
    assert process.stdout.read() == "typed early\n"
    assert process.wait() == 0


# --- sessions -------------------------------------------------------------------------------------


@pytest.fixture
def session(window):
    """An interactive shell on claimed resources."""
    terminal = window("--pty", "--cpus", "2", "--env", "PS1=> ", "--", "sh")
    terminal.expect("> ")
    return terminal


def say(session, line):
    """Types a command; what it showed."""
    session.type(f"{line}\n")
    session.expect("\r\n")
    return session.expect("> ").replace("\r\n", "\n").strip()


def test_a_session_is_a_shell_with_a_terminal(session):
    assert say(session, "echo $((6 * 7))") == "42"
    assert say(session, "tty").startswith("/dev/pts/")
    assert say(session, "echo $IRIAI_CPUS") == "2"
    assert say(session, "echo out > /dev/tty") == "out"
    session.type("exit 3\n")
    assert session.wait() == 3
    assert "job control turned off" not in session.text


def test_a_session_is_as_large_as_the_window(session):
    assert say(session, "stty size") == "24 80"
    session.resize(50, 132)
    until(lambda: say(session, "stty size") == "50 132", "the new size")
    session.type("exit\n")
    assert session.wait() == 0


def test_keys_reach_the_task_and_not_the_command(session):
    session.type(SAYS_WHEN_IT_RUNS)
    session.expect("\r\ngo\r\n")
    session.type(CTRL_C)
    session.expect("> ")
    assert say(session, "echo still here") == "still here"
    session.type("exit\n")
    assert session.wait() == 0
    assert "press Ctrl-C" not in session.text


def test_job_control(session):
    session.type(SAYS_WHEN_IT_RUNS)
    session.expect("\r\ngo\r\n")
    session.type(CTRL_Z)
    session.expect("> ")
    assert "Stopped" in say(session, "jobs")
    session.type("fg\n")
    session.expect("\r\non\r\n")
    session.type(CTRL_C)
    session.expect("> ")
    assert say(session, "jobs") == ""
    session.type("exit\n")
    assert session.wait() == 0


def test_the_terminal_is_afterwards_as_it_was_before(machine, window):
    terminal = window("--pty", "--", "sh", "-c", "echo begun; read line; exit 9")
    before = terminal.mode()
    terminal.expect("begun")
    assert terminal.mode() != before
    terminal.type("\n")
    # The last one to have the other side open is `iriai` itself.
    until(lambda: terminal.mode() == before, "the terminal as it was")
    assert terminal.wait() == 9


def test_a_session_goes_on_while_the_daemon_is_away(machine, session):
    assert say(session, "echo before") == "before"
    machine.kill("daemon")
    session.type("echo $((40 + 2))\n")
    session.expect("42\r\n")
    until(machine.runs_tasks, "a new daemon")
    session.type("exit 8\n")
    assert session.wait() == 8


def test_a_session_ends_with_its_window(machine, session):
    shell = int(say(session, "echo $$"))
    job = last_job(machine)
    session.kill()
    # By the signal that its terminal hung up, or by the daemon that noticed.
    assert ending(machine, job).cause in ("failed", "cancelled")
    assert is_gone(shell)
