"""`iriai exec` between machines: where a client is, the job's home, and where the job runs."""

from __future__ import annotations

import random
import signal
import subprocess

import pytest

from iriai.model.problem import ExitCode
from tests.endtoend.installation import ended_afterwards
from tests.endtoend.network import Network
from tests.endtoend.terminal import Terminal
from tests.support.waiting import is_gone, until

pytestmark = pytest.mark.root

ON_TAKE = ("--requirements", 'Machine == "take"')
LINES = 20_000


@pytest.fixture(scope="module")
def network(people):
    made = Network(people.ann)
    made.bob = people.bob
    for name in ("ume", "take", "matsu"):
        made.add(name, cpus=2)
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def job(network):
    """A job of `ume` that runs on `take`; cancelled with the test."""
    ume = network.machines["ume"]
    name = ume.call("submit", *ON_TAKE, "--", "sleep", "600").stdout.strip()
    with ume.client() as client:
        until(lambda: client.show(name).row.state == "running", f"the start of {name}")
    yield name
    ume.call("cancel", name)


@pytest.fixture(params=["ume", "take", "matsu"])
def asker(request, network):
    """The machine of the client: the home, that of the job, and a third."""
    return network.machines[request.param]


@pytest.fixture
def stepping():
    """Starts `iriai exec` with pipes; ended with the test."""

    def start(machine, *words):
        started.append(machine.begin_call("exec", *words))
        return started[-1]

    with ended_afterwards() as started:
        yield start


def test_a_command_runs_where_the_job_does_and_prints_here(network, asker, job):
    script = f"echo $IRIAI_STATE >&2; seq {LINES}; exit 7"
    done = asker.call("exec", "--no-stdin", job, "--", "sh", "-c", script)
    assert (done.returncode, done.stderr) == (7, f"{network.machines['take'].state}\n")
    assert done.stdout.splitlines() == [*map(str, range(1, LINES + 1))]


def test_a_pipe_goes_there_and_back_whole(asker, job):
    content = random.Random(1).randbytes(8 << 20)
    done = subprocess.run(
        asker.command("exec", job, "--", "cat"),
        input=content,
        capture_output=True,
        cwd=asker.work,
        env=asker.environment(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == content


def test_a_terminal_there(asker, job):
    words = asker.command("exec", job, "--pty", "--", "sh")
    terminal = Terminal(words, asker.environment() | {"TERM": "dumb"}, asker.work)
    try:
        terminal.type("stty size; exit 3\n")
        terminal.expect("24 80")
        assert terminal.wait() == 3
    finally:
        terminal.close()


def test_ctrl_c_ends_it_there(asker, job, stepping):
    process = stepping(asker, job, "--", "sh", "-c", "echo $$; exec sleep 600")
    pid = int(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    until(lambda: is_gone(pid), "the end of the step")


def test_a_client_that_is_gone_ends_the_input(network, asker, job, stepping):
    name = f"over-{asker.work.parent.name}"
    over = network.machines["take"].work / name
    process = stepping(asker, job, "--", "sh", "-c", f"echo begun; cat; touch {over}")
    assert process.stdout.readline() == "begun\n"
    process.kill()
    until(over.exists, "the end of its input")


@pytest.mark.parametrize("killed", ["ume", "take", "matsu"])
def test_a_daemon_that_dies_and_comes_back_ends_no_step(network, job, stepping, killed):
    line = "while read word; do echo $word; done; exit 9"
    process = stepping(network.machines["matsu"], job, "--", "sh", "-c", line)
    process.stdin.write("one\n")
    process.stdin.flush()
    assert process.stdout.readline() == "one\n"
    machine = network.machines[killed]
    before = machine.kill("daemon")
    until(lambda: machine.pid("daemon") not in (None, before), "another daemon")
    process.stdin.write("two\n")
    process.stdin.flush()
    assert process.stdout.readline() == "two\n", process.stderr.read()
    process.stdin.close()
    assert process.wait() == 9
    until(network.is_whole, "all links")


def test_another_user_is_refused_wherever(network, asker, job):
    done = asker.call("exec", job, "--", "true", person=network.bob)
    assert done.returncode == ExitCode.NOT_ALLOWED
    assert "belongs to" in done.stderr


def test_what_the_home_refuses_is_refused_here(asker, job):
    done = asker.call("exec", f"{job}.0.5", "--", "true")
    assert done.returncode == ExitCode.NOT_FOUND
    assert "has no rank 5" in done.stderr


def test_a_job_of_no_member_is_not_found(asker):
    done = asker.call("exec", "oni-1", "--", "true")
    assert done.returncode == ExitCode.NOT_FOUND
    assert "no machine of this cluster is called oni" in done.stderr


# --- machines that may not speak for a user -------------------------------------------------------


@pytest.fixture(scope="module")
def wary(people):
    """A cluster in which the first machine alone speaks for its users elsewhere."""
    made = Network(people.ann, trusts_all=False)
    for name in ("ume", "take", "matsu"):
        made.add(name, cpus=2)
    try:
        yield made.start()
    finally:
        made.stop()


def test_a_machine_that_nobody_trusts_starts_no_steps_but_beside_its_own_seat(wary):
    ume = wary.machines["ume"]
    job = ume.call("submit", *ON_TAKE, "--", "sleep", "600").stdout.strip()
    with ume.client() as client:
        until(lambda: client.show(job).row.state == "running", f"the start of {job}")
    refused = wary.machines["matsu"].call("exec", job, "--", "true")
    assert refused.returncode == ExitCode.NOT_ALLOWED
    assert "matsu does not speak for" in refused.stderr
    beside = wary.machines["take"].call("exec", job, "--", "echo", "beside")
    assert (beside.stdout, beside.returncode) == ("beside\n", 0)
    at_home = ume.call("exec", job, "--", "echo", "at home")
    assert (at_home.stdout, at_home.returncode) == ("at home\n", 0)
    ume.call("cancel", job)
