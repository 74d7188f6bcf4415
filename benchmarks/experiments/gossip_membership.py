"""Membership and directory of the product in a world of whole machines.

Machines of the clusters that gossip have a membership and a directory each. Their messages go
through the world's network and are counted there; the events for its parts are those that the same
core gives a daemon (`cluster.member`). They publish what daemons publish: what they are, their
certificate, and the ledger of their node. Those of other clusters are told by the stand-in
(`oracle_membership`), and so is who may speak for clusters that do not gossip with one's own.

At the beginning each has been there for a while: it holds what all published, at moments of their
own, so that what is published again comes spread over the time as it would.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments.open_network import OpenNetwork
from iriai.cluster.member import ForParts
from iriai.model.ids import Account
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay_rule import decay_of
from iriai.protocol.directory.entry_table import EntryTable
from iriai.protocol.directory.publisher import PACES, REFRESH
from iriai.protocol.ledger.ledger import BatchRow, LedgerBatch, batch_body
from iriai.protocol.ledger.ledger_sync import PUBLISH_S, pace_s
from iriai.protocol.messages.effects import (
    Delivered,
    LinkDown,
    LinkUp,
    MachineForgotten,
    Part,
    PeersChanged,
    Send,
    WakeAt,
)
from iriai.protocol.messages.entries import SITE_WIDE, Carried, EntryKind
from iriai.protocol.messages.members import Member, MemberState
from iriai.protocol.misbehaviour import Incidents
from iriai.protocol.sampling import some
from iriai.sim.world.keyed_signatures import KeyedSigner, KeyedVerifier
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.oracle_membership import OracleMembership
from iriai.sim.world.peer_machines import PeerMachine, PeerMachines
from iriai.sim.world.rng import generator
from iriai.sim.world.world import World

SITE = "lab"
"""The authority's cluster, to which the machines of all clusters belong."""
SEEDS = 64
"""Names that a machine keeps of the others, to begin with when it comes back (spec 006, 8)."""
ACCOUNTS = 10
"""That each machine ran something for, before the beginning: a batch is as long as it stays."""
EARLIER = tuple(
    LedgerRow(Account("lab", f"u{number}"), 1234.567 + number, 1_799_990_000.0, 7, 16_789.123)
    for number in range(ACCOUNTS)
)


