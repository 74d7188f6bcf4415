"""What a task prints on another machine, seen where it was handed in."""

import random
import subprocess

import pytest

from iriai.model.problem import ExitCode, UsageProblem
from iriai.model.submission import Interaction
from iriai.wire.requests import Jobs
from tests.endtoend.network import Network
from tests.endtoend.terminal import CTRL_C, CTRL_Z, SAYS_WHEN_IT_RUNS, Terminal
from tests.support.waiting import until

pytestmark = pytest.mark.root

ON_TAKE = ("--requirements", 'Machine == "take"')
LINES = 20_000


@pytest.fixture(scope="module")
def network(people):
    made = Network(people.ann)
    made.bob = people.bob
    made.add("ume", cpus=1)
    made.add("take", cpus=2)
    try:
        yield made.start()
    finally:
        made.stop()


def test_a_command_prints_here_what_it_prints_there(network):
    ume = network.machines["ume"]
    script = f"seq {LINES}; echo wrong >&2; echo last >>/dev/stdout; exit 7"
    done = ume.call("run", *ON_TAKE, "--no-stdin", "--", "sh", "-c", script)
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines() == [*map(str, range(1, LINES + 1)), "last"]
    assert done.stderr.splitlines() == ["wrong"]


def test_a_pipe_goes_there_and_back_whole(network):
    ume = network.machines["ume"]
    content = random.Random(1).randbytes(32 << 20)
    done = subprocess.run(
        ume.command("run", *ON_TAKE, "--", "cat"),
        input=content,
        capture_output=True,
        cwd=ume.work,
        env=ume.environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == content


def test_a_session_there(network):
    ume = network.machines["ume"]
    words = ume.command("run", *ON_TAKE, "--pty", "--env", "PS1=> ", "--", "bash", "--norc", "-i")
    terminal = Terminal(words, ume.environment(), ume.work)
    try:
        terminal.expect("> ")
        terminal.resize(50, 132)
        terminal.type("until [ \"$(stty size)\" = '50 132' ]; do sleep 0.1; done; echo res''ized\n")
        terminal.expect("resized")
        terminal.type(SAYS_WHEN_IT_RUNS)
        terminal.expect("\r\ngo\r\n")
        terminal.type(CTRL_Z)
        terminal.expect("Stopped")
        terminal.expect("> ")
        terminal.type("fg\n")
        terminal.expect("\r\non\r\n")
        terminal.type(CTRL_C)
        terminal.expect("> ")
        terminal.type("exit 3\n")
        assert terminal.wait() == 3
    finally:
        terminal.close()


def test_what_was_printed_there_is_kept_here(network):
    ume = network.machines["ume"]
    done = ume.call("run", *ON_TAKE, "--no-stdin", "--name", "kept", "--", "echo", "kept here")
    assert done.stdout == "kept here\n", done.stderr
    with ume.client() as client:
        [row] = client.jobs(Jobs(name="kept", finished=True))
        [attempt] = client.show(row.id).attempts
    assert attempt.machine == "take"
    network.switch.separate(["ume"], ["take"])
    try:
        assert ume.call("logs", row.id).stdout == "kept here\n"
    finally:
        network.switch.heal()
    other = ume.call("logs", row.id, person=network.bob)
    assert (other.returncode, other.stdout) == (ExitCode.NOT_ALLOWED, "")


@pytest.mark.parametrize("where", ["ume", "take"])
def test_what_a_command_has_printed_so_far_is_shown_while_it_runs(network, where):
    ume = network.machines["ume"]
    with ume.client() as client:
        draft = ume.draft(
            *("sh", "-c", "echo so far; echo wrong >&2; sleep 600; echo after"),
            interaction=Interaction.STREAM, output="", requirements=f'Machine == "{where}"',
        )  # fmt: skip
        job = client.submit(draft).id
        [file] = until(lambda: client.logs(job), "the start")
        until(lambda: client.output(file, "out").read(0).content, "what it printed")
        until(lambda: client.output(file, "err").read(0).content, "what it complained of")
        shown = ume.call("logs", job)
        client.cancel([job])
        client.wait([job])
    assert (shown.stdout, shown.stderr) == ("so far\n", "wrong\n")


def test_a_place_in_the_output_that_is_none_ends_no_daemon(network):
    ume = network.machines["ume"]
    ume.call("run", *ON_TAKE, "--no-stdin", "--name", "odd", "--", "echo", "odd")
    daemon = ume.pid("daemon")
    with ume.client() as client:
        [row] = client.jobs(Jobs(name="odd", finished=True))
        [file] = client.logs(row.id)
        assert client.output(file, "out").read(2**40).content == b""
        for offset in (-1, 2**63 - 1, 2**63, 2**64 - 1):
            with pytest.raises(UsageProblem, match="offset"):
                client.output(file, "out").read(offset)
        until(lambda: client.output(file, "out").read(0).content == b"odd\n", "what it printed")
    assert ume.pid("daemon") == daemon


def test_its_user_cannot_hide_what_the_daemon_keeps(network):
    ume = network.machines["ume"]
    script = "chmod 0 /proc/$$/fd/1; echo hidden"
    ume.call(
        *("run", "--requirements", 'Machine == "ume"', "--no-stdin", "--name", "hidden"),
        *("--", "sh", "-c", script),
    )
    daemon = ume.pid("daemon")
    with ume.client() as client:
        [row] = until(lambda: client.jobs(Jobs(name="hidden", finished=True)), "its end")
        [file] = client.logs(row.id)
        piece = client.output(file, "out").read(0)
        assert (piece.content.splitlines()[-1], piece.problem) == (b"hidden", "")
    assert ume.pid("daemon") == daemon


def test_a_directory_that_is_not_there_is_named(network):
    ume = network.machines["ume"]
    gone = ume.work / "gone"
    with ume.client() as client:
        draft = ume.draft("true", cwd=gone, requirements='Machine == "take"')
        [outcome] = client.wait([client.submit(draft).id])
    assert outcome.cause == "failed"
    assert str(gone) in outcome.message


def test_output_that_is_a_file_there_is_named_with_its_machine(network):
    ume = network.machines["ume"]
    with ume.client() as client:
        draft = ume.draft("echo", "there", requirements='Machine == "take"', output="there.txt")
        job = client.submit(draft).id
        client.wait([job])
        [file] = client.logs(job)
    assert (file.machine, file.is_fetched) == ("take", False)
    assert ume.call("logs", job).stdout == "there\n"  # these machines share their disk
    (ume.work / "there.txt").unlink()
    assert f"is on take, in {file.output}" in ume.call("logs", job).stderr


def test_it_comes_as_it_is_printed_and_the_daemon_here_may_be_killed_meanwhile(network):
    ume = network.machines["ume"]
    gate = ume.work / "gate"
    script = f"echo first; while [ ! -e {gate} ]; do sleep 0.1; done; echo second"
    running = subprocess.Popen(
        ume.command("run", *ON_TAKE, "--no-stdin", "--", "sh", "-c", script),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ume.work,
        env=ume.environment(),
    )
    assert running.stdout.readline() == "first\n"
    ume.kill("daemon")
    until(ume.answers, "the next daemon")
    gate.touch()
    assert running.communicate()[0] == "second\n"
    assert running.returncode == 0


@pytest.mark.parametrize("whose", ["ume", "take"])
def test_input_goes_on_where_a_killed_daemon_was(network, whose):
    ume = network.machines["ume"]
    until(network.is_whole, "the cluster, after an earlier kill")
    reading = subprocess.Popen(
        ume.command("run", *ON_TAKE, "--", "cat"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ume.work,
        env=ume.environment(),
    )
    reading.stdin.write("before\n")
    reading.stdin.flush()
    assert reading.stdout.readline() == "before\n"
    network.machines[whose].kill("daemon")
    reading.stdin.write("after\n")
    assert reading.communicate()[0] == "after\n"
    assert reading.returncode == 0
