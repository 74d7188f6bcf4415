"""Who may speak to a launcher, and how it begins and ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from iriai.launcher.contract.messages import (
    LAUNCHER_VERSION,
    Attach,
    Launch,
    SampleAll,
    ShutDown,
    StartOrder,
    Template,
    VersionRefused,
)
from iriai.launcher.settings import read_arguments
from iriai.model.problem import UsageProblem
from iriai.model.state import START_TOLD_WITHIN_S, EndCause
from tests.launcher.conftest import IS_ROOT
from tests.launcher.harness import (
    Lab,
    Machine,
    Variant,
    attempt,
    is_running,
    launch,
    until,
)

FIRST = attempt(1)


def groups_of(machine: Machine) -> list[str]:
    """Control groups that the launcher of `machine` left."""
    command = ["find", "/sys/fs/cgroup", "-type", "d", "-name", f"iriai-{machine.mark}*"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.split()


def complaint_of_start(machine: Machine) -> str:
    """What a launcher that cannot begin says."""
    done = subprocess.run(machine.command(), stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    return done.stderr


def test_it_says_who_it_is_and_what_it_enforces(plain_machine: Machine):
    machine = plain_machine.start()
    welcome = machine.link().attach()
    assert welcome.version == LAUNCHER_VERSION
    assert welcome.pid == machine.process.pid
    assert {row.limit for row in welcome.enforcement} == {
        "cpu-shares",
        "memory",
        "disk",
        "processes",
        "cpu-time",
        "wall-time",
        "accounting",
        "tree-kill",
        "suspension",
        "time-slices",
        "owner-signs",
        "spawn",
        "private-tmp",
        "devices",
    }
    assert all(row.by for row in welcome.enforcement)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--state", "/tmp"],
        ["--socket", "/tmp/x"],
        ["--state"],
        ["state", "/tmp"],
        ["--state", "/tmp", "--socket", "/tmp/x", "--isolation", "v3"],
        ["--state", "/tmp", "--socket", "/tmp/x", "--minimum-uid", "-1"],
        ["--state", "/tmp", "--socket", "/tmp/x", "--nonsense", "1"],
    ],
)
def test_a_wrong_call_is_explained(arguments: list[str]):
    with pytest.raises(UsageProblem) as caught:
        read_arguments(arguments)
    assert "usage: python -m iriai.launcher" in str(caught.value)


def test_settings_have_defaults():
    settings = read_arguments(["--state", "/s", "--socket", "/x", "--minimum-uid", "0"])
    assert settings.daemon_uid == os.geteuid()
    assert settings.minimum_uid == 0


def test_another_version_is_turned_away(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.link()
    link.send(Attach(LAUNCHER_VERSION + 1))
    assert link.receive() == VersionRefused(LAUNCHER_VERSION)
    assert link.receive() is None
    until(lambda: "version" in machine.log.read_text(), "the reason in the log")
    assert machine.link().attach().version == LAUNCHER_VERSION


@pytest.mark.parametrize("content", [b"\xff" * 8, b"\0\0\0\2xx", b"\0\0\0\1\xc0"])
def test_what_cannot_be_read_ends_the_connection_only(plain_machine: Machine, content: bytes):
    machine = plain_machine.start()
    link = machine.link()
    link.send_bytes(content)
    assert link.receive() is None
    machine.link().attach()


def test_the_first_message_must_be_attach(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.link()
    link.send(ShutDown())
    assert link.receive() is None
    machine.link().attach()


def test_an_order_without_its_template_ends_the_connection(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.attach()
    link.send(Launch((), (StartOrder(FIRST, 0),)))
    assert link.receive() is None
    assert machine.link().attach().alive == ()


def test_a_newer_connection_replaces_the_older_one(plain_machine: Machine):
    machine = plain_machine.start()
    older = machine.attach()
    newer = machine.attach()
    assert older.receive() is None
    launch(newer, machine.spec("true"), FIRST)
    assert newer.exit_of(FIRST).cause is EndCause.COMPLETED


def test_a_daemon_that_goes_in_the_middle_of_a_frame_loses_nothing(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.attach()
    launch(link, machine.spec("true"), FIRST)
    link.send_bytes(b"\0\0\1\0half")
    link.close()
    until(lambda: machine.link().attach().ended, "the end of what was ordered before")


def test_a_daemon_that_does_not_read_does_not_stop_the_launcher(plain_machine: Machine):
    machine = plain_machine.start()
    deaf = machine.attach()
    spec = machine.spec("sleep", "600")
    for number in range(20):
        launch(deaf, spec, *(attempt(number, index) for index in range(5)))
    for _ in range(3000):
        deaf.send(SampleAll())
    machine.wait_until_read(deaf)
    assert len(machine.link().attach().alive) == 100


def test_a_second_launcher_says_who_is_there(plain_machine: Machine):
    machine = plain_machine.start()
    first = machine.process
    complaint = complaint_of_start(machine)
    assert f"another launcher (pid {first.pid}) already serves" in complaint
    machine.attach()
    assert (machine.state / "launcher.lock").read_text().split()[0] == str(first.pid)


def test_a_state_directory_that_is_missing_is_named(plain_machine: Machine):
    machine = plain_machine
    machine.state.rmdir()
    complaint = complaint_of_start(machine)
    assert f"state directory {machine.state}: No such file or directory" in complaint


def test_a_private_directory_of_somebody_else_is_not_trusted(plain_machine: Machine):
    machine = plain_machine
    (machine.state / "launcher").mkdir()
    (machine.state / "launcher").chmod(0o777)
    complaint = complaint_of_start(machine)
    assert "must belong to" in complaint


def test_a_symbolic_link_is_not_followed(plain_machine: Machine):
    machine = plain_machine
    (machine.directory / "elsewhere").mkdir()
    (machine.state / "spool").symlink_to(machine.directory / "elsewhere")
    complaint = complaint_of_start(machine)
    assert "spool" in complaint


def test_a_path_too_long_for_a_socket_is_named(plain_machine: Machine):
    machine = plain_machine
    machine.socket = machine.directory / ("x" * 100)
    complaint = complaint_of_start(machine)
    assert "the socket's path is over 103 bytes" in complaint


def test_the_socket_is_the_daemons_alone(plain_machine: Machine):
    machine = plain_machine.start()
    assert machine.socket.stat().st_mode & 0o777 == 0o600


def test_shutting_down_ends_all_and_says_so(machine: Machine):
    machine.start()
    link = machine.attach()
    launch(link, machine.spec("sleep", "600"), FIRST, attempt(2))
    pids = [link.pid_of(each) for each in (FIRST, attempt(2))]
    link.send(ShutDown())
    ends = [link.exit_of(each) for each in (FIRST, attempt(2))]
    assert [end.cause for end in ends] == [EndCause.EVICTED] * 2
    assert machine.wait() == 0
    assert not any(map(is_running, pids))
    assert not machine.socket.exists()
    assert groups_of(machine) == []
    assert set(machine.start().link().attach().ended) == set(ends)


def test_nothing_is_started_while_shutting_down(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.attach()
    spec = machine.spec("sh", "-c", "trap '' TERM; echo > ready; sleep 600", kill_grace_s=0.5)
    launch(link, spec, FIRST)
    until((machine.work / "ready").exists, "the trap")
    link.send(ShutDown())
    launch(link, machine.spec("true"), attempt(2))
    assert link.exit_of(attempt(2)).cause is EndCause.REFUSED
    assert link.exit_of(FIRST).signal == signal.SIGKILL
    assert machine.wait() == 0


def test_a_signal_to_end_is_a_shut_down(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.attach()
    launch(link, machine.spec("sleep", "600"), FIRST)
    pid = link.pid_of(FIRST)
    machine.process.terminate()
    assert link.exit_of(FIRST).cause is EndCause.EVICTED
    assert machine.wait() == 0
    assert not is_running(pid)


def test_a_hang_up_is_no_reason_to_end(plain_machine: Machine):
    machine = plain_machine.start()
    machine.process.send_signal(signal.SIGHUP)
    machine.attach()
    assert machine.process.poll() is None


def test_a_user_who_is_not_there_is_refused(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.attach()
    launch(link, machine.spec("true", user="no-such-user"), FIRST)
    end = link.exit_of(FIRST)
    assert (end.cause, end.exit_code) == (EndCause.FAILED, 126)
    assert end.message == "user 'no-such-user' does not exist on this machine"


def test_the_name_of_a_home_cannot_lead_elsewhere(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.attach()
    wanted = FIRST._replace(home="../../etc")
    launch(link, machine.spec("true"), wanted)
    assert link.exit_of(wanted).cause is EndCause.FAILED


if IS_ROOT:

    def test_a_stranger_is_turned_away(plain_machine: Machine):
        machine = plain_machine.start()
        machine.socket.chmod(0o666)
        machine.directory.chmod(0o755)
        text = f"""
