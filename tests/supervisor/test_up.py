"""`iriai up` and `down` with real processes."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from iriai.model.paths import StatePaths
from iriai.model.problem import ExitCode, Problem, Unreachable
from iriai.supervisor.up import bring_up
from iriai.system.exit_report import read_ending
from iriai.system.lock_file import lock_holder
from iriai.wire.reports import Doctor
from tests.support.machine import PARTS, real_machine
from tests.support.waiting import is_gone, until


@pytest.fixture
def machine():
    with real_machine() as made:
        yield made


def refusal(machine) -> Problem:
    """Why it does not come up; nothing is left running then."""
    before = {part: machine.pid(part) for part in PARTS}
    with pytest.raises(Problem) as caught:
        machine.up()
    assert {part: machine.pid(part) for part in PARTS} == before
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    return caught.value


def be_up_and_down(machine) -> None:
    """Be up once, and then down with everything."""
    machine.up()
    with machine.client() as client:
        client.down(kill=True)
    until(lambda: all(machine.pid(part) is None for part in PARTS), "the end of all")


def test_up_brings_up_what_answers_and_again_finds_it_up(machine):
    first = machine.up()
    assert first.started
    assert first.state_directory == machine.paths.directory
    pids = machine.pids()
    assert first.daemon_pid == pids["daemon"]
    assert first.launcher_pid == pids["launcher"]
    assert first.supervisor_pid == pids["supervisor"]
    again = machine.up()
    assert again == first._replace(started=False)
    assert machine.pids() == pids


def test_status_names_the_three_processes(machine):
    machine.up()
    pids = machine.pids()
    with machine.client() as client:
        status = client.status()
    assert status.daemon_pid == pids["daemon"]
    assert status.launcher_pid == pids["launcher"]
    assert status.supervisor_pid == pids["supervisor"]


@pytest.mark.parametrize("lost", [["daemon"], ["launcher"], ["daemon", "launcher"]])
def test_what_is_killed_comes_back(machine, lost):
    machine.up()
    before = machine.pids()
    for part in lost:
        machine.kill(part)
    until(lambda: all(machine.pid(part) not in (None, before[part]) for part in lost))
    assert machine.pid("supervisor") == before["supervisor"]
    assert machine.up().supervisor_pid == before["supervisor"]


def test_up_brings_back_what_is_missing_and_keeps_what_is_there(machine):
    machine.up()
    before = machine.pids()
    machine.kill("supervisor")
    machine.kill("launcher")
    standing = machine.up()
    after = machine.pids()
    assert standing.started
    assert after["daemon"] == before["daemon"]
    assert after["launcher"] != before["launcher"]
    with machine.client() as client:
        until(lambda: client.status().supervisor_pid == after["supervisor"])


def test_down_leaves_the_launcher_to_the_next_up(machine):
    machine.up()
    before = machine.pids()
    with machine.client() as client:
        client.down()
    until(lambda: machine.pid("daemon") is None and machine.pid("supervisor") is None)
    assert not Path(machine.paths.daemon_socket).exists()
    assert machine.pid("launcher") == before["launcher"]
    assert machine.up().started
    assert machine.pids()["launcher"] == before["launcher"]


def test_down_with_kill_ends_everything(machine):
    machine.up()
    with machine.client() as client:
        client.down(kill=True)
    until(lambda: all(machine.pid(part) is None for part in PARTS))


@pytest.mark.parametrize("kill", [False, True])
def test_up_right_after_down_brings_up_a_new_daemon(machine, kill):
    first = machine.up()
    with machine.client() as client:
        client.down(kill=kill)
    second = machine.up()
    assert second.started
    assert second.daemon_pid != first.daemon_pid
    assert machine.pids()["daemon"] == second.daemon_pid


def test_up_right_after_the_supervisor_was_told_to_end_brings_up_a_new_one(machine):
    first = machine.up()
    os.kill(first.supervisor_pid, signal.SIGTERM)
    until(lambda: read_ending(machine.paths.end("supervisor")))
    second = machine.up()
    assert second.supervisor_pid not in (None, first.supervisor_pid)
    assert second.launcher_pid == first.launcher_pid


def test_a_wrong_configuration_is_told_before_anything_starts(machine):
    machine.configure("[machine]\ncpus = 0\n")
    problem = refusal(machine)
    assert problem.code == "bad-configuration"
    assert problem.exit_code is ExitCode.USAGE
    assert not Path(machine.paths.store).exists()


def test_a_configuration_that_is_no_text_is_told(machine):
    machine.configure("")
    Path(machine.paths.configuration).write_bytes(b"[machine]\nname = '\xff'")
    assert "not UTF-8" in refusal(machine).message


def test_a_full_disk_is_told_before_anything_starts_and_keeps_nothing_from_going_on(machine):
    be_up_and_down(machine)
    probe = Path(machine.paths.directory, "probe")
    probe.symlink_to("/dev/full")
    assert refusal(machine).code == "no-space"
    machine.up()
    probe.symlink_to("/dev/full")
    assert not machine.up().started


def test_an_unknown_order_is_told(machine):
    machine.configure('[order]\nname = "seniority"\n')
    problem = refusal(machine)
    assert "seniority" in problem.message
    assert "lottery" in problem.hint


def test_a_database_that_is_not_ours_is_told_by_up(machine):
    be_up_and_down(machine)
    Path(machine.paths.store, "iriai.db").write_bytes(b"a diary, and no database at all" * 10)
    problem = refusal(machine)
    assert problem.code == "state-foreign"
    assert problem.exit_code is ExitCode.REFUSED


def test_a_launcher_that_cannot_begin_is_told_with_its_own_words(machine):
    be_up_and_down(machine)
    Path(machine.paths.directory, "launcher", "journal").write_bytes(b"not a journal" * 100)
    problem = refusal(machine)
    assert problem.code == "launcher-does-not-start"
    assert "journal" in problem.hint


def test_a_renamed_home_is_told(machine):
    machine.configure('[machine]\nname = "ume"\n')
    be_up_and_down(machine)
    machine.configure('[machine]\nname = "matsu"\n')
    assert refusal(machine).code == "home-renamed"


def listener_in(machine) -> socket.socket:
    """Something that is not ours, where the daemon's socket should be."""
    be_up_and_down(machine)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(machine.paths.daemon_socket)
    os.chmod(machine.paths.daemon_socket, 0o666)
    listener.listen()
    return listener


