"""Whoever dies at whichever step from hold to start: a parallel task runs whole, or not at all.

IRIAI_KILLS makes the long loop shorter. Each step of a machine is before a message of it leaves,
and what that rests on is durable; see launcher.system.crash_points.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from iriai.model.problem import Unreachable
from iriai.wire.requests import Jobs
from tests.endtoend.network import Network, Networked
from tests.endtoend.rank_judge import RankJudge
from tests.support.waiting import until

pytestmark = pytest.mark.root

STEPS = (
    *("send-match", "send-run-held", "send-accepted-held", "send-run-confirmed"),
    *("send-accepted-confirmed", "send-run-started", "send-accepted-started"),
    *("after-launch-sent", "after-intent", "after-spawn"),
)
"""In this order, of the broker, the home, a seat's daemon and its launcher."""
KILLS = int(os.environ.get("IRIAI_KILLS") or 50)
RANKS = "10"
"""More than two machines of four cpus have."""
NOTICED_S = 120.0


@pytest.fixture
def orders(monkeypatch) -> Iterator[Path]:
    """Where a file orders a crash at the step of its name; whoever comes to it first takes it."""
    with TemporaryDirectory(prefix="iriai-orders-") as name:
        place = Path(name)
        place.chmod(0o777)
        monkeypatch.setenv("IRIAI_CRASH_AT", f"{place}/")
        yield place


@pytest.fixture
def network(person, orders):
    made = Network(person)
    for name in ("ume", "take", "matsu", "kiri"):
        made.add(name, cpus=4)
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.mark.parametrize("kills", [len(STEPS), pytest.param(KILLS, marks=pytest.mark.soak)])
def test_every_task_runs_whole_and_once(network, orders, kills, record_property):
    judge = RankJudge(network.machines["ume"])
    for step in islice(cycle(STEPS), kills):
        until(network.is_whole, "the return of all", wait_s=NOTICED_S)
        broker = network.machines["ume"].follows()
        home = next(each for each in network.machines.values() if each.name != broker)
        order = orders / step
        order.touch()
        _submit(home, judge)
        until(lambda order=order: not order.exists(), f"the crash at {step}", wait_s=NOTICED_S)
    until(network.is_whole, "the return of all", wait_s=NOTICED_S)
    with ExitStack() as stack:
        asked = []
        for home in network.machines.values():
            client = stack.enter_context(home.client())
            client.wait([row.id for row in client.jobs()])
            asked.append((client, [row.id for row in client.jobs(Jobs(finished=True))]))
        record_property("counted", judge.decide_all(asked))


def _submit(home: Networked, judge: RankJudge) -> None:
    """Hand in a job; its home may die before it has told that it has it, of an earlier one."""
    draft = home.draft(*judge.command(0.1), ranks=RANKS, output=os.devnull)
    with suppress(Unreachable), home.client() as client:
        client.submit(draft)
