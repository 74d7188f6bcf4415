"""What reservations cost in a whole cluster: as much as computing, or a part where nobody came."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.config.sections import ReservationsSection
from iriai.model.ids import Account, JobId, ReservationId
from iriai.model.job import JobSpec
from iriai.model.reservation import NO_SHOW_CHARGE, NO_SHOW_S, ReservationEnd
from iriai.model.resources import Resources
from iriai.policy.accounting.decay_rule import decay_of
from iriai.protocol.messages.effects import Part
from iriai.sim.faults.actions import KINDS, Happening
from iriai.sim.faults.user_requests import AskedReservation
from iriai.sim.world.machine_model import DEFAULTS, MachinePlan
from iriai.sim.world.network import NetworkPlan
from iriai.sim.world.work import SUCCESS, Work
from iriai.sim.world.world import World
from tests.sim.cluster import front, run, submit

AHEAD_S, HOUR_S, CPUS = 60.0, 3_600.0, 2
SLICES = 0.02
"""The part by which charges may differ: those of the last minute are not made yet."""
USERS = ("ann", "bob", "eve")


def laboratory(nodes: int = 2, no_show_s: float | None = NO_SHOW_S) -> World:
    configuration = replace(DEFAULTS, reservations=ReservationsSection(no_show_s=no_show_s))
    world = World(1, NetworkPlan(latency_s=0.0, jitter_s=0.0))
    of_front = {"parts": (Part.HOME, Part.BROKER), "configuration": configuration}
    world.add(MachinePlan("front", **of_front))
    for number in range(1, nodes + 1):
        of_node = {"parts": (Part.NODE,), "broker_at": "front", "configuration": configuration}
        world.add(MachinePlan(f"b{number}", Resources(CPUS, 1 << 30), **of_node))
    world.run_until(5.0)
    return world


def reserve(world: World, length_s: float, nodes: int) -> ReservationId:
    asked = AskedReservation("ann", AHEAD_S, length_s, nodes=nodes)
    happening = Happening(world.now_s, "reserve", "front", asked=asked)
    KINDS["reserve"](world, front(world), happening)
    run(world, 5.0)
    assert front(world).core.home.reservations.get(1).nodes
    return ReservationId("front", 1)


def usage_s(world: World, user: str) -> float:
    """What the machines have charged to an account."""
    fading = decay_of(DEFAULTS.order)
    return sum(
        fading.restored(row).at(machine.clock.at(world.now_s).wall_s)
        for name, machine in world.machines.items()
        if name != "front"
        for row in machine.core.node.ledger.rows()
        if row.account == Account("lab", user)
    )


def test_who_reserves_all_and_uses_nothing_pays_as_who_computes_as_long():
    idle, busy = laboratory(no_show_s=None), laboratory()
    reserve(idle, HOUR_S, 2)
    submit(busy, user="bob", tasks=4, run_s=HOUR_S)
    for world in (idle, busy):
        run(world, AHEAD_S + HOUR_S + 60.0)
    assert usage_s(busy, "bob") == pytest.approx(4 * HOUR_S, rel=SLICES)
    assert usage_s(idle, "ann") == pytest.approx(usage_s(busy, "bob"), rel=SLICES)


@pytest.mark.parametrize(
    ("length_s", "charged_s"),
    [(8 * HOUR_S, NO_SHOW_CHARGE * 8 * HOUR_S), (HOUR_S / 2, NO_SHOW_S)],
)
def test_who_does_not_come_pays_until_the_release_and_for_a_part_at_least(length_s, charged_s):
    world = laboratory()
    reserve(world, length_s, 2)
    run(world, AHEAD_S + NO_SHOW_S + 10.0)
    assert front(world).core.home.reservations.get(1).end is ReservationEnd.NO_SHOW
    assert usage_s(world, "ann") == pytest.approx(2 * CPUS * charged_s, rel=SLICES)


def test_a_sleep_is_no_use():
    world = laboratory()
    within = reserve(world, 8 * HOUR_S, 1)
    spec = JobSpec(
        Account("lab", "ann"), "ann", "job", ("sleep",), "/", Resources(1), reservation=within
    )
    assert world.submit("front", spec, Work(8 * HOUR_S, SUCCESS, cpu_part=0.0001)) is not None
    run(world, AHEAD_S + NO_SHOW_S + 120.0)
    assert front(world).core.home.reservations.get(1).end is ReservationEnd.NO_SHOW
    assert usage_s(world, "ann") >= NO_SHOW_CHARGE * CPUS * 8 * HOUR_S - 2 * NO_SHOW_S


def test_shares_stay_even_where_one_of_three_works_in_a_reservation():
    """Three nodes, 3,000 jobs: ann has one node reserved, bob and eve wait in the queue."""
    world = laboratory(nodes=3)
    within = reserve(world, 4 * HOUR_S, 1)
    jobs: list[JobId] = []
    for _ in range(1_000):
        for user in USERS:
            more = {"reservation": within} if user == "ann" else {}
            jobs.append(submit(world, user=user, run_s=20.0, **more))
    run(world, AHEAD_S)
    for _ in range(10):
        run(world, 1_000.0)
        used = [usage_s(world, user) for user in USERS]
        assert [each / sum(used) for each in used] == pytest.approx([1 / 3] * 3, abs=0.04)
    assert len(jobs) == 3_000
