"""What people get wrong, through the command line: one line that helps, the right exit code, and
nothing that was there before is lost.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from iriai.config.limits import LimitsSection
from iriai.model.problem import ExitCode, UsageProblem
from iriai.wire.changes import Alter
from iriai.wire.requests import LogFile
from tests.endtoend.installation import IRIAI, installed
from tests.support.waiting import until

CONFIGURATION = """
[machine]
cpus = 4
memory = "1G"
[identity]
name_accounts = true
"""


@pytest.fixture(scope="module")
def machine(person):
    with installed(person, CONFIGURATION) as installation:
        yield installation


@pytest.fixture(scope="module")
def waiting_job(machine):
    """A job that was accepted before anything went wrong."""
    with machine.client() as client:
        return client.submit(machine.draft("true", held=True, name="kept")).id


@pytest.fixture
def refused(machine, waiting_job):
    """Calls `iriai` and returns the one line that it complains with."""

    def call(*words, code, **options):
        with machine.client() as client:
            before = [row.id for row in client.jobs()]
        line = complaint(machine.call(*words, **options), code)
        with machine.client() as client:
            assert [row.id for row in client.jobs()] == before
        assert waiting_job in before
        return line

    return call


def complaint(done: subprocess.CompletedProcess[str], code: ExitCode) -> str:
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("iriai: ")
    return line


def test_a_command_that_does_not_exist(refused):
    line = refused("submit", "--", "no-such-program", code=ExitCode.REFUSED)
    assert "there is no command 'no-such-program'" in line


def test_a_command_that_does_not_exist_when_its_turn_comes(machine):
    with machine.client() as client:
        [outcome] = client.wait([client.submit(machine.draft("no-such-program")).id])
    assert (outcome.cause, outcome.exit_code) == ("failed", 127)
    assert "no-such-program" in outcome.message


def test_a_script_without_permission(machine, refused):
    script = machine.work / "script.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o644)
    line = refused("submit", "--", "./script.sh", code=ExitCode.REFUSED)
    assert "is not executable" in line
    assert "chmod +x ./script.sh" in line
    with machine.client() as client:
        [outcome] = client.wait([client.submit(machine.draft("./script.sh")).id])
    assert (outcome.cause, outcome.exit_code) == ("failed", 126)


def test_a_directory_that_is_gone(machine, refused):
    gone = machine.work / "gone"
    line = refused("submit", "--chdir", str(gone), "--", "true", code=ExitCode.REFUSED)
    assert f"{gone} does not exist" in line
    with machine.client() as client:
        [outcome] = client.wait([client.submit(machine.draft("true", cwd=gone)).id])
    assert outcome.cause == "failed"
    assert str(gone) in outcome.message


def test_the_directory_that_one_stands_in_is_gone(machine, waiting_job):
    gone = machine.work / "stood-in"
    gone.mkdir()
    gone.chmod(0o777)
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", *machine.command("submit", "--", "true")],
        cwd=gone,
        env=machine.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the working directory no longer exists" in complaint(done, ExitCode.REFUSED)


@pytest.mark.parametrize("text", ["abc", "", "-5", "1h30x", "nan", "1e400"])
def test_a_time_limit_that_is_none(refused, text):
    line = refused("submit", f"--time={text}", "--", "true", code=ExitCode.USAGE)
    assert "--time" in line
    assert "90s" in line


def test_more_memory_than_there_is(refused):
    line = refused("submit", "--memory", "2G", "--", "true", code=ExitCode.REFUSED)
    assert "no machine has 2G memory" in line
    assert "has 1G" in line
    assert "--wait-for-resources" in line


@pytest.mark.parametrize(
    ("expression", "words"),
    [("Cpus >", "--requirements"), ("1 + " * 20_000 + "1", "--requirements")],
)
def test_an_expression_that_cannot_be_read_or_is_too_long(refused, expression, words):
    line = refused("submit", "--requirements", expression, "--", "true", code=ExitCode.USAGE)
    assert words in line
    assert len(line) < 1000


def test_an_account_that_nobody_has(refused):
    line = refused("submit", "--account", "no-such-user", "--", "true", code=ExitCode.REFUSED)
    assert "there is no account 'no-such-user'" in line


def test_a_group_that_is_not_the_users(refused):
    line = refused("submit", "--group", "no-such-group", "--", "true", code=ExitCode.REFUSED)
    assert "no group 'no-such-group'" in line


def test_an_array_of_ten_million(refused):
    line = refused("submit", "--array", "1-10000000", "--", "true", code=ExitCode.REFUSED)
    assert "the array has 10000000 tasks" in line
    assert "limit of this machine is 1000000" in line


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["show", "nonsense!"], ExitCode.USAGE),
        (["show", "elsewhere-1"], ExitCode.NOT_FOUND),
        (["cancel", "name:nothing*"], ExitCode.NOT_FOUND),
        (["submit", "--cpus", "0", "--", "true"], ExitCode.USAGE),
        (["submit", "--memory", "many", "--", "true"], ExitCode.USAGE),
        (["submit", "--array", "5-1", "--", "true"], ExitCode.USAGE),
        (["submit", "-p", "0", "--", "true"], ExitCode.USAGE),
        (["run"], ExitCode.USAGE),
    ],
)
def test_other_slips(refused, words, code):
    refused(*words, code=code)


def test_an_id_that_no_job_has(machine, refused):
    with machine.client() as client:
        home = client.welcome.home
    assert f"{home}-999999" in refused("show", f"{home}-999999", code=ExitCode.NOT_FOUND)
    assert f"{home}-999999" in refused("why", f"{home}-999999", code=ExitCode.NOT_FOUND)
    assert f"{home}-999999" in refused("wait", f"{home}-999999", code=ExitCode.NOT_FOUND)


def test_numbers_that_no_machine_can_take(machine, waiting_job):
    """By a program of somebody's own: the commands would not send them."""
    daemon, launcher = machine.pid("daemon"), machine.pid("launcher")
    with machine.client() as client:
        with pytest.raises(UsageProblem, match=r"is invalid.*after_index"):
            client.logs(waiting_job, after_index=2**64 - 1)
        for name in ("time_limit_s", "cpu_limit_s", "urgency"):
            with pytest.raises(UsageProblem, match=rf"is invalid.*{name}"):
                client.submit(replace(machine.draft("true"), **{name: float("inf")}))
        with pytest.raises(UsageProblem, match="a limit of 1000000000000"):
            client.submit(replace(machine.draft("true"), time_limit_s=1e12))
        with pytest.raises(UsageProblem, match=r"is invalid.*time_limit_s"):
            client.alter(Alter((waiting_job,), time_limit_s=float("nan")))
        with pytest.raises(UsageProblem, match=r"is invalid.*offset"):
            client.output(LogFile(f"{waiting_job}.0", 1, True, "", ""), "out").read(2**63)
        with pytest.raises(UsageProblem, match="no output of"):
            client.output(LogFile(f"{waiting_job}.0", 1, True, "", ""), "out").read(2**60)
        assert client.show(waiting_job).row.state == "held"
    assert (machine.pid("daemon"), machine.pid("launcher")) == (daemon, launcher)


