"""What a whole cluster makes of reservations that are used in part, or by nobody."""

from __future__ import annotations

import pytest

from iriai.model.ids import Account, ReservationId
from iriai.model.reservation import NO_SHOW_S, Reservation, ReservationEnd, ReservationState
from iriai.node.metering import SLICE_S
from iriai.policy.accounting.decay_rule import decay_of
from iriai.sim.faults.actions import KINDS, Happening
from iriai.sim.faults.checker import Checker
from iriai.sim.faults.user_requests import AskedReservation
from iriai.sim.world.machine_model import DEFAULTS
from iriai.sim.world.world import World
from tests.sim.cluster import causes, cluster, front, run, submit

AHEAD_S, LENGTH_S = 60.0, 3_600.0
ANN = ReservationId("front", 1)


@pytest.fixture
def world() -> World:
    """Ann has reserved both machines, of two cpus each, for an hour from the next minute on."""
    world = cluster(2)
    Checker(world)
    asked = AskedReservation("ann", AHEAD_S, LENGTH_S, nodes=2, users=("bob",))
    happens(world, "reserve", "front", asked=asked)
    run(world, 5.0)
    assert reservation(world).state is ReservationState.CONFIRMED
    return world


def happens(world: World, kind: str, machine: str, **fields) -> None:
    KINDS[kind](world, world.machines[machine], Happening(world.now_s, kind, machine, **fields))


def reservation(world: World) -> Reservation:
    return front(world).core.home.reservations.get(1)


def usage_s(world: World, user: str) -> float:
    """What the machines have charged to an account."""
    account = Account("lab", user)
    fading = decay_of(DEFAULTS.order)
    return sum(
        fading.restored(row).at(machine.clock.at(world.now_s).wall_s)
        for machine in (world.machines["b1"], world.machines["b2"])
        for row in machine.core.node.ledger.rows()
        if row.account == account
    )


def test_nobody_comes_and_others_have_the_machines_again(world):
    waiting = submit(world, user="ann", run_s=10.0, reservation=ANN, held=True)
    run(world, AHEAD_S + NO_SHOW_S + 10.0)
    assert reservation(world).end is ReservationEnd.NO_SHOW
    assert waiting.number not in front(world).core.home.jobs
    assert not world.machines["b1"].store.bookings
    other = submit(world, user="bob", run_s=10.0)
    run(world, 15.0)
    assert causes(world, other) == ["completed"]


def test_whoever_reserved_pays_for_what_others_do_not_use(world):
    submit(world, user="bob", run_s=1_000.0, reservation=ANN)
    run(world, AHEAD_S + LENGTH_S + 10.0)
    assert reservation(world).end is ReservationEnd.ENDED
    bob_s, ann_s = usage_s(world, "bob"), usage_s(world, "ann")
    assert bob_s == pytest.approx(1_000.0, rel=0.02)
    assert bob_s + ann_s == pytest.approx(4 * LENGTH_S, rel=0.02)


def test_a_daemon_that_is_started_again_charges_no_second_twice(world):
    run(world, AHEAD_S)
    for _ in range(9):
        run(world, 90.0)
        happens(world, "daemon-dies", "b1", lasts_s=0.5)
    run(world, 30.0)
    lost_s = 2 * 9 * (SLICE_S + 1.0)
    assert reservation(world).end is None
    run(world, NO_SHOW_S)
    assert 4 * NO_SHOW_S - lost_s < usage_s(world, "ann") <= 4 * NO_SHOW_S + 10.0
