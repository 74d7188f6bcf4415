"""Who is there, as machines of a cluster are told: a membership that notices, late, what happens.

It stands for gossip where that is not what is looked at: each machine learns within seconds, at
its own moment, who came up and who is gone. It says nothing of those that cannot be reached.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from iriai.protocol.candidates import Peer
from iriai.protocol.effects import Part, PeersChanged
from iriai.sim.agenda import Agenda
from iriai.sim.dice import Dice
from iriai.sim.machine_model import MachinePlan, SimulatedMachine

NOTICE_S = 10.0
"""The longest that it takes until a machine knows that another is gone, or is back."""


class Members:
    """Of all clusters of a world."""

    def __init__(
        self,
        agenda: Agenda,
        seed: int,
        tell: Callable[[SimulatedMachine, PeersChanged], None],
        notice_s: float = NOTICE_S,
    ) -> None:
        """`tell` takes what reaches a machine."""
        self._agenda = agenda
        self._tell_machine = tell
        self._dice = Dice(seed, "members")
        self._notice_s = notice_s
        self._of_clusters: dict[str, list[SimulatedMachine]] = {}
        self._suspects: dict[str, None] = {}
        self._is_up: dict[str, bool] = {}
        self._is_due: dict[str, None] = {}
        """Who will be told in a while."""

    @property
    def count(self) -> int:
        """Members of all clusters, whether they are there or not."""
        return len(self._is_up)

    def came_up(self, machine: SimulatedMachine) -> None:
        """It knows at once who is there; the others hear of it."""
        name, cluster = machine.plan.name, machine.plan.cluster
        if not cluster:
            return
        machines = self._of_clusters.setdefault(cluster, [])
        if name not in self._is_up:
            machines.append(machine)
        self._is_up[name] = True
        self._tell(machine)
        self._spread(machine)

    def went_down(self, machine: SimulatedMachine) -> None:
        """The others notice."""
        if machine.plan.cluster:
            self._is_up[machine.plan.name] = False
            self._spread(machine)

    def suspect(self, machine: SimulatedMachine, lasts_s: float) -> None:
        """Somebody takes it for dead, for a while, and some believe it."""
        name = machine.plan.name
        self._suspects[name] = None
        self._spread(machine)
        self._agenda.after(lasts_s, partial(self._refuted, machine))

    def _refuted(self, machine: SimulatedMachine) -> None:
        self._suspects.pop(machine.plan.name, None)
        self._spread(machine)

    def _spread(self, about: SimulatedMachine) -> None:
        for machine in self._of_clusters.get(about.plan.cluster, ()):
            name = machine.plan.name
            if machine is not about and name not in self._is_due:
                self._is_due[name] = None
                delay_s = self._notice_s * self._dice.random()
                self._agenda.after(delay_s, partial(self._tell, machine))

    def _tell(self, machine: SimulatedMachine) -> None:
        """What a machine believes from now on."""
        self._is_due.pop(machine.plan.name, None)
        if machine.is_up:
            machines = self._of_clusters[machine.plan.cluster]
            there = [each for each in machines if self._is_up[each.plan.name] or each is machine]
            peers = tuple(self._peer(each.plan) for each in there)
            self._tell_machine(machine, PeersChanged(peers))

    def _peer(self, plan: MachinePlan) -> Peer:
        return Peer(
            plan.name,
            plan.steadiness,
            plan.outward_only,
            plan.name in self._suspects,
            Part.NODE in plan.parts,
            Part.HOME in plan.parts,
            Part.BROKER in plan.parts,
        )
