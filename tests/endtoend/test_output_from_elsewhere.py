"""What a task prints on another machine, seen where it was handed in."""

import subprocess

import pytest

from iriai.model.problem import ExitCode, UsageProblem
from iriai.wire.requests import Jobs
from tests.endtoend.network import Network
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


def test_a_place_in_the_output_that_is_none_ends_no_daemon(network):
    ume = network.machines["ume"]
    ume.call("run", *ON_TAKE, "--no-stdin", "--name", "odd", "--", "echo", "odd")
    daemon = ume.pid("daemon")
    with ume.client() as client:
        [row] = client.jobs(Jobs(name="odd", finished=True))
        [file] = client.logs(row.id)
        assert client.read_output(file, "out", 2**40).content == b""
        for offset in (-1, 2**63 - 1, 2**63, 2**64 - 1):
            with pytest.raises(UsageProblem, match="offset"):
                client.read_output(file, "out", offset)
        until(lambda: client.read_output(file, "out", 0).content == b"odd\n", "what it printed")
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
        piece = client.read_output(file, "out", 0)
        assert (piece.content.splitlines()[-1], piece.problem) == (b"hidden", "")
    assert ume.pid("daemon") == daemon


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


def test_what_reads_from_a_pipe_waits_for_its_own_machine_and_why_says_so(network):
    ume = network.machines["ume"]
    with ume.client() as client:
        blocker = client.submit(ume.draft("sleep", "600", requirements='Machine == "ume"')).id
        until(lambda: client.show(blocker).row.state == "running", "it to run")
        reading = subprocess.Popen(
            ume.command("run", "--name", "reading", "--", "cat"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ume.work,
            env=ume.environment(),
        )
        until(lambda: client.jobs(Jobs(name="reading")), "it to be handed in")
        [row] = client.jobs(Jobs(name="reading"))
        until(lambda: why(client, row.id).keys() == {"ume", "take"}, "what the broker says")
        assert why(client, row.id)["take"] == "input-elsewhere"
        client.cancel([blocker])
    assert reading.communicate("read here\n")[0] == "read here\n"
    assert reading.returncode == 0


def why(client, job: str) -> dict[str, str]:
    return {reason.machine: reason.rule for reason in client.why(job).reasons}


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