class GossipMembers(OracleMembership):
    """The memberships and directories of a world of whole machines."""

    def __init__(self, world: World, network: OpenNetwork, clusters: frozenset[str]) -> None:
        """`clusters` are the names of those that gossip, all with each other."""
        super().__init__(world.agenda, world.seed, self._update_if_scripted)
        self._world = world
        self._network = network
        self._clusters = clusters
        self._rng = generator(world.seed, "gossip")
        self.peers = PeerMachines(world.seed, world.agenda, self._carry)
        self.peers.on_event = self._deliver
        network.on_arrival = self._arrives

    # --- what happens to machines ----------------------------------------------------------------

    def gathered(self) -> None:
        """Let the machines that gossip join with each other's entries, and report to all."""
        machines = [each for each in self._machines.values() if self._gossips(each)]
        refresh_s = PACES[EntryKind.MEMBER].lifetime_s * REFRESH
        ages_s = {each.plan.name: self._rng.random() * refresh_s for each in machines}
        for machine in machines:
            self._join(machine, ages_s[machine.plan.name])
        self._adopt_all()
        if len(self._clusters) > 1:  # the first of each published that they are its gateways
            self._adopt_all()
        for joined in self.peers.machines.values():
            self._count_within(joined, pace_s(len(self._of_clusters[self._cluster(joined)])))
        super().gathered()
        for machine in machines:
            self._update(machine)

    def _adopt_all(self) -> None:
        """Let all hold what concerns their cluster, each entry verified once."""
        seed, now_s = self._world.seed, self._world.now_s
        tables = {
            cluster: EntryTable("", SITE, KeyedVerifier(seed), Incidents(), cluster=cluster)
            for cluster in self._clusters
        }
        site_wide: list[Carried] = []
        for joined in self.peers.machines.values():
            entries = joined.peers.snapshot(now := joined.clock.at(now_s))
            site_wide += [each for each in entries if each.entry.kind in SITE_WIDE]
            tables[self._cluster(joined)].merge_all(entries, "", now)
        for table in tables.values():
            table.merge_all(site_wide, "", now)
        for joined in self.peers.machines.values():
            table, now = tables[self._cluster(joined)], joined.clock.at(now_s)
            self.peers.perform(joined, joined.member.adopt(table, now))

    def _cluster(self, joined: PeerMachine) -> str:
        return self._machines[joined.name].plan.cluster

    def machine_up(self, machine: SimulatedMachine) -> None:
        """Let a machine join through the members that it remembers."""
        super().machine_up(machine)
        if self._gossips(machine) and not self._is_gathering:
            name = machine.plan.name
            seeds = some([each for each in self.peers.machines if each != name], SEEDS, self._rng)
            joined = self._join(machine, seeds=seeds)
            self._update(machine)
            self._count_within(joined, PUBLISH_S)

    def machine_down(self, machine: SimulatedMachine) -> None:
        """Take a machine offline; others notice it by missing answers."""
        if self._gossips(machine):
            self.peers.crash(machine.plan.name)
        super().machine_down(machine)

    def _gossips(self, machine: SimulatedMachine) -> bool:
        return machine.plan.cluster in self._clusters

    def _join(
        self, machine: SimulatedMachine, ago_s: float = 0.0, seeds: Sequence[str] = ()
    ) -> PeerMachine:
        """Make membership and directory of a machine that came up `ago_s` ago."""
        plan, came_up_s = machine.plan, self._world.now_s - ago_s
        signer = KeyedSigner(self._world.seed, plan.name)
        rate = machine.core.rate

        def counters() -> tuple[LedgerRow, ...]:
            rows = (*EARLIER, *machine.core.counters())
            return tuple({row.account: row for row in rows}.values())

        member = Member(
            name=plan.name,
            incarnation=0,
            state=MemberState.ALIVE,
            cluster=SITE,
            addresses=(f"{plan.name}:7333",),
            instance=signer.certificate.hex()[:32],
            cluster_name=plan.cluster,
            parts=tuple(map(str, plan.parts)),
        )
        joined = self.peers.start(
            member,
            machine.clock,
            incarnation=int(machine.clock.at(self._world.now_s).wall_s),
            came_up_s=came_up_s,
            seeds=seeds,
            counters=counters,
            rate=rate,
            decay=decay_of(plan.configuration.order),
        )
        now = machine.clock.at(came_up_s)
        rows = tuple(map(BatchRow.of, EARLIER))
        batch = batch_body(LedgerBatch(0, now.wall_s, rows, max(1.0, rate)))
        for kind, body in ((EntryKind.CERTIFICATE, signer.certificate), (EntryKind.LEDGER, batch)):
            self.peers.perform(joined, joined.member.publish(kind, body, now))
        return joined

    # --- messages --------------------------------------------------------------------------------

    def _carry(self, machine: PeerMachine, send: Send) -> None:
        sender = self._machines[machine.name]
        if sender.is_up and not self._is_gathering:
            self._network.send(sender, send)

    def _arrives(self, machine: SimulatedMachine, event: Delivered | LinkUp | LinkDown) -> None:
        joined = self.peers.machines.get(machine.plan.name)
        if joined and isinstance(event, Delivered) and event.sender in self.peers.machines:
            self.peers.arrive(joined, event)
        else:
            self._world.arrive(machine, event)

    # --- what its parts learn --------------------------------------------------------------------

    def _update_if_scripted(
        self, machine: SimulatedMachine, event: PeersChanged | MachineForgotten
    ) -> None:
        """Deliver an event of the oracle; to a gossiping machine only its peer clusters."""
        name = machine.plan.name
        if not self._gossips(machine):
            self._world.arrive(machine, event)
        elif name in self.peers.machines and isinstance(event, PeersChanged):
            report = self.peers.machines[name].member.site.report()
            self._world.arrive(machine, self._with_scripted(report))

    def _deliver(self, joined: PeerMachine, event: ForParts) -> None:
        """Deliver what a machine's membership in the cluster has for its parts."""
        machine = self._machines[joined.name]
        if machine.is_up and not self._is_gathering:
            if isinstance(event, PeersChanged):
                event = self._with_scripted(event)
            self._world.arrive(machine, event)

    def _with_scripted(self, report: PeersChanged) -> PeersChanged:
        """Return a report with the clusters that do not gossip."""
        known = {each.cluster for each in report.neighbours}
        beyond = tuple(each for each in self._peer_clusters if each.cluster not in known)
        return PeersChanged(report.peers, (*report.neighbours, *beyond))

    def _count_within(self, joined: PeerMachine, within_s: float) -> None:
        """Let a machine publish its counters from a random moment within `within_s`."""
        first_s = joined.clock.steady_s(self._world.now_s + self._rng.random() * within_s)
        self.peers.perform(joined, [WakeAt(Part.LEDGER, first_s)])
