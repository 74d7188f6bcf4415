"""Daemon, launcher and the process that switches are killed while tasks take turns.

IRIAI_KILLS makes the long loop shorter.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from iriai.launcher.contract.messages import Discard
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.time_slices import SliceCycle
from tests.launcher.harness import Lab, Machine, is_running
from tests.launcher.slices.turning import (
    SHORT_S,
    begin,
    comes_to_stand,
    quantum_of,
    signal_switcher,
    switcher_of,
    take_turns,
)

KILLS = int(os.environ.get("IRIAI_KILLS") or 50)
VICTIMS = ("launcher", "switcher", "daemon")
MASKS = {"one": 1, "two": 2}


def start_turns(machine: Machine) -> tuple[Lab, list[AttemptId], SliceCycle]:
    """Two new tasks that take turns."""
    lab = Lab(machine)
    one, two = tasks = begin(lab, *MASKS)
    row_0_s = lab.link.set_cycle({one: 1, two: 2}, quantum_s=quantum_of(lab))
    cycle = SliceCycle(quantum_of(lab), 2, row_0_s)
    take_turns(lab, cycle, MASKS)
    return lab, tasks, cycle


def lose_launcher(lab: Lab, tasks: list[AttemptId]) -> None:
    """Kill it: nothing goes on that a process has switched, and the next one ends all."""
    machine, switches = lab.machine, bool(switcher_of(lab))
    pids = [lab.link.pid_of(each) for each in tasks]
    machine.kill()
    if switches:
        for name in MASKS:
            comes_to_stand(lab, name)
        assert all(map(is_running, pids))
    machine.start()
    assert not any(map(is_running, pids))
    link = machine.attach()
    ends = {end.attempt: end.cause for end in link.welcome.ended}
    assert ends == dict.fromkeys(tasks, EndCause.LOST)
    link.send(Discard(tuple(tasks)))
    machine.wait_until_read(link)


@pytest.mark.parametrize("kills", [3, pytest.param(KILLS, marks=pytest.mark.soak)])
def test_whoever_is_killed_nothing_is_lost_and_turns_go_on(
    new_freezing_machine: Machine, kills: int
):
    machine, chance = new_freezing_machine.start(), random.Random(kills)
    lab, tasks, cycle = start_turns(machine)
    for number in range(kills):
        victim = VICTIMS[number % 3] if kills <= len(VICTIMS) else chance.choice(VICTIMS)
        time.sleep(chance.uniform(0.0, 2 * SHORT_S))
        if victim == "launcher":
            lose_launcher(lab, tasks)
            lab, tasks, cycle = start_turns(machine)
        elif victim == "daemon":
            lab.link.close()
            lab.link = machine.attach()
            alive = {each.attempt: each for each in lab.link.welcome.alive}
            assert sorted(alive) == sorted(tasks)
            lab.link.spawned |= alive
        else:
            signal_switcher(lab, signal.SIGKILL)
        take_turns(lab, cycle, MASKS)
