"""What a launcher finds when another one was there before it."""

import os
import signal

import pytest

from iriai.launcher.contract.messages import Discard, Exit, Launch, StartOrder, Template, Terminate
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from tests.launcher.harness import Machine, attempt, is_running, launch, until

FIRST = attempt(1)
NOTE = 'echo "$IRIAI_JOB_ID.$IRIAI_TASK_ID#$IRIAI_ATTEMPT" >> runs; '


def runs_of(machine: Machine) -> list[str]:
    path = machine.work / "runs"
    return path.read_text().split() if path.exists() else []


def ends_after_restart(machine: Machine) -> dict[AttemptId, Exit]:
    machine.start()
    return {end.attempt: end for end in machine.link().attach().ended}


def test_a_daemon_that_comes_back_is_told_what_runs_and_what_ended(machine: Machine):
    machine.start()
    link = machine.attach()
    launch(link, machine.spec("sleep", "600"), FIRST)
    launch(link, machine.spec("sh", "-c", "exit 4"), attempt(2))
    pid = link.pid_of(FIRST)
    ended = link.exit_of(attempt(2))
    link.close()
    welcome = machine.link().attach()
    assert [(alive.attempt, alive.pid) for alive in welcome.alive] == [(FIRST, pid)]
    assert welcome.ended == (ended,)
    assert welcome.pid == machine.process.pid


def test_an_end_is_told_again_until_it_is_forgotten(machine: Machine):
    machine.start()
    link = machine.attach()
    launch(link, machine.spec("true"), FIRST, attempt(2))
    link.exit_of(FIRST)
    link.exit_of(attempt(2))
    link.send(Discard((FIRST,)))
    machine.wait_until_read(link)
    machine.kill()
    assert list(ends_after_restart(machine)) == [attempt(2)]


def test_survivors_are_ended_and_only_then_reported_as_lost(machine: Machine):
    machine.start()
    link = machine.attach()
    text = NOTE + "sh -c 'echo $$ > child; sleep 600' & echo $$ > main; wait"
    launch(link, machine.spec("sh", "-c", text), FIRST)
    link.pid_of(FIRST)
    until(lambda: len(machine.numbers("child", "main")) == 2, "both processes")
    pids = machine.numbers("child", "main")
    machine.kill()
    assert all(map(is_running, pids))
    end = ends_after_restart(machine)[FIRST]
    assert not any(map(is_running, pids))
    assert (end.cause, end.exit_code, end.signal) == (EndCause.LOST, None, None)
    assert end.ended_wall_s >= end.started_wall_s
    assert runs_of(machine) == ["ume-1.0#1"]


def test_survivors_that_left_their_session_are_found(machine: Machine):
    machine.start()
    link = machine.attach()
    text = "setsid sh -c 'echo $$ > child; exec sleep 600' & wait"
    launch(link, machine.spec("sh", "-c", text), FIRST)
    until(lambda: machine.numbers("child"), "the child")
    (pid,) = machine.numbers("child")
    machine.kill()
    ends_after_restart(machine)
    assert not is_running(pid)


def test_other_processes_of_the_user_are_left_alone(machine: Machine):
    machine.start()
    link = machine.attach()
    launch(link, machine.spec("sleep", "600"), FIRST)
    link.pid_of(FIRST)
    bystander = machine.bystander()
    machine.kill()
    ends_after_restart(machine)
    assert is_running(bystander)


@pytest.mark.parametrize(
    ("step", "cause", "runs"),
    [
        ("after-intent", EndCause.LOST, (0,)),
        ("after-spawn", EndCause.LOST, (0, 1)),
        ("before-exit-journal", EndCause.LOST, (1,)),
        ("after-exit-journal", EndCause.COMPLETED, (1,)),
    ],
)
def test_a_crash_at_each_step_runs_nothing_twice(
    machine: Machine, step: str, cause: EndCause, runs: tuple[int, ...]
):
    machine.start(crash_at=step)
    link = machine.attach()
    launch(link, machine.spec("sh", "-c", NOTE), FIRST)
    assert machine.wait() == -signal.SIGKILL
    end = ends_after_restart(machine)[FIRST]
    assert end.cause is cause
    assert len(runs_of(machine)) in runs
    before = runs_of(machine)
    link = machine.attach()
    launch(link, machine.spec("sh", "-c", NOTE), FIRST)  # the daemon asks again: nothing happens
    assert link.exit_of(FIRST) == end
    assert runs_of(machine) == before
    launch(link, machine.spec("sh", "-c", NOTE), attempt(1, tries=2))
    assert link.exit_of(attempt(1, tries=2)).cause is EndCause.COMPLETED


