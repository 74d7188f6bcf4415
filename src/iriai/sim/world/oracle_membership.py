"""An oracle membership for simulations: it notices every change, late.

It stands for gossip where that is not what is looked at: each machine learns within seconds, at its
own moment, who came up and who is gone. It says nothing of those that cannot be reached. Of other
clusters than its own it learns who their candidates are; of a change there only those who may be
brokers hear at once, the others with the next change of their own cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from iriai.protocol.messages.candidates import (
    CANDIDATES_MAX,
    BrokerCandidate,
    ClusterPeer,
    speakers,
)
from iriai.protocol.messages.effects import MachineForgotten, Part, PeersChanged
from iriai.sim.world.event_queue import EventQueue
from iriai.sim.world.machine_model import MachinePlan, SimulatedMachine
from iriai.sim.world.rng import Rng

NOTICE_S = 10.0
"""The most seconds until a machine knows that another went down or came up."""
STEADINESS = 1.0
"""The steadiness that all machines report."""
FORGOTTEN_S = 20.0
"""How long one is remembered that is gone. A directory does so for six hours; here it is less,
so that machines come back after they were forgotten in short worlds, too."""


class OracleMembership:
    """The membership of all clusters of a world."""

    def __init__(
        self,
        agenda: EventQueue,
        seed: int,
        tell: Callable[[SimulatedMachine, PeersChanged | MachineForgotten], None],
    ) -> None:
        """`tell` is called with each event for a machine."""
        self._agenda = agenda
        self._tell_machine = tell
        self._notices = Rng(seed, "members")
        self._machines: dict[str, SimulatedMachine] = {}
        self._of_clusters: dict[str, list[SimulatedMachine]] = {}
        self._candidates: dict[str, tuple[str, ...]] = {}
        """By cluster, best first."""
        self._peer_clusters: tuple[ClusterPeer, ...] = ()
        self._suspects: dict[str, None] = {}
        self._is_up: dict[str, bool] = {}
        self._downs: dict[str, int] = {}
        """The number of times that each went down."""
        self._is_due: dict[str, None] = {}
        """Machines for which a report is planned."""
        self._is_gathering = False

    @property
    def count(self) -> int:
        """The number of members of all clusters, online or not."""
        return len(self._is_up)

    def gather(self) -> None:
        """Hold back all events until `gathered`, while a large world is set up."""
        self._is_gathering = True

    def gathered(self) -> None:
        """Report all members once to each machine."""
        self._is_gathering = False
        peers = {
            cluster: tuple(self._peer(each.plan) for each in machines)
            for cluster, machines in self._of_clusters.items()
        }
        self._candidates = {
            cluster: speakers(cluster, there)[:CANDIDATES_MAX] for cluster, there in peers.items()
        }
        if len(peers) > 1:
            self._peer_clusters = tuple(
                map(ClusterPeer, self._candidates, self._candidates.values())
            )
        for cluster, machines in self._of_clusters.items():
            for machine in machines:
                self._tell_machine(machine, PeersChanged(peers[cluster], self._peer_clusters))

    def machine_up(self, machine: SimulatedMachine) -> None:
        """Report the members to a machine that came up, and the machine to the others."""
        name, cluster = machine.plan.name, machine.plan.cluster
        if not cluster:
            return
        machines = self._of_clusters.setdefault(cluster, [])
        if name not in self._is_up:
            machines.append(machine)
            self._machines[name] = machine
        self._is_up[name] = True
        if self._is_gathering:
            return
        self._rank(cluster, [*self._candidates.get(cluster, ()), name])
        self._update(machine)
        self._spread(machine)

    def machine_down(self, machine: SimulatedMachine) -> None:
        """Report to the others that a machine went down."""
        if machine.plan.cluster:
            self._is_up[machine.plan.name] = False
            self._is_missed(machine)
            self._spread(machine)
            self._downs[machine.plan.name] = count = self._downs.get(machine.plan.name, 0) + 1
            self._agenda.after(FORGOTTEN_S, partial(self._forget, machine, count))

    def _forget(self, machine: SimulatedMachine, count: int) -> None:
        """Forget a machine that stayed down since its `count`th time."""
        name = machine.plan.name
        if not self._is_up[name] and self._downs[name] == count:
            for other in self._of_clusters[machine.plan.cluster]:
                if other.is_up:
                    self._tell_machine(other, MachineForgotten(name))

    def suspect(self, machine: SimulatedMachine, lasts_s: float) -> None:
        """Let others suspect a machine for a while."""
        name = machine.plan.name
        self._suspects[name] = None
        self._is_missed(machine)
        self._spread(machine)
        self._agenda.after(lasts_s, partial(self._refuted, machine))

    def end_suspicions(self) -> None:
        """Let all machines that are suspected refute it now."""
        for name in list(self._suspects):
            self._refuted(self._machines[name])

    def _refuted(self, machine: SimulatedMachine) -> None:
        name, cluster = machine.plan.name, machine.plan.cluster
        self._suspects.pop(name, None)
        self._rank(cluster, [*self._candidates.get(cluster, ()), name])
        self._spread(machine)

    # --- other clusters --------------------------------------------------------------------------

    def _is_missed(self, machine: SimulatedMachine) -> None:
        """Replace a candidate that is down or suspected."""
        cluster = machine.plan.cluster
        if machine.plan.name in self._candidates.get(cluster, ()):
            self._rank(cluster, [each.plan.name for each in self._of_clusters[cluster]])

    def _rank(self, cluster: str, names: list[str]) -> None:
        """Make the first of `names` the candidates of a cluster, and report a change."""
        there = tuple(
            self._peer(each.plan) for each in self._named(names) if self._is_up[each.plan.name]
        )
        candidates = speakers(cluster, there)[:CANDIDATES_MAX]
        if self._candidates.get(cluster) == candidates:
            return
        self._candidates[cluster] = candidates
        if len(self._candidates) > 1:
            self._peer_clusters = tuple(
                map(ClusterPeer, self._candidates, self._candidates.values())
            )
            for other, first in self._candidates.items():
                if other != cluster:
                    machines = self._named(first)
                    if all(each.plan.outward_only for each in machines):
                        machines = self._of_clusters[other]
                    for machine in machines:
                        self._update_soon(machine)

    def _named(self, names: Iterable[str]) -> list[SimulatedMachine]:
        return [self._machines[name] for name in dict.fromkeys(names)]

    # --- the own cluster -------------------------------------------------------------------------

    def _spread(self, about: SimulatedMachine) -> None:
        for machine in self._of_clusters.get(about.plan.cluster, ()):
            if machine is not about:
                self._update_soon(machine)

    def _update_soon(self, machine: SimulatedMachine) -> None:
        name = machine.plan.name
        if name not in self._is_due:
            self._is_due[name] = None
            delay_s = NOTICE_S * self._notices.random()
            self._agenda.after(delay_s, partial(self._update, machine))

    def _update(self, machine: SimulatedMachine) -> None:
        """Report the members of its cluster to a machine."""
        self._is_due.pop(machine.plan.name, None)
        if machine.is_up:
            machines = self._of_clusters[machine.plan.cluster]
            there = [each for each in machines if self._is_up[each.plan.name] or each is machine]
            peers = tuple(self._peer(each.plan) for each in there)
            self._tell_machine(machine, PeersChanged(peers, self._peer_clusters))

    def _peer(self, plan: MachinePlan) -> BrokerCandidate:
        return BrokerCandidate(
            plan.name,
            STEADINESS,
            plan.outward_only,
            plan.name in self._suspects,
            Part.NODE in plan.parts,
            Part.HOME in plan.parts,
            Part.BROKER in plan.parts,
        )
