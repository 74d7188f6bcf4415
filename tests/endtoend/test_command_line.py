"""Commands as people type them, in processes of their own, against a real daemon."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.endtoend.installation import IRIAI, MARK, Installation
from tests.endtoend.terminal import SAYS_WHEN_IT_RUNS
from tests.support.waiting import is_gone, until

CONFIGURATION = """
[machine]
cpus = 4
[jobs]
kill_grace_s = 1
[identity]
minimum_uid = 0
"""
WAIT_S = 60.0


class Shell:
    """Runs `iriai` in the working directory of an installation."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.environment = os.environ | {
            "IRIAI_STATE": str(installation.state),
            MARK: str(installation.directory),
        }

    def __call__(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [IRIAI, *words],
            cwd=self.installation.work,
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )

    def start(self, *words: str, **streams) -> subprocess.Popen[bytes]:
        """A command that is left running."""
        fields = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "cwd": self.installation.work,
            "env": self.environment,
        }
        return subprocess.Popen([IRIAI, *words], **(fields | streams))

    def document(self, *words: str):
        """What a command says with --json."""
        return json.loads(self(*words, "--json").stdout)

    def id_of(self, *words: str) -> str:
        """The job that `submit` hands in."""
        return self("submit", *words).stdout.strip()

    def state(self, job: str) -> str:
        """How a job is."""
        return self.document("show", job)["row"]["state"]


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    installation = Installation(None)
    installation.configure(CONFIGURATION)
    try:
        yield Shell(installation.start())
    finally:
        installation.stop()


# --- run -----------------------------------------------------------------------------------------


def test_run_hands_both_outputs_on_and_exits_with_the_code(shell: Shell):
    done = shell("run", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)


def test_run_passes_standard_input(shell: Shell):
    content = "some words\n" * 50_000
    done = shell("run", "--", "cat", given=content)
    assert (done.stdout == content, done.returncode) == (True, 0)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (137, ("--", "sh", "-c", "kill -9 $$")),
        (124, ("--time", "0.2", "--", "sleep", "60")),
        (127, ("--no-check", "--", "no-such-command")),
    ],
)
def test_run_exits_as_the_task_ended(shell: Shell, code: int, words: tuple[str, ...]):
    assert shell("run", *words).returncode == code


def test_run_tells_its_outcome_as_a_document_and_keeps_the_output_apart(shell: Shell):
    done = shell("run", "--json", "--", "sh", "-c", "echo hello; exit 5")
    outcome = json.loads(done.stdout)
    assert (outcome["cause"], outcome["exit_code"]) == ("failed", 5)
    assert (done.stderr, done.returncode) == ("hello\n", 5)


def test_run_runs_in_this_directory_with_this_environment(shell: Shell):
    done = shell("run", "--env", "FLAVOUR=plum", "--", "sh", "-c", "pwd; echo $FLAVOUR")
    assert done.stdout == f"{shell.installation.work}\nplum\n"


def test_the_first_interruption_asks_and_the_second_cancels(shell: Shell):
    process = shell.start("run", "--", "sh", "-c", "echo begun; exec sleep 60")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    asked = process.stderr.readline().decode()
    assert "press Ctrl-C again to cancel" in asked
    job = asked.split("cancel ")[1].split(";")[0]
    until(lambda: shell.state(job) == "running", "the news of its start")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert shell.document("show", job)["row"]["cause"] == "cancelled"


def test_a_job_goes_on_when_the_one_who_watches_is_killed(shell: Shell):
    process = shell.start("run", "--name", "alone", "--", "sh", "-c", "echo begun; sleep 60")
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate()
    [row] = shell.document("jobs", "--name", "alone")["rows"]
    until(lambda: shell.state(row["id"]) == "running", "the news of its start")
    assert shell("cancel", "name:alone").returncode == 0
    assert shell("wait", row["id"]).returncode == 130


