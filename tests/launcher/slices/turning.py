"""Tasks that note the time, and whether they take turns."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from iriai.launcher.contract.messages import Terminate
from iriai.launcher.slices.switcher import PROCESS_NAME
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.time_slices import SliceCycle
from iriai.system.clock import steady_s
from iriai.system.procfs import all_processes
from tests.launcher.harness import Lab, until

NOTES = """
import os, sys, time
out = os.open("notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    os.write(out, b"%.6f\\n" % time.clock_gettime(time.CLOCK_BOOTTIME))
    time.sleep(0.002)
"""
"""Notes the steady time each 2 ms."""
SHORT_S = 0.1
OUT_PART_MAX = 0.3
"""Loosely: on a busy machine a switch by signals is late. A task that takes no turns is at 0.5."""
WINDOW_SLICES = 4
"""The last slices that are looked at."""


def quantum_of(lab: Lab) -> float:
    """A slice that is long beside how late switches are where other tests keep processors busy.

    By signals the launcher switches itself, and that of an ordinary user waits for its turn.
    """
    machine = lab.machine
    is_exact = os.geteuid() == 0 and machine.variant.is_privileged
    return 0.2 if is_exact and machine.variant.isolation != "none" else 1.0


def notes(lab: Lab, name: str = "notes") -> list[float]:
    path = lab.folder / name
    return [float(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def switcher_of(lab: Lab) -> list[int]:
    """The process that switches for this launcher, if there is one."""
    assert lab.machine.process is not None
    launcher = lab.machine.process.pid
    children = [each.pid for each in all_processes() if each.parent == launcher and each.is_live]
    return [pid for pid in children if _name_of(pid) == PROCESS_NAME]


def _name_of(pid: int) -> str:
    path = Path(f"/proc/{pid}/comm")
    return path.read_text().strip() if path.exists() else ""


def signal_switcher(lab: Lab, number: signal.Signals) -> None:
    for pid in switcher_of(lab):
        os.kill(pid, number)


def never(lab: Lab, *tasks: AttemptId) -> None:
    """Give them no turn."""
    lab.link.set_cycle(dict.fromkeys(tasks, 0), quantum_s=SHORT_S)


def noting(lab: Lab, name: str, **more: object) -> AttemptId:
    """Start a task that notes the time."""
    return lab.launch(lab.python(NOTES.replace('"notes"', repr(name)), output="", **more))


def begin(lab: Lab, *names: str, **more: object) -> list[AttemptId]:
    """Start tasks that note the time, and see them at it."""
    tasks = [noting(lab, name, **more) for name in names]
    for name in names:
        goes_on(lab, name)
    return tasks


def goes_on(lab: Lab, name: str = "notes") -> None:
    """See it note something from now on."""
    now_s = steady_s()
    until(lambda: any(each > now_s for each in notes(lab, name)[-9:]), f"{name} going on")


def stands(lab: Lab, name: str = "notes") -> bool:
    """Whether it notes nothing for a while."""
    before = len(notes(lab, name))
    time.sleep(3 * SHORT_S)
    return len(notes(lab, name)) == before


def comes_to_stand(lab: Lab, name: str = "notes") -> None:
    until(lambda: stands(lab, name), f"{name} standing")


def take_turns(lab: Lab, cycle: SliceCycle, masks: dict[str, int]) -> None:
    """See these take their turns, and none out of it, in some last slices."""
    begun_s = steady_s()
    window_s = WINDOW_SLICES * cycle.quantum_s
    until(
        lambda: (
            steady_s() > begun_s + window_s
            and all(_takes_turns(lab, cycle, *each) for each in masks.items())
        ),
        "turns",
    )


def _takes_turns(lab: Lab, cycle: SliceCycle, name: str, mask: int) -> bool:
    now_s = steady_s()
    first = cycle.slice_at(now_s) - WINDOW_SLICES
    moments = [each for each in notes(lab, name) if each >= cycle.begin_s(first)]
    own = {cycle.slice_at(each) for each in moments if cycle.is_turn(mask, each)}
    wanted = [each for each in range(first, first + WINDOW_SLICES) if mask >> each % cycle.rows & 1]
    out = sum(not cycle.is_turn(mask, each) for each in moments)
    return own >= set(wanted) and out <= OUT_PART_MAX * len(moments)


def cancel(lab: Lab, task: AttemptId, grace_s: float = 0.0):
    lab.link.send(Terminate((task,), EndCause.CANCELLED, grace_s))
    return lab.link.exit_of(task)


def end_all(lab: Lab) -> None:
    """End all tasks of this daemon, none of which takes turns any more."""
    lab.link.set_cycle({}, rows=0)
    left = tuple(each for each in lab.link.spawned if each not in lab.link.exits)
    lab.link.send(Terminate(left, EndCause.CANCELLED, 0.0))
    for each in left:
        lab.link.exit_of(each)