def test_asking_again_for_what_runs_is_answered_and_does_nothing(machine: Machine):
    machine.start()
    link = machine.attach()
    spec = machine.spec("sh", "-c", NOTE + "sleep 600")
    launch(link, spec, FIRST)
    first = link.pid_of(FIRST)
    link.spawned.clear()
    launch(link, spec, FIRST)
    assert link.pid_of(FIRST) == first
    link.send(Terminate((FIRST,), EndCause.CANCELLED, 0.0))
    end = link.exit_of(FIRST)
    link.exits.clear()
    launch(link, spec, FIRST)
    assert link.exit_of(FIRST) == end
    assert len(runs_of(machine)) <= 1


def test_what_was_taken_back_at_once_never_runs(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.attach()
    template = Template(machine.spec("sh", "-c", NOTE), b"")
    order = Launch((template,), (StartOrder(FIRST, 0),))
    link.send_at_once(order, Terminate((FIRST,), EndCause.CANCELLED, 1.0), order)
    assert link.exit_of(FIRST).cause is EndCause.CANCELLED
    machine.wait_until_read(link)
    machine.kill()
    assert ends_after_restart(machine)[FIRST].cause is EndCause.CANCELLED
    assert runs_of(machine) == []


def test_what_was_forgotten_is_refused_even_by_the_next_launcher(machine: Machine):
    machine.start()
    link = machine.attach()
    spec = machine.spec("sh", "-c", NOTE)
    array = [attempt(2, index) for index in range(5)]
    launch(link, spec, FIRST, *array)
    for each in (FIRST, *array):
        link.exit_of(each)
    link.send(Discard((FIRST, *array)))
    for _ in range(2):
        machine.wait_until_read(link)
        link.exits.clear()
        launch(link, spec, FIRST, array[3])
        assert link.exit_of(FIRST).cause is EndCause.REFUSED
        assert link.exit_of(array[3]).cause is EndCause.REFUSED
        link.send(Discard((FIRST, array[3])))
        machine.wait_until_read(link)
        machine.kill()
        machine.start()
        link = machine.attach()
    assert len(runs_of(machine)) == 6
    launch(link, spec, attempt(3), attempt(2, 7), attempt(1, tries=2))
    for each in (attempt(3), attempt(2, 7), attempt(1, tries=2)):
        assert link.exit_of(each).cause is EndCause.COMPLETED


def test_after_a_reboot_nothing_is_searched_and_all_is_lost(plain_machine: Machine):
    machine = plain_machine
    machine.start()
    link = machine.attach()
    launch(link, machine.spec("sleep", "600"), FIRST)
    link.pid_of(FIRST)
    machine.kill()
    machine.replace_boot_id()
    assert ends_after_restart(machine)[FIRST].cause is EndCause.LOST


def test_a_torn_journal_is_read_up_to_the_tear(plain_machine: Machine):
    machine = plain_machine
    machine.start()
    link = machine.attach()
    launch(link, machine.spec("true"), FIRST)
    end = link.exit_of(FIRST)
    machine.kill()
    with machine.journal.open("ab") as journal:
        journal.write(b"\0\0\1\0torn")
    assert ends_after_restart(machine) == {FIRST: end}


def test_a_damaged_journal_is_an_error_that_says_where(plain_machine: Machine):
    machine = plain_machine
    machine.start()
    link = machine.attach()
    for number in range(3):
        launch(link, machine.spec("true"), attempt(number))
        link.exit_of(attempt(number))
    machine.kill()
    content = bytearray(machine.journal.read_bytes())
    content[40] ^= 1
    machine.journal.write_bytes(content)
    machine.start(wait=False)
    assert machine.wait() == 1
    assert "journal is damaged at byte" in machine.log.read_text()
    assert machine.journal.read_bytes() == content


def test_scripts_of_a_launcher_that_was_killed_are_removed(plain_machine: Machine):
    machine = plain_machine
    machine.start()
    link = machine.attach()
    launch(link, machine.spec("x"), FIRST, script=b"sleep 600", stdin=b"secret")
    link.pid_of(FIRST)
    folder = machine.state / "launcher" / "run"
    assert len(os.listdir(folder)) == 2
    machine.kill()
    machine.start()
    assert os.listdir(folder) == []
