"""Steps beside a running seat, with a real launcher."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from iriai.launcher.contract.messages import Discard, EndInput, Exit, StartStep, Terminate
from iriai.launcher.tasks.steps import ENDS_MAX, LIVE_MAX
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from tests.launcher.harness import PYTHON, Lab, Machine, is_running, until


class Seat:
    """A task that sleeps, and steps beside it."""

    def __init__(self, lab: Lab, **more: object) -> None:
        self.lab, self.link = lab, lab.link
        self.id = lab.launch(lab.spec("sh", "-c", "echo $$ > main; exec sleep 600", **more))
        lab.wait_for("main")
        self.pid = int(lab.read("main"))
        self._number = 0

    def step(
        self, *command: str, kind: Interaction = Interaction.STREAM, number: int = 0, **more: object
    ) -> AttemptId:
        self._number += 1
        step = self.id.of_step(number or self._number)
        self.link.send(StartStep(step, 0, command, kind, **more))  # type: ignore[arg-type]
        return step

    def run(self, *command: str, **more: object) -> tuple[Exit, str, str]:
        step = self.step(*command, **more)  # type: ignore[arg-type]
        end = self.link.exit_of(step)
        kinds = self.link.ends.get(step, {})
        out, err = (
            self.link.printed(step, kind) if kind in kinds else "" for kind in ("out", "err")
        )
        return end, out, err

    def cancel(self, grace_s: float = 0.1) -> Exit:
        self.link.send(Terminate((self.id,), EndCause.CANCELLED, grace_s))
        return self.link.exit_of(self.id)


def test_a_step_has_streams_an_exit_code_and_the_environment_of_its_seat(lab: Lab) -> None:
    seat = Seat(lab)

    end, out, err = seat.run(
        "sh", "-c", "echo $IRIAI_JOB_ID; pwd; echo $TMPDIR; echo no >&2; exit 3"
    )

    assert (end.cause, end.exit_code, end.signal) == (EndCause.FAILED, 3, None)
    job, directory, tmp = out.split()
    environ = Path(f"/proc/{seat.pid}/environ").read_bytes().split(b"\0")
    assert job == f"{seat.id.home}-{seat.id.number}"
    assert directory == str(lab.folder)
    assert f"TMPDIR={tmp}".encode() in environ
    assert err == "no\n"
    assert is_running(seat.pid)
    seat.cancel()


def test_a_step_is_in_the_control_groups_of_its_seat_and_is_its_user(lab: Lab) -> None:
    seat = Seat(lab)
    groups = Path(f"/proc/{seat.pid}/cgroup").read_text()

    _, out, _ = seat.run("sh", "-c", "id -u; cat /proc/self/cgroup")

    uid, _, of_step = out.partition("\n")
    assert int(uid) == lab.machine.uid
    assert of_step == groups
    seat.cancel()


def test_it_reads_its_input_to_the_end(lab: Lab) -> None:
    seat = Seat(lab)
    step = seat.step("cat", takes_input=True)
    lab.link.until(lambda: step in lab.link.ends, "its streams")
    descriptor = lab.link.ends[step].pop("in")
    os.write(descriptor, b"word\n")
    os.close(descriptor)
    lab.link.send(EndInput(step))

    assert lab.link.exit_of(step).cause is EndCause.COMPLETED
    assert lab.link.printed(step) == "word\n"
    seat.cancel()


def test_a_step_may_have_a_terminal(lab: Lab) -> None:
    seat = Seat(lab)
    kind, window = Interaction.TERMINAL, (30, 90)
    step = seat.step(
        "sh", "-c", "stty size; echo $TERM", kind=kind, window=window, terminal="vt220"
    )

    assert lab.link.exit_of(step).exit_code == 0
    assert lab.link.printed(step, "tty").split() == ["30", "90", "vt220"]
    seat.cancel()


def test_the_end_of_a_seat_ends_its_steps(lab: Lab) -> None:
    seat = Seat(lab)
    step = seat.step("sh", "-c", "trap '' TERM; echo $$ > stepped; while :; do sleep 1; done")
    pid = int(lab.wait_for("stepped"))

    seat.cancel(grace_s=0.2)

    assert lab.link.exits[step].cause is EndCause.CANCELLED
    assert not is_running(pid)


def test_a_seat_that_completes_ends_its_steps(lab: Lab) -> None:
    seat = Seat(lab)
    step = seat.step("sh", "-c", "echo $$ > stepped; exec sleep 600")
    pid = int(lab.wait_for("stepped"))

    os.kill(seat.pid, signal.SIGKILL)

    assert lab.link.exit_of(seat.id).signal == signal.SIGKILL
    assert lab.link.exits[step].cause is EndCause.CANCELLED
    assert not is_running(pid)


def test_a_step_that_is_ended_leaves_its_seat_alone(lab: Lab) -> None:
    seat = Seat(lab)
    step = seat.step("sh", "-c", "sleep 600 & echo $! > child; trap '' TERM; wait; wait; sleep 600")
    child = int(lab.wait_for("child"))

    lab.link.send(Terminate((step,), EndCause.CANCELLED, 0.2, "by ann"))

    end = lab.link.exit_of(step)
    assert (end.cause, end.message) == (EndCause.CANCELLED, "by ann")
    until(lambda: not is_running(child), "the end of its child")
    assert is_running(seat.pid)
    seat.cancel()


def test_what_a_step_leaves_behind_ends_with_the_seat(lab: Lab) -> None:
    """As the daemons that mpirun starts through a remote shell do."""
    seat = Seat(lab)
    fork = """