def test_problems_as_documents(machine):
    done = machine.call("submit", "--json", "--time", "abc", "--", "true")
    assert done.returncode == ExitCode.USAGE
    assert done.stderr == ""
    assert '"error"' in done.stdout


def test_more_clients_than_the_daemon_talks_to(machine):
    with ExitStack() as others:
        for _ in range(LimitsSection().connections):
            other = others.enter_context(socket.socket(socket.AF_UNIX))
            other.connect(machine.paths.daemon_socket)
        line = complaint(machine.call("status"), ExitCode.UNREACHABLE)
        assert "clients already" in line
    until(lambda: machine.call("status").returncode == 0, "room for one more")


# --- the state directory --------------------------------------------------------------------------


def up(installation, **options):
    """`iriai up --detach` as whoever runs the tests, since root has to bring it up."""
    return subprocess.run(
        [IRIAI, "up", "--detach"],
        env=installation.environment() | options,
        capture_output=True,
        text=True,
        check=False,
    )


def test_nobody_there(iriai):
    line = complaint(iriai.call("status"), ExitCode.UNREACHABLE)
    assert "no daemon is running" in line
    assert "iriai up" in line


def test_a_state_directory_in_use(machine, waiting_job):
    done = subprocess.run(
        [sys.executable, "-m", "iriai.daemon", "--state", machine.state],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.REFUSED
    [line] = done.stderr.splitlines()
    assert f"in use by process {machine.pid('daemon')}" in line
    again = up(machine)
    assert (again.returncode, again.stderr) == (0, "")
    assert "up already" in again.stdout
    with machine.client() as client:
        assert client.show(waiting_job).row.state == "held"


@pytest.mark.root
def test_a_state_directory_of_somebody_else(iriai, people):
    os.chown(iriai.state, people.eve.uid, people.eve.gid)
    line = complaint(up(iriai), ExitCode.NOT_ALLOWED)
    assert f"{iriai.state} belongs to user '{people.eve.name}'" in line
    assert list(iriai.state.iterdir()) == []


def test_a_directory_that_is_none_of_ours(iriai):
    (iriai.state / "thesis.tex").write_text("do not touch")
    line = complaint(up(iriai), ExitCode.REFUSED)
    assert "thesis.tex" in line
    assert [path.name for path in iriai.state.iterdir()] == ["thesis.tex"]


def test_a_state_directory_of_a_newer_version(iriai):
    iriai.start()
    iriai.stop_processes()
    identity = iriai.state / "state.json"
    text = identity.read_text()
    identity.write_text(json.dumps(json.loads(text) | {"version": 99}))
    line = complaint(up(iriai), ExitCode.REFUSED)
    assert "newer iriai" in line
    identity.write_text(text)
    assert up(iriai).returncode == 0


def test_a_broken_configuration(iriai):
    iriai.configure("[machine]\ncpus = many\n")
    line = complaint(up(iriai), ExitCode.USAGE)
    assert "iriai.toml" in line
    assert "line 2" in line
    iriai.configure("[machine]\ncpu = 4\n")
    line = complaint(up(iriai), ExitCode.USAGE)
    assert "there is no key machine.cpu; did you mean cpus?" in line
    iriai.configure("[machine]\ncpus = -1\n")
    assert "machine.cpus is -1" in complaint(up(iriai), ExitCode.USAGE)


@contextmanager
def stranger_at(path):
    """Something else that listens where the daemon would, and greets whoever comes."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o777)
    listener.listen()

    def serve():
        with suppress(OSError):
            while True:
                with listener.accept()[0] as connection:
                    connection.sendall(b"220 mail.example ready\r\n")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def test_a_socket_that_is_not_ours(iriai):
    with stranger_at(iriai.paths.daemon_socket):
        for words in (["status"], ["submit", "--", "true"], ["run", "--", "true"]):
            line = complaint(iriai.call(*words), ExitCode.UNREACHABLE)
            assert "is not a daemon of iriai" in line


def test_up_where_a_stranger_listens(iriai):
    iriai.start()
    iriai.stop_processes()
    with stranger_at(iriai.paths.daemon_socket):
        assert "is not the daemon of iriai" in complaint(up(iriai), ExitCode.UNREACHABLE)
    assert up(iriai).returncode == 0


def test_a_file_in_place_of_the_socket(iriai):
    file = Path(iriai.paths.daemon_socket)
    file.touch()
    file.chmod(0o666)
    assert "is not a socket" in complaint(iriai.call("status"), ExitCode.UNREACHABLE)
