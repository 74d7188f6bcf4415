"""The helper that waits: what it starts is as if a helper had been started for it."""

import os
import signal
import sys
from pathlib import Path

import pytest

from iriai.launcher.spawn.spawn import HELPER
from iriai.launcher.spawn.task_starter import REQUEST_BYTES_MAX, StarterLost, TaskStarter
from iriai.model.state import EndCause
from tests.launcher.conftest import IS_ROOT
from tests.launcher.harness import Machine, attempt, is_running, launch, until

FIRST, SECOND = attempt(1), attempt(2)
pytestmark = pytest.mark.skipif(
    not (IS_ROOT and Path(HELPER).exists()), reason="root's launcher has one, if it was compiled"
)


def helpers_of(machine: Machine) -> list[int]:
    """The helpers of the launcher that wait, and copies that are no task yet."""
    assert machine.process is not None
    pid = machine.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [each for each in map(int, children) if b"\0s=" in command_of(each)]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_one_helper_starts_all_and_tasks_are_children_of_the_launcher(plain_machine: Machine):
    machine = plain_machine.start()
    assert not helpers_of(machine)
    link = machine.attach()
    launch(link, machine.spec("sh", "-c", "echo $PPID; exec sleep 600"), FIRST)
    launch(link, machine.spec("true"), SECOND)
    assert link.exit_of(SECOND).cause is EndCause.COMPLETED
    until(lambda: machine.numbers("out"), "what the task prints")
    (helper,) = helpers_of(machine)
    assert machine.process is not None
    assert machine.numbers("out") == [machine.process.pid]
    descriptors = [os.readlink(each) for each in Path(f"/proc/{helper}/fd").iterdir()]
    assert len(descriptors) == 5, descriptors  # the standard ones, a socket, a pipe for failures


def test_a_helper_that_was_killed_costs_no_task(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.attach()
    for number in range(1, 5):
        launch(link, machine.spec("true"), attempt(number))
        assert link.exit_of(attempt(number)).cause is EndCause.COMPLETED
        for helper in helpers_of(machine):
            os.kill(helper, signal.SIGKILL)
            until(lambda pid=helper: not is_running(pid), "its end")
    assert not machine.has_ended


def test_it_ends_with_its_launcher(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.attach()
    launch(link, machine.spec("true"), FIRST)
    assert link.exit_of(FIRST).cause is EndCause.COMPLETED
    (helper,) = helpers_of(machine)
    os.kill(helper, signal.SIGTERM)  # of a whole session: without effect
    launch(link, machine.spec("true"), SECOND)
    assert link.exit_of(SECOND).cause is EndCause.COMPLETED
    assert helpers_of(machine) == [helper]
    machine.kill()
    until(lambda: not is_running(helper), "the end of the helper")


def test_what_is_too_long_for_a_message_is_started_too(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.attach()
    sizes = range(REQUEST_BYTES_MAX - 3000, REQUEST_BYTES_MAX + 100, 100)
    for size in sizes:
        launch(link, machine.spec("sh", "-c", "echo ${#1}", "sh", "x" * size), attempt(size))
        assert link.exit_of(attempt(size)).cause is EndCause.COMPLETED
    assert machine.output().split() == list(map(str, sizes))
    assert len(helpers_of(machine)) == 1


def test_empty_words_and_values_stay(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.attach()
    spec = machine.spec("sh", "-c", 'echo $# "<$1>" "<$2>" "<$E>" "${E-unset}"', "sh", "", "", "")
    launch(link, spec, FIRST, environment={"E": "", "PATH": os.environ["PATH"]})
    assert link.exit_of(FIRST).cause is EndCause.COMPLETED
    assert machine.output() == "3 <> <> <> \n"


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [(["a\0b"], {}), (["a"], {b"A=B": b""}), (["a"], {b"A": b"\0B=1"}), (["a"], {b"A\0": b""})],
)
def test_what_is_no_word_is_refused(arguments: list[str], environment: dict[bytes, bytes]):
    with pytest.raises(ValueError, match=r"null byte|illegal"):
        TaskStarter(HELPER).ask(arguments, environment, -1)


def test_one_that_ends_before_it_reads_has_started_nothing():
    starter = TaskStarter("/bin/false")
    assert not starter.ask(["true"], {}, -1) or starter.answer() is None
    assert not starter.ask(["true"], {}, -1)
    os.wait()
    assert not TaskStarter("/nonexistent").ask(["true"], {}, -1)


def test_answers_come_in_the_order_of_requests():
    starter = TaskStarter(HELPER)
    pids = []
    for count in (1, 1, 20):
        commands = [[HELPER, "k=", "--", "sh", "-c", f"exit {each}"] for each in range(count)]
        assert all(starter.ask(each, {b":PATH": b"/bin"}, -1) for each in commands)
        pids = [starter.answer() for _ in commands]
        assert len(pids) == count
        for status, pid in enumerate(pids):
            assert pid is not None
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status
    starter.close()
    os.wait()


def test_one_that_ends_between_request_and_answer_ends_the_launcher(tmp_path: Path):
    program = tmp_path / "program"
    program.write_text(
        f"#!{sys.executable} -IS\nimport os, sys\nos.read(int(sys.argv[1][2:]), 9)\n"
    )
    program.chmod(0o755)
    starter = TaskStarter(str(program))
    assert starter.ask(["true"], {}, -1)
    with pytest.raises(StarterLost):
        starter.answer()
    starter.close()
    os.wait()
