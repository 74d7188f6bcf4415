"""What operators can do while the daemon cannot start, or is killed again and again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from iriai.model.problem import ExitCode
from tests.endtoend.installation import CALL_WAIT_S, IRIAI, Installation
from tests.support.waiting import is_gone, until

BROKEN = "[machine]\ncpus = 'many'\n"


def owner(iriai: Installation, *words: str) -> subprocess.CompletedProcess[str]:
    """`iriai WORDS` as the owner of the state directory."""
    return subprocess.run(
        [IRIAI, *words],
        capture_output=True,
        text=True,
        env=iriai.environment(),
        timeout=CALL_WAIT_S,
        check=False,
    )


def log(iriai: Installation) -> str:
    """What the supervisor has logged."""
    return Path(iriai.paths.log_of("supervisor")).read_text()


def begin_sleep(iriai: Installation) -> int:
    """Start a job that would sleep for long; return the process of its task."""
    note = iriai.work / "pid"
    with iriai.client() as client:
        client.submit(
            iriai.draft(
                "/bin/sh", "-c", f"echo $$ > {note}.new; mv {note}.new {note}; exec sleep 1000"
            )
        )
    until(note.exists, "the task's begin")
    return int(note.read_text())


def break_daemon(iriai: Installation) -> None:
    """Let the daemon die and fail at its next starts."""
    iriai.configure(BROKEN)
    iriai.kill("daemon")
    until(lambda: "exit code 2" in log(iriai), "a failed start")


def test_down_kill_ends_everything_while_the_daemon_cannot_start(iriai):
    iriai.start()
    task = begin_sleep(iriai)
    supervisor, launcher = iriai.pid("supervisor"), iriai.pid("launcher")
    break_daemon(iriai)
    said = owner(iriai, "--json", "down", "--kill")
    assert said.returncode == ExitCode.DONE, said
    ended = json.loads(said.stdout)
    assert (ended["supervisor_pid"], ended["launcher_pid"]) == (supervisor, launcher)
    iriai.supervisor.wait()
    assert is_gone(task)
    assert iriai.processes() == {}


def test_down_without_kill_leaves_the_tasks_of_a_daemon_that_cannot_start(iriai):
    iriai.start()
    task = begin_sleep(iriai)
    break_daemon(iriai)
    said = owner(iriai, "down")
    assert said.returncode == ExitCode.DONE, said
    assert "running tasks go on" in said.stdout
    iriai.supervisor.wait()
    assert not is_gone(task)
    iriai.configure("")
    iriai.start()
    assert not is_gone(task)
    assert owner(iriai, "down", "--kill").returncode == ExitCode.DONE
    assert is_gone(task)


def test_down_kill_ends_a_machine_whose_daemon_is_killed_again_and_again(iriai):
    iriai.start()
    task = begin_sleep(iriai)
    over = threading.Event()

    def blows() -> None:
        while not over.wait(0.01):
            iriai.kill("daemon")

    killer = threading.Thread(target=blows)
    killer.start()
    try:
        said = owner(iriai, "down", "--kill")
    finally:
        over.set()
        killer.join()
    assert said.returncode == ExitCode.DONE, said
    iriai.supervisor.wait()
    assert is_gone(task)
    assert iriai.processes() == {}


def test_down_kill_ends_a_daemon_that_is_stopped_and_watched_by_nobody(iriai):
    iriai.start()
    daemon = iriai.pid("daemon")
    iriai.supervisor.kill()
    iriai.supervisor.wait()
    os.kill(daemon, signal.SIGSTOP)
    said = owner(iriai, "down", "--kill")
    assert said.returncode == ExitCode.DONE, said
    assert iriai.processes() == {}


@pytest.mark.root
def test_another_user_ends_nothing(iriai, people):
    iriai.start()
    break_daemon(iriai)
    said = iriai.call("down", "--kill", person=people.bob)
    assert said.returncode == ExitCode.NOT_ALLOWED, said
    assert "belong to another user" in said.stderr
    assert iriai.pid("supervisor") is not None
    assert iriai.pid("launcher") is not None


def test_status_says_since_when_and_why_the_daemon_is_away(iriai):
    iriai.start()
    break_daemon(iriai)
    said = owner(iriai, "status")
    assert said.returncode == ExitCode.UNREACHABLE, said
    assert said.stdout == ""
    assert "is away since" in said.stderr
    assert "with exit code 2" in said.stderr
    assert "machine.cpus" in said.stderr  # the last line of its log
    assert f"the supervisor (process {iriai.pid('supervisor')}) starts it again" in said.stderr
    document = json.loads(owner(iriai, "--json", "status").stdout)
    assert document["error"]["code"] == "no-daemon"
    outage = document["outage"]
    assert (outage["exit_code"], outage["signal"]) == (2, "")
    assert outage["failures"] >= 1
    assert "machine.cpus" in outage["last_line"]
    assert outage["supervisor_pid"] == iriai.pid("supervisor")


def test_status_tells_what_follows_an_outage(iriai):
    iriai.start()
    break_daemon(iriai)
    iriai.supervisor.kill()
    iriai.supervisor.wait()
    said = owner(iriai, "status")
    assert said.returncode == ExitCode.UNREACHABLE
    assert "its supervisor has ended too" in said.stderr
    iriai.configure("")
    iriai.start()
    until(lambda: not Path(iriai.paths.outage).exists(), "the end of the record")
    assert owner(iriai, "status").returncode == ExitCode.DONE
    assert owner(iriai, "down", "--kill").returncode == ExitCode.DONE
    said = owner(iriai, "status")
    assert said.returncode == ExitCode.UNREACHABLE
    assert "no daemon is running" in said.stderr


@pytest.mark.root
def test_status_tells_other_users_why_a_database_keeps_the_daemon_away(iriai):
    iriai.start()
    os.chown(iriai.paths.database, 0, 0)
    os.chmod(iriai.paths.database, 0o600)
    iriai.kill("daemon")
    until(lambda: "daemon cannot start" in log(iriai), "a failed start")
    said = iriai.call("status")
    assert said.returncode == ExitCode.UNREACHABLE, said
    assert "1 start failed" in said.stderr
    assert "starts it again" in said.stderr


def row(iriai: Installation) -> dict[str, object]:
    """The machine in `iriai nodes --json`."""
    [only] = json.loads(owner(iriai, "--json", "nodes").stdout)["rows"]
    return only


def submit_touch(iriai: Installation, name: str) -> Path:
    """Submit a job that makes this file."""
    made = iriai.work / name
    with iriai.client() as client:
        client.submit(iriai.draft("/usr/bin/touch", str(made)))
    return made


def test_a_drain_without_a_daemon_holds_from_its_next_start(iriai):
    iriai.start()
    task = begin_sleep(iriai)
    with iriai.client() as client:  # waits until the next daemon could start it
        waits = iriai.work / "waits"
        cpus = client.nodes()[0].cpus
        client.submit(iriai.draft("/usr/bin/touch", str(waits), cpus=cpus))
    break_daemon(iriai)
    said = owner(iriai, "--json", "drain", "--reason", "new disk")
    assert said.returncode == ExitCode.DONE, said
    assert json.loads(said.stdout)["kept"] is True
    os.kill(task, signal.SIGKILL)
    iriai.configure("")
    assert owner(iriai, "up", "--detach").returncode == ExitCode.DONE
    until(iriai.runs_tasks, "the next daemon")
    assert (row(iriai)["state"], "new disk" in str(row(iriai)["reason"])) == ("drained", True)
    until(lambda: is_gone(task), "the end of the task")
    assert not waits.exists()
    assert owner(iriai, "resume").returncode == ExitCode.DONE
    until(waits.exists, "the job that waited for 'resume'")
    iriai.kill("daemon")  # what was taken is not taken again
    until(iriai.runs_tasks, "one more daemon")
    assert row(iriai)["state"] != "drained"


def test_resume_without_a_daemon_holds_from_its_next_start(iriai):
    iriai.start()
    assert owner(iriai, "drain", "--reason", "new disk").returncode == ExitCode.DONE
    made = submit_touch(iriai, "made")
    break_daemon(iriai)
    assert "from its next start on" in owner(iriai, "resume").stdout
    assert not made.exists()
    iriai.configure("")
    assert owner(iriai, "up", "--detach").returncode == ExitCode.DONE
    until(made.exists, "the job that waited for the next daemon")


def test_a_drain_holds_though_the_daemon_is_killed_again_and_again(iriai):
    iriai.start()
    over = threading.Event()

    def blows() -> None:
        while not over.wait(0.05):
            iriai.kill("daemon")

    killer = threading.Thread(target=blows)
    killer.start()
    try:
        said = [owner(iriai, "drain", "--reason", f"disk {each}") for each in range(3)]
    finally:
        over.set()
        killer.join()
    assert [each.returncode for each in said] == [ExitCode.DONE] * 3, said
    until(iriai.runs_tasks, "a daemon that stays")
    assert (row(iriai)["state"], "disk 2" in str(row(iriai)["reason"])) == ("drained", True)


def test_a_mangled_drain_keeps_the_daemon_from_starting_until_it_is_said_again(iriai):
    iriai.start()
    Path(iriai.paths.drain).write_text("asked\n{")
    iriai.kill("daemon")
    until(lambda: "whether the machine is drained is unknown" in log(iriai), "a refused start")
    said = owner(iriai, "status")
    assert said.returncode == ExitCode.UNREACHABLE
    assert "'iriai drain' or 'iriai resume'" in said.stderr
    assert owner(iriai, "resume").returncode == ExitCode.DONE
    assert owner(iriai, "up", "--detach").returncode == ExitCode.DONE
    until(submit_touch(iriai, "made").exists, "a job")


@pytest.mark.root
def test_another_user_drains_nothing_while_the_daemon_is_away(iriai):
    iriai.start()
    break_daemon(iriai)
    said = iriai.call("drain", "--reason", "mine")
    assert said.returncode == ExitCode.NOT_ALLOWED, said
    assert "only its owner" in said.stderr
    assert not Path(iriai.paths.drain).exists()


def test_without_a_daemon_only_the_machine_itself_is_drained(iriai):
    iriai.start()
    break_daemon(iriai)
    said = owner(iriai, "drain", "momo", "--reason", "new disk")
    assert said.returncode == ExitCode.NOT_FOUND, said
    assert "momo is not the machine" in said.stderr