import os, sys, time
if os.fork():
    sys.exit()
os.setsid()
with open("left.new", "w") as file:
    print(os.getpid(), file=file)
os.rename("left.new", "left")
time.sleep(600)
"""
    end, _, _ = seat.run(PYTHON, "-c", fork)
    left = int(lab.wait_for("left"))

    assert end.cause is EndCause.COMPLETED
    assert is_running(left)
    seat.cancel()
    until(lambda: not is_running(left), "its end")


def test_no_step_is_started_twice(lab: Lab) -> None:
    seat = Seat(lab)
    for _ in range(2):
        step = seat.step("sh", "-c", "echo once >> times", number=7)
        lab.link.exit_of(step)
        lab.link.exits.clear()
    lab.link.send(Discard((step,)))
    seat.step("sh", "-c", "echo once >> times", number=7)
    seat.run("true")

    assert lab.read("times") == "once\n"
    seat.cancel()


def test_a_program_that_is_not_there_is_told(lab: Lab) -> None:
    seat = Seat(lab)

    end, _, _ = seat.run("no-such-program")

    assert (end.cause, end.exit_code) == (EndCause.FAILED, 127)
    assert "no-such-program" in end.message
    seat.cancel()


def test_refused_without_a_seat_that_runs(lab: Lab) -> None:
    seat = Seat(lab)
    seat.cancel()

    end, _, _ = seat.run("true")

    assert end.cause is EndCause.REFUSED


def test_a_seat_has_so_many_steps_at_a_time(plain_machine: Machine) -> None:
    lab = Lab(plain_machine.start())
    seat = Seat(lab)
    steps = []
    for _ in range(LIVE_MAX):  # one descriptor each, of the 1,024 that a test may have
        steps.append(seat.step("sleep", "600", kind=Interaction.TERMINAL))
        lab.link.until(lambda: steps[-1] in lab.link.ends, "its terminal")

    end, _, _ = seat.run("true")

    assert end.cause is EndCause.REFUSED
    assert "LIVE_MAX" in end.message
    lab.link.send(Terminate((steps[0],), EndCause.CANCELLED, 0.0))
    lab.link.exit_of(steps[0])
    assert seat.run("true")[0].cause is EndCause.COMPLETED
    seat.cancel()
    assert set(steps) <= set(lab.link.exits)


def test_ends_that_nobody_stores_are_bounded(plain_machine: Machine) -> None:
    lab = Lab(plain_machine.start())
    seat = Seat(lab)
    for _ in range(ENDS_MAX + 3):
        seat.step()  # without a command it fails at once
    last = seat.run("true")[0].attempt
    other = lab.machine.attach()

    assert other.welcome is not None
    kept = [each.attempt for each in other.welcome.ended if each.attempt.step]
    assert len(kept) == ENDS_MAX
    assert kept[-1] == last
    other.send(Terminate((seat.id,), EndCause.CANCELLED, 0.0))
    other.exit_of(seat.id)


def test_a_daemon_that_comes_back_hears_of_steps(machine: Machine) -> None:
    lab = Lab(machine.start())
    seat = Seat(lab)
    running = seat.step("sh", "-c", "echo $$ > stepped; exec sleep 600")
    lab.wait_for("stepped")
    over, _, _ = seat.run("sh", "-c", "echo said")
    other = lab.machine.attach()

    assert other.welcome is not None
    assert running in [each.attempt for each in other.welcome.alive]
    assert over in other.welcome.ended
    assert set(other.ends[running]) == {"out", "err"}
    other.send(Terminate((seat.id,), EndCause.CANCELLED, 0.0))
    other.exit_of(seat.id)
