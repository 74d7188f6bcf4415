"""An error of ours in what one task, event or child calls: it costs that, and no other task."""

from __future__ import annotations

import sys
from collections.abc import Callable

import msgspec
import pytest

from iriai.launcher.contract.messages import Defective, SampleAll
from iriai.launcher.tasks.parts import Defects
from iriai.model.state import EndCause
from tests.launcher.harness import Machine, attempt, launch

Broken = Callable[..., Machine]
ALWAYS = 1_000_000


@pytest.fixture
def broken(plain_machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Broken:
    """Starts a launcher in which that function raises, in its calls `first` to `last`."""

    def start(function: str, first: int = 1, last: int = ALWAYS) -> Machine:
        words = plain_machine.command()
        options = words[words.index("--state") :]
        broken = [function, str(first), str(last)]
        command = [sys.executable, "-m", "tests.launcher.defective", *broken, *options]
        monkeypatch.setattr(plain_machine, "command", lambda: command)
        return plain_machine.start()

    return start


def told(machine: Machine) -> str:
    return machine.log.read_text()


def test_what_keeps_a_limit_raises(broken: Broken):
    machine = broken("iriai.launcher.tasks.limit_monitor:LimitMonitor._sample")
    link = machine.attach()
    launch(link, machine.spec("sh", "-c", "until [ -e go ]; do sleep 0.01; done"), attempt(1))
    launch(link, machine.spec("sleep", "600", cpu_limit_s=0.1, output="other"), attempt(2))
    end = link.exit_of(attempt(2))
    assert (end.cause, end.message.split(" (")[0]) == (
        EndCause.FAILED,
        "an internal error of the launcher ended it",
    )
    (machine.work / "go").touch()
    assert link.exit_of(attempt(1)).cause == EndCause.COMPLETED
    assert "internal error 1 of this launcher, checking limits of ume-2" in told(machine)


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        ("iriai.launcher.tasks.task:RunningTask.exit", EndCause.FAILED),
        ("iriai.launcher.directories.scratch:Scratch.give_back", EndCause.COMPLETED),
    ],
)
def test_what_ends_a_task_raises(broken: Broken, function: str, cause: EndCause):
    machine = broken(function)
    link = machine.attach()
    for number in (1, 2):
        launch(link, machine.spec("true"), attempt(number))
        assert link.exit_of(attempt(number)).cause == cause
    assert "internal error 1 of this launcher" in told(machine)


@pytest.mark.parametrize("step", ["ready", "start"])
def test_what_starts_a_task_raises_for_one_of_several(broken: Broken, step: str):
    machine = broken(f"iriai.launcher.spawn.spawn:Spawner.{step}", first=2, last=2)
    link = machine.attach()
    launch(link, machine.spec("true"), *(attempt(1, index) for index in (1, 2, 3)), stdin=b"text")
    causes = [link.exit_of(attempt(1, index)).cause for index in (1, 2, 3)]
    assert causes == [EndCause.COMPLETED, EndCause.FAILED, EndCause.COMPLETED]
    assert "internal error 1 of this launcher, starting ume-1.2" in told(machine)


def test_what_signals_a_task_raises_once(broken: Broken):
    """The task is ended all the same, for the reason that it was to be."""
    machine = broken("iriai.launcher.tasks.tasks:_signal_main", last=1)
    link = machine.attach()
    launch(link, machine.spec("sleep", "600", time_limit_s=0.05), attempt(1))
    assert link.exit_of(attempt(1)).cause == EndCause.TIME_LIMIT
    assert "internal error 1 of this launcher, checking limits of ume-1" in told(machine)


def test_an_event_raises(broken: Broken):
    """The connection is closed, and the next one is served by the same launcher."""
    machine = broken("iriai.launcher.connection:BufferedSocket.receive", first=2, last=2)
    first = machine.attach()
    first.send(SampleAll())
    assert first.receive() is None
    link = machine.attach()
    launch(link, machine.spec("true"), attempt(1))
    assert link.exit_of(attempt(1)).cause == EndCause.COMPLETED
    assert "internal error 1 of this launcher, handling an event" in told(machine)


def test_a_daemon_is_told_how_many_there_were(broken: Broken):
    """The one that is there of each further one, and one that comes of all so far."""
    machine = broken("iriai.launcher.tasks.task:RunningTask.exit", last=2)
    link = machine.attach()
    assert link.welcome is not None
    assert link.welcome.defective is None
    for number in (1, 2, 3):
        launch(link, machine.spec("true"), attempt(number))
        link.exit_of(attempt(number))
        link.send(SampleAll())
        link.until(lambda n=number: len(link.sampled) == n, "an answer")
    assert link.told.count("Defective") == 2
    found = machine.link().attach().defective
    assert found is not None
    assert found.count == 2
    assert found.last.startswith("ZeroDivisionError at ")


def test_what_is_said_of_a_place_fits_its_field():
    defects = Defects()
    defects.record("a test", type("X" * 5_000, (Exception,), {})())
    found = defects.so_far()
    assert found is not None
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=Defective) == found
    assert defects.news() is None
