"""What the next launcher does about tasks that were frozen when the one before them died.

IRIAI_KILLS makes the long loop shorter.
"""

from __future__ import annotations

import os
import signal
import time
from itertools import cycle, islice

import pytest

from iriai.launcher.contract.messages import Discard, Freeze, FreezeOrder
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendReason
from tests.launcher.harness import Machine, attempt, is_running, launch, until

STEPS = ("before-freeze", "after-freeze", "before-frozen-told")
KILLS = int(os.environ.get("IRIAI_KILLS") or 100)
SOON_S = 10.0
"""Within which a launcher is ready, whatever it finds."""
OWNER = (SuspendReason.OWNER,)
TREE = "sh -c 'echo $$ > child.new; mv child.new child; exec sleep 600' & echo $$ > main; wait"


def start_tree(machine: Machine, number: int):
    """Start a launcher and a task of two processes; returns the connection and their pids."""
    for name in ("child", "main"):
        (machine.work / name).unlink(missing_ok=True)
    link = machine.attach()
    launch(link, machine.spec("sh", "-c", TREE, output=""), attempt(number))
    link.pid_of(attempt(number))
    until(lambda: len(machine.numbers("child", "main")) == 2, "both processes")
    return link, machine.numbers("child", "main")


def next_ends(machine: Machine, number: int, pids: list[int]) -> None:
    """Start the next launcher: it is ready soon, and nothing is left."""
    began_s = time.monotonic()
    machine.start()
    assert time.monotonic() - began_s < SOON_S
    assert not any(map(is_running, pids))
    link = machine.link()
    ends = {end.attempt: end for end in link.attach().ended}
    assert ends[attempt(number)].cause is EndCause.LOST
    link.send(Discard((attempt(number),)))
    machine.wait_until_read(link)


def test_survivors_that_are_frozen_do_not_hold_up_the_next_launcher(new_freezing_machine: Machine):
    machine = new_freezing_machine.start()
    link, pids = start_tree(machine, 1)
    assert link.freeze(attempt(1)).is_complete
    machine.kill()
    assert all(map(is_running, pids))
    next_ends(machine, 1, pids)


def test_one_that_was_started_frozen_neither(new_freezing_machine: Machine):
    machine = new_freezing_machine.start()
    link = machine.attach()
    launch(link, machine.spec("sh", "-c", "echo > began; sleep 600"), attempt(1))
    link.send(Freeze((FreezeOrder(attempt(1), 1, OWNER),)))
    pid = link.pid_of(attempt(1))
    link.state_of(attempt(1), 1)
    machine.kill()
    next_ends(machine, 1, [pid])


@pytest.mark.parametrize("kills", [12, pytest.param(KILLS, marks=pytest.mark.soak)])
def test_a_launcher_may_die_at_each_step_of_a_freeze(new_freezing_machine: Machine, kills: int):
    machine = new_freezing_machine
    machine.start(crash_at=STEPS[0])
    for number, (step, thaws) in enumerate(
        islice(cycle((step, thaws) for step in STEPS for thaws in (False, True)), kills), 1
    ):
        machine.kill()
        machine.start(crash_at=step)
        link, pids = start_tree(machine, number)
        wanted = (OWNER, ()) if thaws else (OWNER,)
        orders = [Freeze((FreezeOrder(attempt(number), *each),)) for each in enumerate(wanted)]
        link.send_at_once(*orders)
        assert machine.wait() == -signal.SIGKILL
        next_ends(machine, number, pids)
