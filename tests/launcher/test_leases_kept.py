"""What has a lease runs only as long as that lasts, whoever sleeps meanwhile."""

import os
import signal
import time

import msgspec
import pytest

from iriai.launcher.contract.messages import Launch, Prolong, StartOrder, Template
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.system.clock import steady_s
from tests.launcher.harness import Link, Machine, is_running, until

LEASE_S = 0.6
ENVIRONMENT = msgspec.msgpack.encode({"PATH": "/usr/bin:/bin"})


@pytest.fixture
def machine(plain_machine: Machine) -> Machine:
    return plain_machine.start()


def attempt(number: int, home: str = "ume") -> AttemptId:
    return AttemptId(home, number, 0, 1)


def launch(
    machine: Machine,
    link: Link,
    *attempts: AttemptId,
    lease_s: float | None = LEASE_S,
    leased_s: float | None = None,
    command: tuple[str, ...] = ("sleep", "600"),
) -> None:
    since_s = steady_s() if leased_s is None else leased_s
    template = Template(machine.spec(*command), ENVIRONMENT)
    orders = tuple(StartOrder(each, 0, (), lease_s, since_s) for each in attempts)
    link.send(Launch((template,), orders))


def test_a_task_is_killed_when_its_lease_is_over(machine: Machine):
    link = machine.attach()
    began_s = steady_s()
    stubborn = ("sh", "-c", "trap '' TERM; sleep 600 & wait; sleep 600")
    launch(machine, link, attempt(1), command=stubborn)
    pid = link.pid_of(attempt(1))
    end = link.exit_of(attempt(1))
    assert steady_s() >= began_s + LEASE_S
    assert end.cause is EndCause.LOST
    assert "lease expired" in end.message
    assert not is_running(pid)


def test_it_is_killed_although_no_daemon_is_there(machine: Machine):
    link = machine.attach()
    launch(machine, link, attempt(1))
    pid = link.pid_of(attempt(1))
    link.close()
    until(lambda: not is_running(pid), "the end of the lease")
    again = machine.attach()
    assert again.welcome is not None
    again.exits.update({end.attempt: end for end in again.welcome.ended})
    assert again.exit_of(attempt(1)).cause is EndCause.LOST


def test_a_renewed_lease_counts_from_when_it_was_asked(machine: Machine):
    link = machine.attach()
    launch(machine, link, attempt(1), attempt(2), lease_s=1.5)
    launch(machine, link, attempt(3, "take"), lease_s=1.5)
    pids = [link.pid_of(each) for each in (attempt(1), attempt(2), attempt(3, "take"))]
    time.sleep(0.7)
    asked_s = steady_s()
    link.send(Prolong("ume", asked_s))
    link.send(Prolong("ume", asked_s - 100))  # an answer that comes late shortens nothing
    assert link.exit_of(attempt(3, "take")).cause is EndCause.LOST
    assert is_running(pids[0])
    assert is_running(pids[1])
    for number in (1, 2):
        assert link.exit_of(attempt(number)).cause is EndCause.LOST
    assert steady_s() >= asked_s + 1.5


def test_without_a_lease_nothing_ends(machine: Machine):
    link = machine.attach()
    launch(machine, link, attempt(1), lease_s=None)
    launch(machine, link, attempt(2))
    pid = link.pid_of(attempt(1))
    link.exit_of(attempt(2))
    assert is_running(pid)


def test_what_is_ordered_after_its_lease_never_begins(machine: Machine):
    link = machine.attach()
    note = machine.work / "began"
    command = ("touch", str(note))
    launch(machine, link, attempt(1), leased_s=steady_s() - 10, command=command)
    assert link.exit_of(attempt(1)).cause is EndCause.LOST
    assert attempt(1) not in link.spawned
    assert not note.exists()


def test_a_launcher_that_was_stopped_ends_first_what_is_over_and_then_listens(machine: Machine):
    link = machine.attach()
    launch(machine, link, attempt(1))
    pid = link.pid_of(attempt(1))
    assert machine.process is not None
    os.kill(machine.process.pid, signal.SIGSTOP)
    # Queued meanwhile: a renewal that was asked in time, and one more task of the same age.
    leased_s = steady_s()
    link.send(Prolong("ume", leased_s))
    note = machine.work / "began"
    launch(machine, link, attempt(2), leased_s=leased_s, command=("touch", str(note)))
    time.sleep(LEASE_S + 0.2)
    assert is_running(pid)
    os.kill(machine.process.pid, signal.SIGCONT)
    for number in (1, 2):
        assert link.exit_of(attempt(number)).cause is EndCause.LOST
    assert not is_running(pid)
    assert not note.exists()
