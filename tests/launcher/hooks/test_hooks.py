"""Prolog and epilog: run by the launcher around each attempt, and what their failure does."""

import os
from pathlib import Path

import pytest

from iriai.launcher.contract.machine_config import MachineSettings, write_machine_file
from iriai.launcher.contract.messages import Discard, ShutDown, Terminate
from iriai.launcher.journal.journal import Intent, Intents, Journal, Owed
from iriai.model.ids import Account
from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from tests.launcher.harness import Link, Machine, attempt, is_running, launch, until


class Hooked:
    """A machine with hooks that write into files of its own."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.folder = machine.new_folder()
        self.story = self.folder / "story"

    def hook(self, name: str, text: str) -> str:
        """An executable script of whoever runs the launcher."""
        program = self.machine.programs / name
        program.write_text(f"#!/bin/sh\ncd {self.folder}\n{text}\n")
        program.chmod(0o755)
        if not self.machine.variant.is_privileged:
            os.chown(program, self.machine.uid, self.machine.gid)
        return str(program)

    def configure(self, prolog: str = "", epilog: str = "", timeout_s: float = 30.0) -> Link:
        """Have these hooks, from the next connection on, which is returned."""
        settings = MachineSettings(
            prolog=self.hook("prolog", prolog) if prolog else "",
            epilog=self.hook("epilog", epilog) if epilog else "",
            prolog_timeout_s=timeout_s,
            epilog_timeout_s=timeout_s,
        )
        write_machine_file(str(self.machine.state), settings)
        file = self.machine.state / "machine.json"
        if not self.machine.variant.is_privileged:
            os.chown(file, self.machine.uid, self.machine.gid)
        return self.machine.attach()

    def run(self, link: Link, number: int, text: str = "echo task >> story", **more: object):
        spec = self.machine.spec("sh", "-c", text, working_directory=str(self.folder), **more)
        launch(link, spec, attempt(number))

    def lines(self) -> list[str]:
        return self.story.read_text().splitlines() if self.story.exists() else []

    def pid_in(self, name: str) -> int:
        path = self.folder / name
        until(lambda: path.exists() and path.read_text().endswith("\n"), name)
        return int(path.read_text())


@pytest.fixture
def hooked(machine: Machine) -> Hooked:
    machine.start()
    made = Hooked(machine)
    made.folder.chmod(0o777)
    return made


@pytest.fixture
def plain_hooked(plain_machine: Machine) -> Hooked:
    plain_machine.start()
    made = Hooked(plain_machine)
    made.folder.chmod(0o777)
    return made


def test_prolog_task_epilog_in_this_order(hooked: Hooked):
    link = hooked.configure(
        "echo prolog $(id -u) >> story; chmod 666 story", "echo epilog >> story"
    )
    hooked.run(link, 1)
    end = link.exit_of(attempt(1))
    assert end.cause is EndCause.COMPLETED
    uid = 0 if hooked.machine.variant.is_privileged and os.geteuid() == 0 else hooked.machine.uid
    assert hooked.lines() == [f"prolog {uid}", "task", "epilog"]
    assert link.unfit == {}


def test_they_are_told_whose_attempt_it_is_and_how_it_ended(plain_hooked: Hooked):
    keep = "env | grep -E '^(IRIAI|CUDA)' | grep -v IRIAI_HOOK > "
    link = plain_hooked.configure(f"{keep} before", f"{keep} after")
    launch(link, plain_hooked.machine.spec("sh", "-c", "exit 3"), attempt(7, 2), gpu_ids=(1,))
    link.exit_of(attempt(7, 2))
    before = dict(
        each.split("=", 1)
        for each in (plain_hooked.folder / "before").read_text().split("\n")
        if each
    )
    after = dict(
        each.split("=", 1)
        for each in (plain_hooked.folder / "after").read_text().split("\n")
        if each
    )
    machine = plain_hooked.machine
    assert before == {
        "IRIAI_JOB_ID": "ume-7",
        "IRIAI_TASK_ID": "2",
        "IRIAI_ATTEMPT": "1",
        "IRIAI_USER": machine.user,
        "IRIAI_UID": str(machine.uid),
        "IRIAI_GID": str(machine.gid),
        "IRIAI_GROUP": "staff",
        "IRIAI_CPUS": "1",
        "CUDA_VISIBLE_DEVICES": "1",
    }
    assert after == before | {"IRIAI_CAUSE": "failed", "IRIAI_EXIT_CODE": "3", "IRIAI_SIGNAL": ""}


def test_what_they_say_is_in_the_launchers_log(plain_hooked: Hooked):
    link = plain_hooked.configure("echo all is well; echo nearly >&2")
    plain_hooked.run(link, 1)
    link.exit_of(attempt(1))
    log = plain_hooked.machine.log.read_text()
    assert "all is well" in log
    assert "nearly" in log


def test_a_prolog_that_fails_keeps_the_attempt_from_starting(hooked: Hooked):
    link = hooked.configure("exit 4", "echo epilog >> story")
    hooked.run(link, 1)
    end = link.exit_of(attempt(1))
    assert (end.cause, end.exit_code) == (EndCause.REFUSED, None)
    assert end.message.endswith("ended with exit code 4")
    assert link.unfit[attempt(1)].hook == "prolog"
    assert link.told[-2:] == ["HookFailed", "Exited"]
    assert hooked.lines() == []


def test_a_prolog_that_hangs_is_killed_with_all_it_started(hooked: Hooked):
    link = hooked.configure("sleep 600 & echo $! > pid; wait", timeout_s=0.5)
    hooked.run(link, 1)
    end = link.exit_of(attempt(1))
    assert end.cause is EndCause.REFUSED
    assert "took longer than 0.5 s" in end.message
    until(lambda: not is_running(hooked.pid_in("pid")), "the end of the prolog")
    assert hooked.lines() == []


def test_one_that_cannot_be_run_is_named(plain_hooked: Hooked):
    write_machine_file(str(plain_hooked.machine.state), MachineSettings(prolog="/no/such/prolog"))
    link = plain_hooked.machine.attach()
    plain_hooked.run(link, 1)
    end = link.exit_of(attempt(1))
    assert end.message == "prolog /no/such/prolog cannot be run: No such file or directory"
    assert end.cause is EndCause.REFUSED


def test_one_that_others_could_have_written_is_not_run(plain_hooked: Hooked):
    link = plain_hooked.configure("echo prolog >> story")
    (plain_hooked.machine.programs / "prolog").chmod(0o777)
    plain_hooked.run(link, 1)
    assert link.exit_of(attempt(1)).message.endswith("cannot be run: other users can write it")
    assert plain_hooked.lines() == []


def test_an_epilog_that_fails_leaves_the_end_as_it_is(hooked: Hooked):
    link = hooked.configure(epilog="exit 5")
    hooked.run(link, 1)
    end = link.exit_of(attempt(1))
    assert (end.cause, end.exit_code) == (EndCause.COMPLETED, 0)
    assert link.unfit[attempt(1)].message.endswith("ended with exit code 5")
    assert link.told[-2:] == ["HookFailed", "Exited"]


def test_an_attempt_whose_epilog_runs_counts_as_running(hooked: Hooked):
    link = hooked.configure(epilog="echo $$ > pid; while [ ! -e go ]; do sleep 0.02; done")
    hooked.run(link, 1)
    hooked.pid_in("pid")
    second = hooked.machine.link()
    welcome = second.attach()
    assert [each.attempt for each in welcome.alive] == [attempt(1)]
    assert welcome.ended == ()
    hooked.run(second, 1)  # ordered again: nothing is started, and its end is not told yet
    (hooked.folder / "go").touch()
    assert second.exit_of(attempt(1)).cause is EndCause.COMPLETED
    assert hooked.lines() == ["task"]


def test_a_cancel_ends_the_prolog_and_has_the_epilog_run(hooked: Hooked):
    link = hooked.configure("echo $$ > pid; sleep 600", "echo epilog >> story")
    hooked.run(link, 1)
    prolog = hooked.pid_in("pid")
    link.send(Terminate((attempt(1),), EndCause.CANCELLED, 5.0))
    assert link.exit_of(attempt(1)).cause is EndCause.CANCELLED
    until(lambda: not is_running(prolog), "the end of the prolog")
    assert hooked.lines() == ["epilog"]
    assert link.unfit == {}


def test_failures_are_told_again_until_the_end_is_forgotten(plain_hooked: Hooked):
    link = plain_hooked.configure("exit 1")
    plain_hooked.run(link, 1)
    link.exit_of(attempt(1))
    again = plain_hooked.machine.link()
    assert [each.attempt for each in again.attach().unfit] == [attempt(1)]
    again.send(Discard((attempt(1),)))
    plain_hooked.machine.wait_until_read(again)
    assert plain_hooked.machine.link().attach().unfit == ()


def test_a_killed_launcher_leaves_no_prolog_and_owes_its_epilogs(hooked: Hooked):
    link = hooked.configure(
        "[ $IRIAI_JOB_ID = ume-1 ] || { echo $$ > pid; exec sleep 600; }",
        "echo epilog $IRIAI_JOB_ID $IRIAI_CAUSE >> story",
    )
    hooked.run(link, 1, "sleep 600")
    link.pid_of(attempt(1))
    hooked.run(link, 2)
    prolog = hooked.pid_in("pid")
    hooked.machine.kill()
    hooked.machine.start()
    assert not is_running(prolog)
    link = hooked.machine.attach()
    assert link.exit_of(attempt(1)).cause is EndCause.LOST
    assert link.exit_of(attempt(2)).cause is EndCause.LOST
    assert sorted(hooked.lines()) == ["epilog ume-1 lost", "epilog ume-2 lost"]
    hooked.machine.kill()
    hooked.machine.start()
    assert hooked.machine.attach().welcome is not None
    assert len(hooked.lines()) == 2


def test_a_shut_down_waits_for_epilogs(hooked: Hooked):
    link = hooked.configure("true", "sleep 0.3; echo epilog >> story")
    hooked.run(link, 1, "sleep 600")
    link.pid_of(attempt(1))
    link.send(ShutDown())
    assert link.exit_of(attempt(1)).cause is EndCause.EVICTED
    assert hooked.lines() == ["epilog"]
    assert hooked.machine.wait() == 0


def test_many_prologs_run_at_a_time(plain_hooked: Hooked):
    link = plain_hooked.configure(
        "touch at-$IRIAI_JOB_ID; while [ $(ls | grep -c at-) -lt 20 ]; do sleep 0.02; done"
    )
    spec = plain_hooked.machine.spec("true")
    launch(link, spec, *(attempt(number) for number in range(20)))
    for number in range(20):
        assert link.exit_of(attempt(number)).cause is EndCause.COMPLETED


def test_a_stream_is_made_after_the_prolog(plain_hooked: Hooked):
    link = plain_hooked.configure("sleep 0.2")
    spec = plain_hooked.machine.spec("echo", "hello", interaction=Interaction.STREAM)
    launch(link, spec, attempt(1))
    assert link.printed(attempt(1)) == "hello\n"


def test_one_in_a_directory_that_others_can_write_is_not_run(plain_hooked: Hooked):
    link = plain_hooked.configure("echo prolog >> story")
    plain_hooked.machine.programs.chmod(0o1777)  # the bit does not keep what is made there later
    plain_hooked.run(link, 1)
    message = link.exit_of(attempt(1)).message
    assert f"other users can write {plain_hooked.machine.programs}, on the way to it" in message
    assert plain_hooked.lines() == []


def test_what_no_hook_may_be_told_costs_its_attempt_alone(plain_hooked: Hooked):
    link = plain_hooked.configure("true", "true")
    for number, more in enumerate(
        (
            {"working_directory": "/tmp/a\0b"},
            {"working_directory": "/" + 200_000 * "d"},
            {"account": Account("two\nlines", plain_hooked.machine.user)},
        )
    ):
        launch(link, plain_hooked.machine.spec("true", **more), attempt(number))
        end = link.exit_of(attempt(number))
        assert (end.cause, end.exit_code) == (EndCause.FAILED, 126), end.message
    plain_hooked.run(link, 9)
    assert link.exit_of(attempt(9)).cause is EndCause.COMPLETED
    assert link.unfit == {}


def test_an_epilog_that_an_older_launcher_owed_is_told_what_may_be_told_today(hooked: Hooked):
    hooked.configure(epilog="echo epilog $IRIAI_JOB_ID >> story")
    hooked.machine.kill()
    directory_fd = os.open(hooked.machine.journal.parent, os.O_RDONLY)
    journal = Journal(directory_fd)
    first = attempt(1)
    owed = {"PATH": "/bin:/usr/bin", "IRIAI_JOB_ID": "ume-1", "IRIAI_DIRECTORY": "/tmp/a\0b"}
    intent = Intent(first, hooked.machine.uid, -1, b"digest", 1.0)
    journal.append(Intents((intent,)), Owed(first, owed), sync=True)
    journal.close()
    os.close(directory_fd)
    hooked.machine.start()
    assert hooked.machine.attach().exit_of(first).cause is EndCause.LOST
    assert hooked.lines() == ["epilog ume-1"]


@pytest.mark.root
def test_hooks_have_the_rights_that_the_launcher_was_started_with(plain_machine: Machine):
    plain_machine.start()
    hooked = Hooked(plain_machine)
    link = hooked.configure(prolog="grep -E '^(Cap|NoNew)' /proc/self/status > rights")
    hooked.run(link, 1, "grep -E '^CapBnd' /proc/self/status > bounds")
    assert link.exit_of(attempt(1)).exit_code == 0
    own = [
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith(("Cap", "NoNew"))
    ]
    assert (hooked.folder / "rights").read_text().splitlines() == own
    assert int((hooked.folder / "bounds").read_text().split()[1], 16) == 0
