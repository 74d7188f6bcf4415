"""Several clusters of one site: each knows its own machines, and of the others their gateways."""

from __future__ import annotations

import pytest

from iriai.cluster.member import ForParts
from iriai.model.ids import Account
from iriai.model.records import LedgerRow
from iriai.protocol.directory.entry_table import GATEWAYS_MAX, EntryTable
from iriai.protocol.messages.candidates import CANDIDATES_MAX
from iriai.protocol.messages.effects import Part, Send, UsageLearned
from iriai.protocol.messages.entries import SITE_WIDE, EntryKind
from iriai.protocol.messages.gossip import Locate
from iriai.protocol.messages.members import MemberState
from iriai.sim.world.clock import WALL_S
from iriai.sim.world.keyed_signatures import signed_document
from iriai.sim.world.peer_machines import DECAY
from tests.sim.peer_world import PeerWorld, WatchedPeer, Ways

CLUSTERS = ("east", "north", "west")
EACH = 6


def names(cluster: str) -> list[str]:
    return [f"{cluster}{number}" for number in range(EACH)]


def site(seed: int = 1, clusters: tuple[str, ...] = CLUSTERS, **ways) -> PeerWorld:
    """A site whose machines all joined through its first."""
    world = PeerWorld(seed, Ways(through_wire=True, **ways), needs_certificates=True)
    first = names(clusters[0])[0]
    for cluster in clusters:
        for name in names(cluster):
            add(world, name, cluster, [first])
            world.run_until(world.now_s + 0.5)
    return world


def add(world: PeerWorld, name: str, cluster: str, seeds: list[str], **more) -> None:
    seeds = [each for each in seeds if each != name]
    machine = world.add(name, seeds, cluster_name=cluster, **more)
    certificate = machine.peers.publisher._signer.certificate
    now = machine.clock.at(world.now_s)
    world.perform(machine, machine.member.publish(EntryKind.CERTIFICATE, certificate, now))


def table(world: PeerWorld, name: str) -> EntryTable:
    return world.machines[name].peers.table


def is_known(world: PeerWorld, clusters: tuple[str, ...] = CLUSTERS) -> bool:
    """Whether all know the machines of their cluster, and the gateways of all others."""
    return all(
        sorted(world.machines[name].peers.members) == [each for each in names(own) if each != name]
        and set(world.machines[name].peers.gateways.others) >= firsts(world, clusters, own)
        for own in clusters
        for name in names(own)
    )


def firsts(world: PeerWorld, clusters: tuple[str, ...], own: str) -> set[str]:
    """The first of the rank of all clusters but the own one."""
    others = [each for each in clusters if each != own]
    return {
        name
        for cluster in others
        for name in world.machines[names(cluster)[0]].member.site.candidates()
    }


def test_each_machine_knows_its_own_cluster_and_the_gateways_of_the_others():
    world = site()
    assert world.run_until_true(lambda: is_known(world), 200.0) is not None
    world.run_until(world.now_s + 200.0)
    assert is_known(world)
    for cluster in CLUSTERS:
        for name in names(cluster):
            for entry in table(world, name):
                assert entry.kind in SITE_WIDE or entry.cluster == cluster
            machine = world.machines[name]
            machine.peers.check()
            assert not machine.notices
            assert machine.peers.directory.is_gateway == (name in machine.member.site.candidates())


def test_all_agree_on_what_concerns_all():
    world = site()
    world.run_until(300.0)
    for cluster in CLUSTERS:
        checksums = {table(world, name).digest.checksum for name in names(cluster)}
        assert len(checksums) == 1
    assert len({each.peers.table.site_digest.checksum for each in world.up()}) == 1
    for cluster in CLUSTERS:
        of_it = world.machines["east0" if cluster != "east" else "west0"].peers.gateways.of(cluster)
        assert CANDIDATES_MAX <= len(of_it) <= GATEWAYS_MAX


def test_a_document_of_an_operator_reaches_all_clusters_within_seconds():
    world = site()
    world.run_until(200.0)
    machine = world.machines["west5"]
    document = signed_document(1, "oni", EntryKind.EJECT, 1, b"it lies", "lab")
    world.perform(machine, machine.member.submit(document, machine.clock.at(world.now_s)))
    took = world.run_until_true(lambda: all(each.documents for each in world.up()), 300.0)
    assert took is not None
    assert took < 230.0


def test_a_machine_that_changes_its_cluster_leaves_the_old_one():
    world = site()
    world.run_until(200.0)
    world.crash("west5")
    add(world, "west5", "east", ["west0"], incarnation=1_000)
    moved = world.machines["west5"]
    assert world.run_until_true(
        lambda: (
            len(moved.peers.members) == EACH
            and all("west5" in world.machines[name].peers.members for name in names("east"))
            and all(
                world.machines[name].takes_for("west5") in {MemberState.LEFT, None}
                for name in names("west")[:-1]
            )
        ),
        400.0,
    )
    assert not moved.notices


def test_halves_of_a_site_that_was_parted_for_long_find_each_other():
    world = site(clusters=("east", "west"))
    world.run_until(200.0)
    world.part(dict.fromkeys(names("east"), 1))
    away_s = 1.1 * 3600.0
    world.run_until(world.now_s + away_s)
    assert not world.machines["east0"].peers.gateways.others
    world.heal()
    healed_s = world.now_s
    assert world.run_until_true(lambda: is_known(world, ("east", "west")), healed_s + 1_800.0)


def test_a_lossy_network_only_delays():
    world = site(2, loss=0.1)
    assert world.run_until_true(lambda: is_known(world), 900.0) is not None


def test_a_machine_that_left_is_no_gateway_any_more():
    world = site()
    world.run_until(200.0)
    first = world.machines["west0"].member.site.candidates()[0]
    world.leave(first)
    gone = world.run_until_true(
        lambda: all(first not in each.peers.gateways.others for each in world.up()), 400.0
    )
    assert gone is not None


@pytest.mark.parametrize("knows", ["west3", "west0"])
def test_a_machine_of_another_cluster_is_found(knows):
    world = site()
    world.run_until(200.0)
    home = world.machines["east4"]
    now = home.clock.at(world.now_s)
    effects = home.member.locate(knows, now)
    asked = {each.machine for each in effects if isinstance(each, Send)}
    assert all(each.message == Locate(knows) and each.part is Part.DIRECTORY for each in effects)
    assert 1 <= len(asked) <= 2, "a gateway of each cluster, but the one that is sought"
    world.perform(home, effects)
    world.run_until(world.now_s + 2.0)
    assert [each.name for each in home.changes if each.name == knows]
    assert knows not in home.peers.members


def test_what_one_cluster_has_counted_the_others_learn():
    world = site()
    rows = tuple(LedgerRow(Account("lab", name), 50.0, WALL_S, 1, 10.0) for name in ("ann", "bob"))
    learned: dict[str, dict[Account, float]] = {}

    def hear(machine: WatchedPeer, event: ForParts) -> None:
        if isinstance(event, UsageLearned) and event.machine == "west/":
            its = learned.setdefault(machine.name, {})
            its |= {row.account: DECAY.restored(row).at(WALL_S) for row in event.rows}

    world.on_event = hear
    for name in names("west"):
        world.machines[name].member._counters = lambda: rows
    others = [name for cluster in ("east", "north") for name in names(cluster)]
    expected = {row.account: pytest.approx(50.0 * EACH, rel=0.01) for row in rows}
    assert world.run_until_true(
        lambda: all(learned.get(name) == expected for name in others), 3_600.0
    )
    assert not learned.keys() & set(names("west"))
    assert not any(each.notices for each in world.up())
