"""Whoever dies at whichever step of a reservation: all its nodes have it, or none.

IRIAI_KILLS makes the long loop shorter. Each step of a machine is before a message of it leaves,
and what that rests on is durable; see launcher.system.crash_points.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from iriai.model.problem import Refused, Unreachable
from iriai.wire.reservations import EndReservation, ModifyReservation, Reserve, Reserved
from tests.endtoend.booking_stores import Kept, kept_by
from tests.endtoend.network import Network, Networked
from tests.support.waiting import until

pytestmark = pytest.mark.root

KILLS = int(os.environ.get("IRIAI_KILLS") or 50)
NODES = 3
HOUR_S = 3600.0
NOTICED_S = 120.0
SETTLED_S = 120.0


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
        made.add(name)
    try:
        yield made.start()
    finally:
        made.stop()


Live = list[tuple[str, int]]
"""What is reserved, and on how many nodes."""


def reserve(home: Networked, _: str = "") -> Live:
    """Ask for a reservation; return what is to be then."""
    start_s = time.time() + HOUR_S
    with home.client() as client:
        try:
            answer = client.ask(Reserve(start_s, start_s + HOUR_S, NODES))
        except Refused:
            return []
    assert isinstance(answer, Reserved)
    return [(answer.id, NODES)]


def modify(home: Networked, reservation: str) -> Live:
    """Ask for another end, and one node less."""
    end_s = time.time() + 4 * HOUR_S
    with home.client() as client:
        try:
            client.ask(ModifyReservation(reservation, end_wall_s=end_s, nodes=NODES - 1))
        except Refused:
            return [(reservation, NODES)]
    return [(reservation, NODES - 1)]


def cancel(home: Networked, reservation: str) -> Live:
    with home.client() as client:
        client.ask(EndReservation(reservation))
    return []


HOLD = (
    *("before-commit", "after-commit", "send-seeknodes", "send-nodesoffered"),
    *("send-book-held", "send-booked-held"),
)
"""In this order, of the home, of the broker, of the home, and of a node."""
CONFIRM = ("send-book-confirmed", "send-booked-confirmed")
"""Of the home, and of a node."""
FREE = ("send-unbook", "send-notbooked")
"""Of the home, and of a node."""
STEPS = (
    *((reserve, step) for step in (*HOLD, *CONFIRM)),
    *((cancel, step) for step in ("before-commit", "after-commit", *FREE)),
    *((modify, step) for step in (*HOLD, *CONFIRM, *FREE)),
)
"""What is asked of a home, and where whoever comes there first dies."""


@pytest.mark.parametrize("kills", [len(STEPS), pytest.param(KILLS, marks=pytest.mark.soak)])
def test_whoever_dies_all_nodes_have_a_reservation_or_none(network, orders, kills, record_property):
    outcomes = []
    for act, step in islice(cycle(STEPS), kills):
        home = whole(network)
        reservation = ""
        if act is not reserve:
            [(reservation, _)] = until(lambda home=home: reserve(home), "a reservation")
        order = orders / step
        order.touch()
        told = None
        with suppress(Unreachable):
            told = act(home, reservation)
        until(lambda order=order: not order.exists(), f"the crash at {step}", wait_s=NOTICED_S)
        whole(network)
        kept = settled(network)
        kept.check()
        live = [(str(of), len(r.nodes)) for of, r in kept.reservations.items() if not r.is_over]
        assert told is None or live == told, f"{act.__name__}, {step}: {told}, but {live}"
        outcomes.append(f"{act.__name__}, {step}: {told}, {live}")
        for reservation, _ in live:
            cancel(home, reservation)
    record_property("outcomes", outcomes)


def whole(network: Network) -> Networked:
    """Wait until all are there and see each other; return a home that is not the broker."""
    until(network.is_whole, "the return of all", wait_s=NOTICED_S)
    broker = network.machines["ume"].follows()
    return next(each for each in network.machines.values() if each.name != broker)


def settled(network: Network) -> Kept:
    """Wait until every home knows what is to be; return what all have then."""
    machines = network.machines.values()
    until(lambda: kept_by(machines).is_settled(), "all to be settled", 0.1, SETTLED_S)
    return kept_by(machines)
