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
from iriai.wire.reservations import EndReservation, Reserve, Reserved
from tests.endtoend.booking_stores import Kept, kept_by
from tests.endtoend.network import Network, Networked
from tests.support.waiting import until

pytestmark = pytest.mark.root

HOLD = (
    *("before-commit", "after-commit", "send-seeknodes", "send-nodesoffered"),
    *("send-book-held", "send-booked-held"),
)
"""In this order, of the home, of the broker, of the home, and of a node."""
CONFIRM = ("send-book-confirmed", "send-booked-confirmed")
"""Of the home, and of a node."""
CANCEL = ("before-commit", "after-commit", "send-unbook", "send-notbooked")
"""Of the home, and of a node."""
STEPS = (*((False, step) for step in (*HOLD, *CONFIRM)), *((True, step) for step in CANCEL))
"""Whether a reservation is cancelled, and where whoever comes there first dies."""
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


@pytest.mark.parametrize("kills", [len(STEPS), pytest.param(KILLS, marks=pytest.mark.soak)])
def test_whoever_dies_all_nodes_have_a_reservation_or_none(network, orders, kills, record_property):
    outcomes = []
    for is_cancelled, step in islice(cycle(STEPS), kills):
        home = whole(network)
        reservation = reserve(home) if is_cancelled else ""
        order = orders / step
        order.touch()
        told = None
        with suppress(Unreachable):
            told = cancel(home, reservation) if is_cancelled else reserve(home)
        until(lambda order=order: not order.exists(), f"the crash at {step}", wait_s=NOTICED_S)
        whole(network)
        kept = settled(network)
        kept.check()
        live = [str(named) for named, each in kept.reservations.items() if not each.is_over]
        assert told is None or live == [told] * bool(told), f"{step}: {told!r}, but {live}"
        outcomes.append(f"{step}: {told}, {live}")
        for each in live:
            cancel(home, each)
    record_property("outcomes", outcomes)


def reserve(home: Networked) -> str:
    """Ask for a reservation; return which is to be, if any."""
    start_s = time.time() + HOUR_S
    with home.client() as client:
        try:
            answer = client.ask(Reserve(start_s, start_s + HOUR_S, NODES))
        except Refused:
            return ""
    assert isinstance(answer, Reserved)
    return answer.id


def cancel(home: Networked, reservation: str) -> str:
    """Cancel a reservation; none is to be then."""
    with home.client() as client:
        client.ask(EndReservation(reservation))
    return ""


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
