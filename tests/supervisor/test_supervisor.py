"""The supervisor with stand-ins for launcher and daemon: real processes that do as little."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from iriai.model.paths import StatePaths
from iriai.model.problem import ExitCode
from iriai.supervisor.supervisor import retry_now
from iriai.system.exit_report import read_ending
from iriai.system.lock_file import lock_holder
from tests.support.waiting import is_gone, until

PROGRAM = """
import json, sys
from iriai.supervisor.supervisor import Plan, supervise
from iriai.model.paths import StatePaths
directory, launcher, daemon = json.loads(sys.argv[1])
sys.exit(supervise(Plan(StatePaths(directory), launcher, daemon)))
"""
SAY_WHO = "echo $$ $(cut -d' ' -f22 /proc/$$/stat) $(cat /proc/sys/kernel/random/boot_id) >&9"
LIVE = f'exec 9<> "$2"; flock 9; {SAY_WHO}; exec sleep 1000'
"""Hold the part's lock and live."""
SERVE = "printf 'started\n' | dd of=\"$1\" bs=1 seek=4096 conv=notrunc 2> /dev/null"
"""What a daemon says when it has begun to serve."""
CRASH = "echo it is broken >&2; exit 7"


class World:
    """A state directory with stand-ins that write down each life of theirs."""

    def __init__(self, directory: Path) -> None:
        self.paths = StatePaths(str(directory))
        Path(self.paths.log).mkdir()
        self._supervisors: list[subprocess.Popen] = []

    def supervise(self, launcher: str = LIVE, daemon: str = LIVE) -> subprocess.Popen:
        """Start a supervisor over stand-ins that run these shell scripts."""
        parts = [self._command("launcher", launcher), self._command("daemon", daemon)]
        plan = json.dumps([self.paths.directory, *parts])
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, plan], stderr=subprocess.PIPE)
        self._supervisors.append(process)
        return process

    def _command(self, name: str, script: str) -> list[str]:
        lives = f"{self.paths.directory}/{name}.lives"
        said = self.paths.end("daemon")
        return ["/bin/sh", "-c", f'echo $$ >> "$0"; {script}', lives, said, self.paths.lock(name)]

    def lives(self, name: str) -> list[int]:
        """The process ids that a part has had, in order."""
        try:
            text = Path(self.paths.directory, f"{name}.lives").read_text()
        except FileNotFoundError:
            return []
        return [int(line) for line in text.splitlines() if line]

    def life(self, name: str, number: int = 1) -> int:
        """The process id of the `number`th life of a part, once it began."""
        until(lambda: len(self.lives(name)) >= number, f"life {number} of the {name}")
        return self.lives(name)[number - 1]

    def says(self, **words: object) -> str:
        """A shell command by which the daemon's stand-in announces its end."""
        ending = {"exit_code": 0, "code": "", "message": "", "hint": "", "kill": False, **words}
        return f"echo '{json.dumps(ending)}' 1<> \"$1\""

    def log(self) -> str:
        """What the supervisors have written down so far."""
        try:
            return Path(self.paths.log_of("supervisor")).read_text()
        except FileNotFoundError:
            return ""

    def end(self) -> None:
        for process in self._supervisors:
            process.kill()
            process.wait()
            process.stderr.close()
        for pid in self.lives("launcher") + self.lives("daemon"):
            if not is_gone(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.end()


def test_a_part_that_is_killed_is_started_again(world):
    world.supervise()
    for name in ("daemon", "launcher"):
        first = world.life(name)
        os.kill(first, signal.SIGKILL)
        assert world.life(name, 2) != first
    assert not is_gone(world.life("daemon", 2))
    assert not is_gone(world.life("launcher", 2))


def test_what_dies_at_each_start_is_given_up_with_its_last_words(world):
    supervisor = world.supervise(daemon=CRASH)
    assert supervisor.wait() == ExitCode.INTERNAL
    problem = read_ending(world.paths.end("supervisor")).problem()
    assert problem.code == "daemon-does-not-start"
    assert "exit code 7" in problem.message
    assert "it is broken" in problem.hint
    assert "it is broken" in supervisor.stderr.read().decode()
    assert len(world.lives("daemon")) == 3
    assert is_gone(world.life("launcher"))


def test_a_launcher_that_does_not_start_takes_the_daemon_with_it(world):
    assert world.supervise(launcher=CRASH).wait() == ExitCode.INTERNAL
    assert read_ending(world.paths.end("supervisor")).code == "launcher-does-not-start"
    assert all(is_gone(pid) for pid in world.lives("daemon"))


def test_a_problem_at_the_first_start_ends_all_with_its_exit_code(world):
    says = world.says(exit_code=3, code="no-space", message="no space left", hint="free some")
    supervisor = world.supervise(daemon=f"{says}; exit 3")
    assert supervisor.wait() == ExitCode.REFUSED
    assert str(read_ending(world.paths.end("supervisor")).problem()) == "no space left; free some"
    assert len(world.lives("daemon")) == 1
    assert all(is_gone(pid) for pid in world.lives("launcher"))


def test_a_wanted_end_leaves_the_launcher(world):
    supervisor = world.supervise(daemon=world.says())
    assert supervisor.wait() == ExitCode.DONE
    assert len(world.lives("daemon")) == 1
    assert not is_gone(world.life("launcher"))


def test_a_launcher_that_is_to_end_too_is_not_started_again(world):
    daemon = f'{world.says(kill=True)}; until [ -e "$1.go" ]; do sleep 0.01; done'
    supervisor = world.supervise(daemon=daemon)
    until(lambda: read_ending(world.paths.end("daemon")), "the announcement")
    os.kill(world.life("launcher"), signal.SIGKILL)
    until(lambda: "launcher ended, as requested" in world.log(), "the log line")
    Path(world.paths.end("daemon") + ".go").touch()
    assert supervisor.wait() == ExitCode.DONE
    assert len(world.lives("launcher")) == 1


def test_when_the_supervisor_is_killed_the_next_one_takes_over(world):
    first = world.supervise()
    pids = [world.life("launcher"), world.life("daemon")]
    until(lambda: lock_holder(world.paths.lock("daemon")))
    first.kill()
    first.wait()
    assert not any(is_gone(pid) for pid in pids)
    second = world.supervise(daemon=world.says())
    os.kill(pids[0], signal.SIGKILL)
    assert world.life("launcher", 2) not in pids
    assert world.lives("daemon") == [pids[1]]
    os.kill(pids[1], signal.SIGKILL)
    assert second.wait() == ExitCode.DONE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_daemon_and_leaves_the_launcher(world, number):
    supervisor = world.supervise()
    daemon, launcher = world.life("daemon"), world.life("launcher")
    until(lambda: lock_holder(world.paths.lock("daemon")))
    supervisor.send_signal(number)
    assert supervisor.wait() == ExitCode.DONE
    assert is_gone(daemon)
    assert not is_gone(launcher)


def test_a_second_interrupt_kills_a_daemon_that_does_not_listen(world):
    supervisor = world.supervise(daemon="trap '' TERM; while :; do sleep 0.05; done")
    daemon = world.life("daemon")
    until(lambda: "daemon started" in world.log())
    supervisor.send_signal(signal.SIGINT)
    until(lambda: "ending the daemon" in world.log())
    supervisor.send_signal(signal.SIGINT)
    assert supervisor.wait() == ExitCode.DONE
    until(lambda: is_gone(daemon))


def test_a_second_supervisor_leaves_at_once(world):
    world.supervise()
    world.life("daemon")
    assert world.supervise().wait() == ExitCode.DONE
    assert len(world.lives("daemon")) == 1


def test_a_daemon_that_worked_before_is_tried_again_later_and_at_once_when_asked(world):
    found = world.supervise()
    world.life("daemon")
    until(lambda: lock_holder(world.paths.lock("daemon")))
    found.kill()
    found.wait()
    problem = world.says(exit_code=3, code="no-space", message="no space left", hint="free some")
    supervisor = world.supervise(daemon=f"{problem}; exit 3")
    until(lambda: "daemon found" in world.log())
    os.kill(world.life("daemon"), signal.SIGKILL)
    world.life("daemon", 2)
    until(lambda: "no space left; free some; next try" in world.log())
    assert retry_now(world.paths)
    world.life("daemon", 3)
    assert supervisor.poll() is None
    assert not is_gone(world.life("launcher"))


def test_a_daemon_that_served_is_no_failed_start(world):
    problem = world.says(exit_code=3, code="no-space", message="no space left", hint="free some")
    supervisor = world.supervise(daemon=f"{SERVE}; {problem}; exit 3")
    until(lambda: "no space left; free some; next try" in world.log())
    assert supervisor.poll() is None
    assert not is_gone(world.life("launcher"))


def test_an_ending_of_before_is_not_taken_for_the_new_daemons(world):
    assert world.supervise(daemon=world.says()).wait() == ExitCode.DONE
    assert world.supervise(daemon=CRASH).wait() == ExitCode.INTERNAL


def test_a_state_directory_that_is_gone_is_not_supervised_for_ever(world, tmp_path):
    supervisor = world.supervise(launcher=f"{LIVE.replace('exec ', '')}")
    until(lambda: lock_holder(world.paths.lock("daemon")))
    daemon = world.life("daemon")
    launcher = world.life("launcher")
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    os.kill(daemon, signal.SIGKILL)
    assert supervisor.wait() == ExitCode.INTERNAL
    assert "was removed while it was in use" in supervisor.stderr.read().decode()
    until(lambda: is_gone(launcher))


def test_nobody_is_asked_to_retry_where_no_supervisor_runs(world):
    assert not retry_now(world.paths)