def test_a_socket_that_speaks_another_language_is_told(machine):
    program = (
        "import socket, sys; s = socket.socket(fileno=int(sys.argv[1])); c, _ = s.accept();"
        "c.sendall(b'SSH-2.0-OpenSSH_9.2\\r\\n'); c.recv(1); c.recv(1)"
    )
    with listener_in(machine) as listener:
        number = listener.fileno()
        command = [sys.executable, "-c", program, str(number)]
        with subprocess.Popen(command, pass_fds=[number]):
            problem = refusal(machine)
    assert isinstance(problem, Unreachable)
    assert problem.code == "socket-not-ours"


@pytest.mark.root
def test_a_socket_of_another_user_is_told(machine, people):
    be_up_and_down(machine)
    os.chmod(machine.paths.directory, 0o777)
    program = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen();"
        "print('ready', flush=True); s.accept()"
    )
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", program, machine.paths.daemon_socket],
        user=people.ann.uid,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout.readline() == b"ready\n"
        problem = refusal(machine)
    assert isinstance(problem, Unreachable)
    assert problem.code == "socket-of-another"
    assert str(people.ann.uid) in problem.message


@pytest.mark.root
def test_roots_daemon_runs_as_the_user_it_was_given(people):
    with real_machine(people.ann.name) as machine:
        daemon = machine.up().daemon_pid
        pids = machine.pids()
        assert os.stat(f"/proc/{pids['launcher']}").st_uid == 0
        status = Path(f"/proc/{daemon}/status").read_text()
        uids = next(line for line in status.splitlines() if line.startswith("Uid:"))
        assert uids.split()[1:] == [str(people.ann.uid)] * 4
        assert os.stat(machine.paths.store).st_uid == people.ann.uid
        with machine.client() as client:
            assert client.status().mode == "system"
            assert client.status().launcher_pid == pids["launcher"]
            findings = client.ask(Doctor())
    assert findings


FOREGROUND = """
import sys
from iriai.supervisor.up import stay_up
from iriai.model.problem import Problem
def announce(standing):
    print("up", standing.daemon_pid, flush=True)
try:
    stay_up(sys.argv[1], None, announce)
except Problem as problem:
    sys.exit(problem.exit_code)
"""


def test_in_the_foreground_up_becomes_the_supervisor(machine):
    command = [sys.executable, "-c", FOREGROUND, machine.paths.directory]
    if os.geteuid() == 0:
        command[2] = FOREGROUND.replace("None", "'root'")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        word, daemon = process.stdout.readline().split()
        assert word == b"up"
        pids = machine.pids()
        assert (pids["supervisor"], pids["daemon"]) == (process.pid, int(daemon))
        process.send_signal(signal.SIGINT)
        assert process.wait() == ExitCode.DONE
        assert b"the launcher and its tasks go on" in process.stderr.read()
    assert is_gone(int(daemon))
    assert machine.pid("launcher") == pids["launcher"]


def test_in_the_foreground_a_failed_start_is_one_line_and_an_exit_code(machine):
    be_up_and_down(machine)
    Path(machine.paths.store, "iriai.db").write_bytes(b"a diary, and no database at all" * 10)
    command = [sys.executable, "-c", FOREGROUND, machine.paths.directory]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.REFUSED
    assert done.stderr.startswith("iriai: ")
    assert "is not a database of iriai" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_daemon_by_itself_refuses_a_directory_in_use(machine):
    machine.up()
    pid = machine.pids()["daemon"]
    command = [sys.executable, "-m", "iriai.daemon", "--state", machine.paths.directory]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.REFUSED
    assert f"is in use by process {pid}" in done.stderr
    with machine.client() as client:
        assert client.status().daemon_pid == pid


def test_two_ups_at_once_bring_up_one_machine(machine):
    Path(machine.paths.directory).mkdir()
    program = (
        "import sys; from iriai.supervisor.up import bring_up; bring_up(sys.argv[1], sys.argv[2])"
    )
    user = "root" if os.geteuid() == 0 else None
    command = [sys.executable, "-c", program, machine.paths.directory, *filter(None, [user])]
    if user is None:
        command[2] = program.replace(", sys.argv[2]", "")
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    pids = machine.pids()
    assert lock_holder(machine.paths.lock("supervisor")) == pids["supervisor"]


def test_a_path_too_long_is_told_before_anything_is_made(tmp_path):
    long = StatePaths(f"{tmp_path}/{'d' * 90}")
    with pytest.raises(Problem, match="107"):
        bring_up(long.directory)
    assert not Path(long.directory).exists()
