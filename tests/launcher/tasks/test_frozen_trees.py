"""A tree of 200 processes that is suspended again and again computes what one left alone does."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

import pytest

from iriai.launcher.contract.messages import Exit
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from tests.launcher.conftest import FREEZING
from tests.launcher.harness import Lab, Machine, Variant

pytestmark = pytest.mark.root
LEADERS, WORKERS = 19, 9
"""With a producer, its consumer and the root less than 200, with leaders that have ended more."""
TREE = """
import hashlib, os, sys, threading
rounds, leaders, workers = map(int, sys.argv[1:])
results, report = os.pipe()

def work(number):
    found = []
    def compute():
        value = str(number).encode()
        for _ in range(rounds): value = hashlib.sha256(value).digest()
        found.append(value)
    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
    os.write(report, number.to_bytes(4, "big") + found[0])
    os._exit(0)

def lead(first):
    own = []
    for number in range(first, first + workers):
        child = os.fork()
        if child == 0: work(number)
        own.append(child)
    if first // workers % 3 == 0: os._exit(0)  # its workers are orphans, each with a session
    for child in own: os.waitpid(child, 0)
    os._exit(0)

def carry():
    source, sink = os.pipe()
    if os.fork() == 0:
        os.close(source)
        with open(sink, "wb") as file:
            for number in range(200_000): file.write(number.to_bytes(4, "big") * 8)
        os._exit(0)
    os.close(sink)
    whole = hashlib.sha256()
    with open(source, "rb") as file:
        while piece := file.read(1 << 12): whole.update(piece)
    os.write(report, (1 << 30).to_bytes(4, "big") + whole.digest())
    os._exit(0)

if os.fork() == 0: carry()
for leader in range(leaders):
    if os.fork() == 0:
        if leader % 3 == 0: os.setsid()
        lead(leader * workers)
os.close(report)
with open(results, "rb") as file: rows = file.read()
pieces = sorted(rows[at:at + 36] for at in range(0, len(rows), 36))
print(len(pieces), hashlib.sha256(b"".join(pieces)).hexdigest())
"""
FROZEN_S = (0.0, 0.1)


class Plan(NamedTuple):
    """How often a tree is suspended."""

    times: int
    run_s: float
    """The longest time between two suspensions."""
    cpu_s: float
    """Of a tree, for each of them: it lasts longer than they take."""
    tolerance: float
    """Of the processor time: what the machine does else matters less in the long run."""


SHORT = Plan(30, 0.2, 0.3, 0.3)
LONG = Plan(int(os.environ.get("IRIAI_SUSPENSIONS") or 1000), 1.2, 1.5, 0.02)
"""To stop and wake a tree of 400 threads takes it 18 ms of processor time, 1.2 % of the rest."""


def rounds_for(cpu_s: float) -> int:
    """How often each worker hashes, for all to take so much processor time."""
    began_s, value, count = time.process_time(), b"", 200_000
    for _ in range(count):
        value = sha256(value).digest()
    rate = count / (time.process_time() - began_s)
    return int(rate * cpu_s / (LEADERS * WORKERS))


def start(lab: Lab, rounds: int, name: str) -> AttemptId:
    words = (str(each) for each in (rounds, LEADERS, WORKERS))
    return lab.launch(lab.python(TREE, *words, output=name))


def suspend_often(lab: Lab, tree: AttemptId, plan: Plan, chance: random.Random) -> None:
    for number in range(plan.times):
        time.sleep(chance.uniform(0.0, plan.run_s))
        assert tree not in lab.link.exits, f"it ended before suspension {number + 1}"
        assert lab.link.freeze(tree).is_complete
        time.sleep(chance.uniform(*FROZEN_S))
        lab.link.thaw(tree)


def end_of(lab: Lab, tree: AttemptId) -> Exit:
    while tree not in lab.link.exits:  # it may take longer than an answer
        time.sleep(0.05)
        lab.machine.wait_until_read(lab.link)
    return lab.link.exits[tree]


@pytest.mark.parametrize("variant", FREEZING[:4], ids=str)
@pytest.mark.parametrize(
    "plan", [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.soak)]
)
def test_it_ends_as_one_that_was_left_alone(
    new_machine: Callable[[Variant], Machine],
    variant: Variant,
    plan: Plan,
    record_property,
):
    seed = random.randrange(1 << 32)
    record_property("seed", seed)
    lab = Lab(new_machine(variant).start())
    rounds = rounds_for(plan.times * plan.cpu_s)
    alone, tree = start(lab, rounds, "alone"), start(lab, rounds, "suspended")
    lab.link.pid_of(tree)
    suspend_often(lab, tree, plan, random.Random(seed))
    first, second = end_of(lab, alone), end_of(lab, tree)
    assert (first.cause, second.cause) == (EndCause.COMPLETED, EndCause.COMPLETED)
    words = lab.read("alone").split()
    assert lab.read("suspended").split() == words
    assert int(words[0]) == LEADERS * WORKERS + 1
    record_property("cpu_s", (first.usage.cpu_s, second.usage.cpu_s))
    if variant.isolation != "none":  # else that of orphans is not counted
        assert second.usage.cpu_s == pytest.approx(first.usage.cpu_s, rel=plan.tolerance)