import os, socket
os.setuid({machine.uid})
connection = socket.socket(socket.AF_UNIX)
connection.connect({str(machine.socket)!r})
assert connection.recv(1) == b""
"""
        subprocess.run([sys.executable, "-c", text], check=True)
        assert "refused a connection" in machine.log.read_text()
        machine.attach()

    def test_the_daemons_user_owns_socket_and_spool(plain_machine: Machine):
        machine = plain_machine
        machine.daemon_uid = machine.uid
        machine.start()
        assert machine.socket.stat().st_uid == machine.uid
        assert (machine.state / "spool").stat().st_uid == machine.uid
        assert (machine.state / "launcher").stat().st_uid == 0
        assert machine.journal.stat().st_mode & 0o777 == 0o600
        text = f"""
import os, socket
os.setuid({machine.uid})
connection = socket.socket(socket.AF_UNIX)
connection.connect({str(machine.socket)!r})
"""
        subprocess.run([sys.executable, "-c", text], check=True)
        machine.attach()

    def test_root_and_system_users_are_refused(plain_machine: Machine):
        machine = plain_machine
        machine.minimum_uid = 1000
        machine.start()
        link = machine.attach()
        launch(link, machine.spec("true", user="root"), FIRST)
        end = link.exit_of(FIRST)
        assert end.cause is EndCause.FAILED
        assert end.message == "user root has id 0; tasks run for ids from 1000 on"

    def test_a_daemon_can_only_ask_for_more_caution(plain_machine: Machine):
        machine = plain_machine
        machine.minimum_uid = 1000
        machine.start()
        link = machine.link()
        link.attach(minimum_uid=0)
        launch(link, machine.spec("true", user="root"), FIRST)
        assert link.exit_of(FIRST).cause is EndCause.FAILED
        link = machine.link()
        link.attach(minimum_uid=machine.uid + 1)
        launch(link, machine.spec("true"), attempt(2))
        assert link.exit_of(attempt(2)).cause is EndCause.FAILED

    def test_without_privileges_only_the_own_user_is_served(new_machine):
        machine = new_machine(Variant("ordinary-user", is_privileged=False)).start()
        link = machine.attach()
        launch(link, machine.spec("true", user="root"), FIRST)
        end = link.exit_of(FIRST)
        assert end.cause is EndCause.FAILED
        assert "without privileges" in end.message


def test_one_job_that_cannot_be_read_costs_no_other_job_its_start(machine: Machine):
    """T5: else all of them are ordered again, on a new connection, for ever."""
    link = machine.start().attach()
    good, bad = machine.spec("true"), machine.spec("true", time_limit_s=float("nan"))
    templates = tuple(Template(each, b"") for each in (good, bad, good))
    link.send(Launch(templates, tuple(StartOrder(attempt(place), place) for place in range(3))))
    assert [link.exit_of(attempt(place)).cause for place in range(3)] == [
        EndCause.COMPLETED,
        EndCause.FAILED,
        EndCause.COMPLETED,
    ]
    assert "time_limit_s" in link.exits[attempt(1)].message


def test_a_task_that_ends_at_once_is_told_once(lab: Lab):
    ends = [lab.run("true") for _ in range(10)]
    assert all(end.elapsed_s > 0.0 for end in ends)
    # Few, if the machine is busy; and an end is told when nothing of the task is left.
    at_once = [end for end in ends if end.elapsed_s < 0.5 * START_TOLD_WITHIN_S]
    told_twice = [end for end in at_once if end.attempt in lab.link.spawned]
    assert len(told_twice) < max(2, len(at_once))


def test_a_task_that_goes_on_is_told_when_it_has_started(lab: Lab):
    running = lab.launch(lab.spec("sleep", "0.5"))
    assert lab.link.pid_of(running)
    assert running not in lab.link.exits
    assert lab.link.exit_of(running).cause is EndCause.COMPLETED


def blocked_signals(status: str) -> int:
    """The set of blocked signals in a status file of /proc."""
    (line,) = [each for each in status.splitlines() if each.startswith("SigBlk:")]
    return int(line.split()[1], 16)


def test_an_end_interrupts_none_of_its_threads_and_no_task_begins_with_signals_blocked(
    plain_machine: Machine,
):
    machine = plain_machine.start()
    link = machine.attach()
    # What it leaves behind is removed by a thread.
    launch(link, machine.spec("sh", "-c", 'mkdir "$TMPDIR/d"; exec cat /proc/self/status'), FIRST)
    assert link.exit_of(FIRST).cause is EndCause.COMPLETED
    assert blocked_signals(machine.output()) == 0
    wanted = 1 << signal.SIGCHLD - 1
    threads = list(Path(f"/proc/{machine.process.pid}/task").iterdir())
    assert len(threads) > 1
    for each in threads:
        assert blocked_signals((each / "status").read_text()) & wanted
