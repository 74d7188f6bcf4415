"""`iriai exec`: a command inside a running job."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.endtoend.installation import PYTHON, ended_afterwards, installed
from tests.endtoend.terminal import Terminal
from tests.support.waiting import is_gone, until

CONFIGURATION = """
[machine]
cpus = 8
[jobs]
kill_grace_s = 0.5
[limits]
descriptors_per_user = 6
"""


@pytest.fixture(scope="module")
def machine(person):
    with installed(person, CONFIGURATION) as installation:
        yield installation


@pytest.fixture
def job(machine):
    """The id of a job that runs, in whose environment WORD is set; cancelled with the test."""
    name = _submitted(machine, "--", "sleep", "600")
    until(lambda: _state(machine, name) == "running", f"the start of {name}")
    yield name
    machine.call("cancel", name)


@pytest.fixture
def stepping(machine):
    """Starts `iriai exec` with pipes; ended with the test."""

    def start(*words):
        started.append(machine.begin_call("exec", *words))
        return started[-1]

    with ended_afterwards() as started:
        yield start


def _submitted(machine, *words) -> str:
    return machine.call("submit", *words, WORD="of-the-job").stdout.strip()


def _state(machine, name) -> str:
    with machine.client() as client:
        return client.show(name).row.state


def test_a_command_runs_inside_the_job_and_its_output_comes_here(machine, job):
    line = "echo $IRIAI_JOB_ID $WORD; echo err >&2; exit 3"
    done = machine.call("exec", job, "--", "sh", "-c", line)
    assert (done.stdout, done.stderr, done.returncode) == (f"{job} of-the-job\n", "err\n", 3)
    assert _state(machine, job) == "running"


def test_it_has_the_control_group_of_the_task(machine, job):
    line = "cat /proc/self/cgroup; for p in /proc/[0-9]*; do cat $p/cgroup; done 2>/dev/null"
    done = machine.call("exec", job, "--", "sh", "-c", line)
    own, *rest = [each for each in done.stdout.splitlines() if "iriai" in each]
    assert own in rest


def test_standard_input_is_passed_on_to_its_end(machine, job):
    text = "".join(f"line {number}\n" for number in range(20_000))
    done = machine.call("exec", job, "--", "sh", "-c", "cat; echo over", stdin=text)
    assert done.stdout == text + "over\n"


def test_much_output_is_neither_lost_nor_mixed(machine, job):
    program = "import sys\nfor n in range(200_000): print(n)"
    done = machine.call("exec", job, "--", PYTHON, "-S", "-c", program)
    assert done.stdout == "".join(f"{n}\n" for n in range(200_000))


def test_output_comes_while_it_runs(stepping, job):
    process = stepping(job, "--", "sh", "-c", "echo first; read line; echo $line")
    assert process.stdout.readline() == "first\n"
    process.stdin.write("second\n")
    process.stdin.flush()
    assert process.stdout.readline() == "second\n"
    assert process.wait() == 0


def test_the_story_of_the_job_names_its_steps(machine, job):
    machine.call("exec", job, "--", "true")
    machine.call("exec", job, "--", "true")
    story = machine.call("story", job).stdout
    assert "job step 1, beside rank 0" in story
    assert "job step 2, beside rank 0" in story


def test_nothing_is_kept_of_a_step_whose_client_has_all(machine, job):
    machine.call("exec", job, "--", "echo", "word")
    spool = machine.state / "spool"
    until(lambda: not [each for each in os.listdir(spool) if "+" in each], "the end of its files")


def test_json_has_the_outcome(machine, job):
    done = machine.call("exec", job, "--json", "--", "sh", "-c", "echo word; exit 5")
    outcome = json.loads(done.stdout)
    assert (outcome["id"], outcome["cause"], outcome["exit_code"]) == (f"{job}.0#1+1", "failed", 5)
    assert done.stderr == "word\n"


@pytest.mark.parametrize(
    ("line", "code"),
    [("exit 7", 7), ("kill -KILL $$", 128 + signal.SIGKILL), ("exec no-such-program", 127)],
)
def test_the_exit_code_is_the_commands(machine, job, line, code):
    assert machine.call("exec", job, "--", "sh", "-c", line).returncode == code


def test_a_program_that_is_not_there(machine, job):
    done = machine.call("exec", job, "--", "no-such-program")
    assert done.returncode == 127
    assert "no-such-program" in done.stderr


def test_the_end_of_the_job_ends_it(machine, job, stepping):
    process = stepping(job, "--", "sh", "-c", "echo begun; exec sleep 600")
    assert process.stdout.readline() == "begun\n"
    machine.call("cancel", job)
    assert process.wait() == 130
    assert "the attempt beside which it ran has ended" in process.stderr.read()


def test_ctrl_c_ends_the_step_and_not_the_job(machine, job, stepping):
    process = stepping(job, "--", "sh", "-c", "echo begun $$; exec sleep 600")
    pid = int(process.stdout.readline().split()[1])
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    until(lambda: is_gone(pid), "the end of the step")
    assert _state(machine, job) == "running"


def test_a_client_that_is_gone_ends_the_input(machine, job, stepping):
    process = stepping(job, "--", "sh", "-c", "echo begun; cat; echo over > over")
    assert process.stdout.readline() == "begun\n"
    process.kill()
    until((machine.work / "over").exists, "the end of its input")


def test_a_terminal(machine, job):
    environment = machine.environment() | {"TERM": "vt220"}
    command = machine.command("exec", "--pty", job, "--", "sh")
    terminal = Terminal(command, environment, machine.work)
    try:
        terminal.type("stty size; echo $TERM-$WORD; tty\n")
        terminal.expect("24 80")
        terminal.expect("vt220-of-the-job")
        terminal.expect("/dev/pts/")
        terminal.resize(30, 90)
        until(lambda: _has_size(terminal), "the new size")
        terminal.type("exit 4\n")
        assert terminal.wait() == 4
    finally:
        terminal.close()


def _has_size(terminal) -> bool:
    terminal.type("stty size; echo do''ne\n")
    return "30 90" in terminal.expect("done")


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("{job}.0.1", 4, "has no rank 1"),
        ("{job}.7", 4, "there is no task"),
        ("{job}999", 4, "there is no job"),
        ("oni-7", 4, "no machine of this cluster is called oni"),
        ("no job", 2, "is not a job, task or rank id"),
        ("{job}.0.9999999999", 2, "is not a job, task or rank id"),
    ],
)
def test_what_there_is_not_is_refused(machine, job, name, code, words):
    done = machine.call("exec", name.format(job=job), "--", "true")
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr


def test_a_job_that_waits_or_has_ended_has_no_steps(machine):
    waiting = _submitted(machine, "--hold", "--", "true")
    done = machine.call("exec", waiting, "--", "true")
    assert done.returncode == 3
    assert "does not run" in done.stderr
    machine.call("cancel", waiting)
    done = machine.call("exec", waiting, "--", "true")
    assert done.returncode == 3
    assert "has finished" in done.stderr


def test_of_several_tasks_that_run_one_is_named(machine):
    array = _submitted(machine, "--array", "1-2", "--", "sleep", "600")
    until(lambda: _state(machine, f"{array}.2") == "running", "the start of both")
    done = machine.call("exec", array, "--", "true")
    assert done.returncode == 2
    assert "2 tasks" in done.stderr
    line = "echo $IRIAI_TASK_ID"
    assert machine.call("exec", f"{array}.2", "--", "sh", "-c", line).stdout == "2\n"
    machine.call("cancel", array)


@pytest.mark.parametrize(
    "words", [["{job}"], ["--", "true"], ["{job}", "--no-such", "--", "true"], []]
)
def test_a_line_without_a_job_or_a_command_is_refused(machine, job, words):
    done = machine.call("exec", *[each.format(job=job) for each in words])
    assert done.returncode == 2


def test_a_user_has_no_more_steps_at_a_time_than_the_limit(machine, job, stepping):
    processes = [stepping(job, "--", "sh", "-c", "echo begun; cat") for _ in range(6)]
    assert [each.stdout.readline() for each in processes] == ["begun\n"] * 6
    done = machine.call("exec", job, "--", "true")
    assert done.returncode == 3
    assert "descriptors_per_user" in done.stderr
    processes[0].communicate("")
    assert until(lambda: machine.call("exec", job, "--", "true").returncode == 0, "room again")


# --- crashes --------------------------------------------------------------------------------------


def test_a_daemon_that_dies_and_comes_back_notices_nothing_of_a_step(machine, job, stepping):
    line = "echo $$ >> started; while read word; do echo $word; done; exit 9"
    process = stepping(job, "--", "sh", "-c", line)
    process.stdin.write("one\n")
    process.stdin.flush()
    assert process.stdout.readline() == "one\n"
    for number in range(3):
        killed = machine.kill("daemon")
        until(lambda killed=killed: machine.pid("daemon") not in (None, killed), "another daemon")
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        assert process.stdout.readline() == f"{number}\n"
    process.stdin.close()
    assert process.wait() == 9
    assert len((machine.work / "started").read_text().split()) == 1


def test_a_step_that_ends_while_the_daemon_is_away_has_its_end_and_output(machine, job, stepping):
    line = "echo begun; while [ -e go ]; do sleep 0.05; done; echo over; exit 6"
    go = machine.work / "go"
    go.touch()
    process = stepping(job, "--", "sh", "-c", line)
    assert process.stdout.readline() == "begun\n"
    machine.kill("daemon")
    go.unlink()
    assert process.wait() == 6
    assert process.stdout.read() == "over\n"


# --- in place of ssh ------------------------------------------------------------------------------


def _node(machine) -> str:
    with machine.client() as client:
        return client.welcome.home


@pytest.fixture
def agent(machine, job):
    """Calls `iriai remote-shell` as a task of the job would that has several ranks."""
    found = {
        "IRIAI_JOB_ID": job,
        "IRIAI_TASK_ID": "0",
        "IRIAI_NODELIST": _node(machine),
        "IRIAI_ADDRESSES": "10.9.8.7",
    }

    def call(*words, **more):
        return machine.call("remote-shell", *words, **(found | more))

    return call


def test_the_agent_runs_a_line_of_a_shell_on_the_host_that_it_is_given(agent, job):
    done = agent("10.9.8.7", "echo $IRIAI_JOB_ID;", "echo", '"two  words";', "exit 3")
    assert (done.stdout, done.returncode) == (f"{job}\ntwo  words\n", 3)


def test_the_agent_takes_the_name_of_a_machine_too(machine, agent):
    assert agent(_node(machine), "--", "-x", "||", "echo", "-n", "word").stdout == "word"


def test_a_host_that_the_job_does_not_have_is_refused_with_those_that_it_has(agent):
    done = agent("10.1.1.1", "true")
    assert done.returncode == 3
    assert "the job has no ranks on 10.1.1.1; its hosts are 10.9.8.7" in done.stderr


def test_a_machine_without_a_seat_is_refused_by_the_home_too(machine, agent):
    done = agent("oni", "true", IRIAI_NODELIST="oni", IRIAI_ADDRESSES="oni")
    assert done.returncode == 3
    assert f"has no seat on oni; it has on {_node(machine)}" in done.stderr


def test_two_seats_on_one_host_are_refused(machine, agent):
    listed = f"{_node(machine)},other"
    done = agent("10.9.8.7", "true", IRIAI_NODELIST=listed, IRIAI_ADDRESSES="10.9.8.7,10.9.8.7")
    assert done.returncode == 3
    assert "are one host" in done.stderr


@pytest.mark.parametrize("words", [("ume", "true"), ("ume",), ()])
def test_outside_of_a_job_the_agent_says_so(machine, words):
    assert machine.call("remote-shell", *words).returncode == 2
