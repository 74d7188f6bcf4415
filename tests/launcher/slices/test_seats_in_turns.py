"""Ranks, steps and children of an attempt stop and go on with it; and what makes that hard."""

from __future__ import annotations

import os
import time
from pathlib import Path

from iriai.launcher.contract.messages import Launch, ParallelSeat, StartOrder, StartStep, Template
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from iriai.model.time_slices import SliceCycle
from tests.launcher.harness import Lab, launch, until
from tests.launcher.slices.turning import (
    NOTES,
    SHORT_S,
    begin,
    cancel,
    comes_to_stand,
    goes_on,
    never,
    quantum_of,
    take_turns,
)

RANK_NOTES = NOTES.replace('"notes"', '"rank-" + os.environ["IRIAI_RANK"]')
FORKS = """
import os
for number in range(2): os.fork()
while True:
    child = os.fork()
    if child == 0: os._exit(0)
    os.waitpid(child, 0)
"""
MANY = 100_000


def seat(lab: Lab, ranks: int, wanted: AttemptId) -> None:
    order = StartOrder(wanted, 0, parallel=ParallelSeat(ranks))
    template = Template(lab.python(RANK_NOTES, output=""), b"\x80")
    lab.link.send(Launch((template,), (order,)))


def test_all_ranks_take_the_turn_of_their_seat(turning_lab: Lab):
    lab = turning_lab
    wanted = lab.new_attempt()
    seat(lab, 3, wanted)
    row_0_s = lab.link.set_cycle({wanted: 2}, quantum_s=quantum_of(lab))
    names = {f"rank-{number}": 2 for number in range(3)}
    for name in names:
        goes_on(lab, name)
    take_turns(lab, SliceCycle(quantum_of(lab), 2, row_0_s), names)


def test_ranks_that_start_out_of_turn_execute_nothing_until_it_is(turning_lab: Lab):
    lab = turning_lab
    wanted = lab.new_attempt()
    never(lab, wanted)
    seat(lab, 40, wanted)  # more than are started before anything else is looked at
    lab.link.pid_of(wanted)
    time.sleep(0.3)
    assert list(lab.folder.glob("rank-*")) == []
    lab.link.set_cycle({}, rows=0)
    until(lambda: len(list(lab.folder.glob("rank-*"))) == 40, "all ranks")


def test_a_step_takes_the_turn_of_its_seat(turning_lab: Lab):
    lab = turning_lab
    task = lab.launch(lab.spec("sleep", "600", output=""))
    lab.link.pid_of(task)
    never(lab, task)
    step = task.of_step(1)
    command = lab.python(NOTES).command
    lab.link.send(StartStep(step, 0, command, Interaction.STREAM))
    time.sleep(0.3)
    assert not (lab.folder / "notes").exists()
    row_0_s = lab.link.set_cycle({task: 1}, quantum_s=quantum_of(lab))
    goes_on(lab)
    take_turns(lab, SliceCycle(quantum_of(lab), 2, row_0_s), {"notes": 1})
    never(lab, task)
    comes_to_stand(lab)
    assert cancel(lab, step).cause is EndCause.CANCELLED  # beside a seat that stands


def test_one_that_forks_all_the_time_is_switched_or_ended(turning_lab: Lab):
    lab = turning_lab
    forks = lab.launch(lab.python(FORKS, output=""))
    (neighbour,) = begin(lab, "notes")
    lab.link.pid_of(forks)
    row_0_s = lab.link.set_cycle({forks: 2, neighbour: 1}, quantum_s=quantum_of(lab))
    take_turns(lab, SliceCycle(quantum_of(lab), 2, row_0_s), {"notes": 1})
    if forks not in lab.link.exits:
        assert cancel(lab, forks).cause in (EndCause.CANCELLED, EndCause.FAILED)


def test_a_hundred_thousand_that_nobody_knows_change_nothing(turning_lab: Lab):
    lab = turning_lab
    (task,) = begin(lab, "notes")
    assert lab.machine.process is not None
    status = Path(f"/proc/{lab.machine.process.pid}/statm")
    peaks = []
    for number in range(4):
        strange = {AttemptId("matsu", number, each, 1): 1 for each in range(MANY)}
        lab.link.set_cycle({**strange, task: 0}, quantum_s=SHORT_S)
        lab.machine.wait_until_read(lab.link)
        peaks.append(int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    comes_to_stand(lab)
    assert peaks[-1] < peaks[0] + (64 << 20)  # the last order alone is kept
    lab.link.set_cycle({}, rows=0)
    goes_on(lab)


def test_hundreds_of_orders_in_a_row_leave_the_last(turning_lab: Lab):
    lab = turning_lab
    one, two = begin(lab, "one", "two")
    for number in range(300):
        masks = {one: number % 4, two: number % 3} if number % 5 else {}
        rows = number % 4
        lab.link.set_cycle(masks, quantum_s=0.1 + number / 100, rows=rows)
    row_0_s = lab.link.set_cycle({one: 1, two: 2}, quantum_s=quantum_of(lab))
    take_turns(lab, SliceCycle(quantum_of(lab), 2, row_0_s), {"one": 1, "two": 2})


def test_many_end_by_themselves_while_they_switch(turning_lab: Lab):
    lab = turning_lab
    tasks = [lab.new_attempt() for _ in range(60)]
    masks = {task: 1 << number % 2 for number, task in enumerate(tasks)}
    lab.link.set_cycle(masks, quantum_s=SHORT_S)
    launch(lab.link, lab.spec("sleep", "0.3", output=""), *tasks)
    for task in tasks:
        end = lab.link.exit_of(task)
        assert end.cause is EndCause.COMPLETED
        assert end.elapsed_s <= end.ended_wall_s - end.started_wall_s + 0.05
    assert lab.run("true").cause is EndCause.COMPLETED  # in a group that one of them had
