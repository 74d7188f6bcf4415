"""The list of pools: what they are and how loaded, also where machines say anything."""

from __future__ import annotations

from iriai.cluster.broker_questions import ClusterReply
from iriai.home.core import Home
from iriai.machine.core import Machine
from iriai.model.ad import MachineAd, machine_ad
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources
from iriai.reports.pools import (
    KINDS_MAX,
    known_pools,
    pools_of_site,
    pools_without_broker,
)
from iriai.wire.inquiries import decode_response, encode_response
from iriai.wire.machines import PoolKind, PoolRow, PoolTable
from tests.broker.lone_broker import LoneBroker
from tests.support.told import HOME

DRAINED = Reason(Rule.DRAINED, "to be resumed", "a new disk")


def ad(pool: str, processors: int = 8, **other) -> MachineAd:
    kind = {"Arch": "X86_64", "OpSysAndVer": "Debian12", "CpuModel": "EPYC"}
    return machine_ad(kind | {"DetectedCpus": processors, "Pool": pool} | other)


def machine_of(broker: LoneBroker) -> Machine:
    return Machine(HOME, None, Home(HOME, 1, ()), broker.broker)


def listed(broker: LoneBroker) -> PoolTable:
    """Return what crosses a link as it arrives there."""
    table = decode_response(encode_response(known_pools(machine_of(broker))))
    assert isinstance(table, PoolTable)
    return table


def test_machines_are_listed_by_pool():
    lone = LoneBroker()
    lone.tell(
        lone.idle(machine="b2", capacity=Resources(8), ad=ad("blade"), load=2.0, speed=1.5),
        lone.idle(machine="b1", capacity=Resources(8), ad=ad("blade"), load=1.0, speed=1.5),
        lone.idle(machine="d1", capacity=Resources(4), ad=ad("desk", 4), unavailable=DRAINED),
    )
    blade, desk = listed(lone).rows
    kind = PoolKind("X86_64", "Debian12", "EPYC", 8, 2)
    assert blade == PoolRow("blade", (kind,), ("b1", "b2"), 2, 16, 16, 3.0, 24.0)
    assert (desk.name, desk.available, desk.cpus, desk.free_cpus) == ("desk", 0, 4, 0)
    assert (desk.load, desk.speed) == (0.0, 0.0)


def test_a_pool_with_a_name_has_several_kinds_the_commonest_first():
    lone = LoneBroker()
    for number in range(2 * KINDS_MAX):
        lone.tell(lone.idle(machine=f"m{number}", ad=ad("all", max(8, number))))
    [row] = listed(lone).rows
    assert (row.kinds[0].processors, row.kinds[0].machines) == (8, 9)
    assert len(row.kinds) == KINDS_MAX
    assert len(row.machines) == 2 * KINDS_MAX


def test_machines_that_say_anything_do_not_keep_the_answer_from_being_read():
    lone = LoneBroker()
    says = {"Arch": "x" * 9_000, "DetectedCpus": -1, "CpuModel": 7, "OpSysAndVer": True}
    for name in ("m1", "m2"):
        fields = {"speed": 100.0, "load": 1e9, "ad": ad("liars", **says)}
        lone.tell(lone.idle(0, machine=name, capacity=Resources(8_192), **fields))
    lone.tell(lone.idle(machine="m3", ad=machine_ad({"Pool": "\n"})))
    silent, liars = listed(lone).rows
    assert (silent.name, silent.machines) == ("", ("m3",))
    assert silent.kinds == (PoolKind("", "", "", 0, 1),)
    assert liars.load == 2e9
    assert liars.kinds == (PoolKind("x" * 100, "True", "7", 0, 2),)


def test_pools_of_two_clusters_are_two_whatever_their_names():
    near = LoneBroker()
    near.tell(near.idle(machine="b1", ad=ad("blade")))
    far = LoneBroker()
    far.tell(far.idle(machine="f1", ad=ad("blade")))
    others = [ClusterReply("hill", listed(far)), ClusterReply("lake", None, "it is silent")]
    table = pools_of_site("vale", listed(near), others)
    assert [(row.cluster, row.name, row.machines) for row in table.rows] == [
        ("hill", "blade", ("f1",)),
        ("vale", "blade", ("b1",)),
    ]
    assert table.note == "cluster lake: it is silent"


def test_without_an_answer_of_the_broker_that_is_said():
    machine = Machine("ume", None, Home("ume", 1, ()), None, broker_at="take")
    table = pools_without_broker(machine, (0.0, 0.0), "take did not answer")
    assert table == PoolTable((), "take did not answer; it has the pools of other machines")
