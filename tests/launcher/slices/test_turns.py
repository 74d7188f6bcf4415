"""Tasks that take turns, in each way to freeze: by a switching process, and by signals."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from iriai.launcher.contract.messages import Terminate
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendReason
from iriai.model.time_slices import Cycle
from iriai.system.clock import steady_s
from tests.launcher.harness import Lab, until

USER, OWNER = SuspendReason.USER, SuspendReason.OWNER
NOTES = """
import os, sys, time
name = sys.argv[1] if len(sys.argv) > 1 else "notes"
out = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    os.write(out, b"%.6f\\n" % time.clock_gettime(time.CLOCK_BOOTTIME))
    time.sleep(0.002)
"""
"""Notes the steady time each 2 ms."""
QUANTUM_S = 0.25


def notes(lab: Lab, name: str) -> list[float]:
    path = lab.folder / name
    return [float(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def noting(lab: Lab, name: str, **more: object):
    """Start a task that notes the time."""
    return lab.launch(lab.python(NOTES.replace('"notes"', repr(name)), output="", **more))


def out_of_turn(moments: list[float], cycle: Cycle, mask: int, since_s: float) -> float:
    """The part of these moments that are not of its turn."""
    counted = [each for each in moments if each > since_s]
    assert counted, "it noted nothing"
    return sum(not cycle.is_turn(mask, each) for each in counted) / len(counted)


def has_noted(lab: Lab, name: str, since_s: float) -> bool:
    return any(each > since_s for each in notes(lab, name))


def test_two_tasks_take_turns(freezing_lab: Lab):
    lab = freezing_lab
    one, two = noting(lab, "one"), noting(lab, "two")
    until(lambda: notes(lab, "one") and notes(lab, "two"), "their first words")
    row_0_s = lab.link.set_cycle({one: 1, two: 2}, quantum_s=QUANTUM_S)
    settled_s = row_0_s + 2.0
    until(lambda: all(has_noted(lab, each, settled_s + 2.0) for each in ("one", "two")), "turns")
    cycle = Cycle(QUANTUM_S, 2, row_0_s)
    for name, mask in (("one", 1), ("two", 2)):
        print(name, out_of_turn(notes(lab, name), cycle, mask, settled_s), len(notes(lab,name)))
    both = [
        {cycle.slice_at(each) for each in notes(lab, name) if each > settled_s}
        for name in ("one", "two")
    ]
    assert both[0] | both[1]
    print(both)