def test_a_reader_that_has_enough_ends_the_command(shell: Shell):
    process = shell.start("run", "--name", "chatter", "--", "yes", stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(WAIT_S) == 128 + signal.SIGPIPE
    assert shell("cancel", "name:chatter").returncode == 0


def test_run_outlives_a_daemon_that_is_killed(shell: Shell):
    process = shell.start(
        *("run", "--", "sh", "-c", "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo over")
    )
    assert process.stdout is not None
    process.stdout.readline()
    killed = shell.installation.kill("daemon")
    until(lambda: shell.installation.pid("daemon") not in (None, killed), "another daemon")
    (shell.installation.work / "go").touch()
    out, err = process.communicate(timeout=WAIT_S)
    assert (out, process.returncode) == (b"over\n", 0)
    assert b"waiting for it, the task goes on" in err


# --- run --pty -----------------------------------------------------------------------------------


class Terminal:
    """A terminal with a command on it; what it shows is gathered."""

    def __init__(self, shell: Shell, *words: str, rows: int = 24, columns: int = 80) -> None:
        self._master, slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = shell.start(
            *words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        self._shown = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def resize(self, rows: int, columns: int) -> None:
        """Change the window."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def shows(self, text: str) -> None:
        """Wait until `text` is shown, and forget what was shown up to it."""
        try:
            until(lambda: text.encode() in self._shown, repr(text))
        except AssertionError as error:
            raise AssertionError(f"{error}; there is {bytes(self._shown)!r}") from None
        del self._shown[: self._shown.index(text.encode()) + len(text)]

    def end(self) -> int:
        """Wait for the command; its exit code."""
        code = self.process.wait(WAIT_S)
        assert termios.tcgetattr(self.slave)[:6] == self.before[:6], "the terminal is as before"
        return code

    def close(self) -> None:
        """Hang up."""
        os.close(self.slave)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(WAIT_S)
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                self._shown += os.read(self._master, 4096)
            except OSError:
                return


@pytest.fixture
def terminals(shell: Shell) -> Iterator[Callable[..., Terminal]]:
    """Makes terminals that are closed in the end."""
    made: list[Terminal] = []

    def make(*words: str, rows: int = 24, columns: int = 80) -> Terminal:
        made.append(Terminal(shell, *words, rows=rows, columns=columns))
        return made[-1]

    yield make
    for terminal in made:
        terminal.close()
    shell("cancel", "--mine")


def test_an_interactive_session_is_a_terminal(terminals):
    terminal = terminals("run", "--pty", "--", "/bin/sh", rows=30, columns=100)
    terminal.type("PS1='rea''dy> '\r")  # not what its echo shows
    terminal.shows("ready> ")
    terminal.type("stty size; test -t 2 && echo on a terminal\r")
    terminal.shows("30 100\r\n")
    terminal.shows("on a terminal\r\n")
    terminal.resize(20, 70)
    terminal.type("stty size\r")
    terminal.shows("20 70\r\n")
    terminal.type(SAYS_WHEN_IT_RUNS)
    terminal.shows("\r\ngo\r\n")
    terminal.type("\x03")
    terminal.shows("ready> ")
    terminal.type("exit 7\r")
    assert terminal.end() == 7


def test_a_session_works_from_a_pipe_as_well(shell: Shell):
    done = shell("run", "--pty", "--", "/bin/sh", given="echo $((6 * 7)); exit 3\n")
    assert "42" in done.stdout
    assert done.returncode == 3


def test_while_it_waits_a_terminal_is_told_why(shell: Shell, terminals):
    blocker = shell.id_of("--cpus", "4", "--", "sleep", "60")
    until(lambda: shell.state(blocker) == "running", "the blocker")
    terminal = terminals("run", "--", "echo", "my turn", columns=150)
    terminal.shows("waits: the machine is busy: needs 1 cpu")
    shell("cancel", blocker)
    terminal.shows("my turn")
    assert terminal.end() == 0


@pytest.mark.parametrize("columns", [80, 120])
def test_tables_fit_the_terminal(shell: Shell, terminals, columns: int):
    job = shell.id_of("--hold", "--name", "a name that is long " * 8, "--", "true")
    terminal = terminals("jobs", columns=columns)
    terminal.shows(job)
    terminal.shows("…")
    terminal.shows("held")
    assert terminal.end() == 0


# --- submit and what follows ---------------------------------------------------------------------


def test_an_array_from_hand_in_to_its_sums(shell: Shell):
    job = shell.id_of(
        *("--array", "1-3", "--name", "sums", "--output", "sums.%t"),
        *("--", "sh", "-c", "echo task $IRIAI_TASK_ID; test $IRIAI_TASK_ID -ne 2"),
    )
    waited = shell("wait", job)
    assert (waited.stdout, waited.returncode) == (f"{job}: failed with exit code 1\n", 1)
    assert shell("logs", f"{job}.2").stdout == "task 2\n"
    assert (shell.installation.work / "sums.3").read_text() == "task 3\n"
    detail = shell.document("show", job)
    assert detail["causes"] == {"completed": 2, "failed": 1}
    [row] = [row for row in shell.document("usage", "--by", "job")["rows"] if row["job"] == job]
    assert (row["tasks"], row["failed"]) == (3, 1)
    [listed] = shell.document("jobs", "--finished", "--name", "sums")["rows"]
    assert (listed["succeeded"], listed["failed"]) == (2, 1)
    assert shell.document("shares")["order"] == "lottery"


def test_a_script_is_run_with_its_arguments(shell: Shell):
    script = shell.installation.work / "script"
    script.write_text("#!/bin/sh\necho $# $2\n")
    job = shell.id_of("script", "one", "two words")
    script.unlink()
    shell("wait", job)
    assert shell("logs", job).stdout == "2 two words\n"
    piped = shell("submit", "-", given="echo from a pipe\n").stdout.strip()
    shell("wait", piped)
    assert shell("logs", piped).stdout == "from a pipe\n"


def test_logs_follow_until_the_end(shell: Shell):
    (shell.installation.work / "end").unlink(missing_ok=True)
    job = shell.id_of(
        "--", "sh", "-c", "echo first; while [ ! -e end ]; do sleep 0.05; done; echo last"
    )
    process = shell.start("logs", "-f", job)
    assert process.stdout is not None
    assert process.stdout.readline() == b"first\n"
    (shell.installation.work / "end").touch()
    assert process.communicate(timeout=WAIT_S)[0] == b"last\n"
    assert process.returncode == 0


def test_every_task_of_a_long_array_is_followed(shell: Shell):
    job = shell.id_of("--array", "1-100", "--", "sh", "-c", "echo $IRIAI_TASK_ID")
    lines = shell("logs", "-f", job).stdout.split("\n")
    assert sorted(int(line) for line in lines if line.isdigit()) == list(range(1, 101))
    shared = shell.id_of("--array", "1-20", "--output", "shared", "--", "echo", "here")
    assert shell("logs", "-f", shared).stdout.count("here") == 20


def test_a_held_job_waits_says_why_and_is_released(shell: Shell):
    job = shell.id_of("--hold", "--", "true")
    assert "(held)" in shell("why", job).stdout
    assert "has not started" in shell("logs", job).stderr
    assert shell("release", job).stdout == f"{job}: 1 task released\n"
    assert shell("wait", job).returncode == 0


def test_tasks_of_an_array_are_cancelled_by_range(shell: Shell):
    job = shell.id_of("--array", "1-10", "--hold", "--", "true")
    assert shell("cancel", f"{job}.3-5").stdout == f"{job}.3-5: 3 tasks cancelled\n"
    shell("release", job)
    assert shell("wait", job).returncode == 130
    assert shell.document("show", job)["causes"] == {"completed": 7, "cancelled": 3}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, ("submit", "--array", "1-10000000", "--", "true")),
        (3, ("submit", "--memory", "999T", "--", "true")),
        (3, ("submit", "--cpus", "5", "--", "true")),
        (4, ("show", "nobody-1")),
        (4, ("cancel", "name:nothing-is-called-this")),
        (2, ("show", "what?")),
    ],
)
def test_what_the_daemon_refuses_is_one_line(shell: Shell, code: int, words: tuple[str, ...]):
    done = shell(*words)
    assert done.returncode == code
    assert done.stderr.startswith("iriai: ")
    assert done.stderr.count("\n") == 1


def test_the_shell_completes_jobs(shell: Shell):
    job = shell.id_of("--hold", "--", "true")
    completing = {
        "_IRIAI_COMPLETE": "complete_bash",
        "COMP_WORDS": "iriai why ",
        "COMP_CWORD": "2",
    }
    done = subprocess.run(
        [IRIAI], env=shell.environment | completing, capture_output=True, text=True, check=False
    )
    assert job in done.stdout.split()
    shell("cancel", job)


# --- up and down ---------------------------------------------------------------------------------


def test_down_kill_ends_what_an_earlier_down_left():
    installation = Installation(None)
    installation.configure(CONFIGURATION)
    shell = Shell(installation)
    try:
        shell("up", "--detach")
        job = shell.id_of("--", "sh", "-c", "test -e go || sleep 600")
        until(lambda: shell.state(job) == "running", "the start")
        launcher = installation.pid("launcher")
        shell("down")
        assert not is_gone(launcher)
        assert shell.document("down", "--kill")["launcher_pid"] == launcher
        assert is_gone(launcher)
        again = shell("down", "--kill")
        assert (again.returncode, "no daemon is running" in again.stderr) == (6, True)
        (installation.work / "go").touch()
        shell("up", "--detach")
        assert shell("wait", job).returncode == 0
    finally:
        shell("down", "--kill")
        installation.stop()


def test_up_is_safe_to_repeat_and_tasks_outlive_down():
    installation = Installation(None)
    installation.configure(CONFIGURATION)
    shell = Shell(installation)
    try:
        assert shell("status").returncode == 6
        assert " is up" in shell("up", "--detach").stdout
        assert " was up already" in shell("up", "--detach").stdout
        job = shell.id_of("--", "sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; echo over")
        until(lambda: shell.state(job) == "running", "the start")
        assert "running tasks go on" in shell("down").stdout
        assert shell("jobs").returncode == 6
        (installation.work / "go").touch()
        shell("up", "--detach")
        assert shell("wait", job).returncode == 0
        assert shell("logs", job).stdout == "over\n"
        status = shell.document("status")
        assert status["launcher_pid"]
        assert status["supervisor_pid"]
    finally:
        shell("down", "--kill")
        installation.stop()
