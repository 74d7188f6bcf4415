"""Whether any machine could ever run a job, as far as this machine knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from iriai.broker.core import Broker
from iriai.broker.machines.pools import pool_of
from iriai.machine.core import Machine
from iriai.machine.pool_feasibility import no_pool, over_running_cap, room_lacking
from iriai.model.pool_room import PoolRoom
from iriai.model.problem import Refused
from iriai.model.ranks import ONE
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources, describe_amount
from iriai.policy.placement.pool_capacity import Pools, rooms_of
from iriai.policy.placement.seats import ranks_in
from iriai.protocol.messages.effects import Part
from iriai.protocol.messages.scheduling import Want


class ClusterFit(NamedTuple):
    """The verdict of one cluster on a job."""

    refusal: Refused | None
    """Why none of its machines could ever run it; None: one could, or not all are known yet."""
    is_final: bool
    """Whether no other cluster has a machine that is large enough, by what is known."""


class Feasibility:
    """Checks whether any machine could ever run a job."""

    def __init__(
        self,
        machine: Machine,
        capacity: Resources | None,
        running_cap_cpus: int | None,
    ) -> None:
        """`capacity` is that of the machine; None: it runs no tasks."""
        self._machine = machine
        self._own = {} if capacity is None else {machine.name: capacity}
        self._running_cap_cpus = running_cap_cpus

    def gives(self, capacity: Resources) -> None:
        """Note that the machine gives away something else."""
        self._own = {self._machine.name: capacity}

    def check(self, want: Want) -> None:
        """Raise `Refused` if no machine could ever run a task of `want`, or no account may.

        Does not raise if another cluster may have such a machine; see `verdict`.
        """
        verdict = self.verdict(want)
        if verdict.refusal is not None and verdict.is_final:
            raise verdict.refusal

    def verdict(self, want: Want) -> ClusterFit:
        """Return whether a machine of this cluster could ever run a task of `want`."""
        broker = self._machine.own_broker
        machines = {} if broker is None else self._capacities(broker)
        may_run_elsewhere = broker is not None and broker.federation.may_run_elsewhere(want)
        pools: Pools = {"": machines}  # a task of one rank goes to any machine
        too_small = too_large_for(want.resources, machines)
        if too_small is None and broker is not None and want.shape != ONE:
            pools = self._pools(broker, machines)
            too_small = no_pool(want, pools)
        if too_small is not None and not may_run_elsewhere:
            return ClusterFit(too_small, is_final=True)
        over_cap = over_running_cap(want, pools, self._running_cap_cpus)
        if over_cap is not None:
            return ClusterFit(over_cap, is_final=True)
        if broker is None or too_small is not None or not machines:
            return ClusterFit(too_small, is_final=False)
        return ClusterFit(_mismatch(broker, want, pools), is_final=not may_run_elsewhere)

    def pools_for(self, want: Want) -> tuple[PoolRoom, ...]:
        """Return the pools in which a job could run, as far as they are known; all, if in none."""
        broker = self._machine.own_broker
        machines = dict(self._own)
        if broker is not None:
            views = broker.state.machines
            machines = {name: view.calendar.capacity for name, view in views.items()} | machines
        never = () if broker is None or not want.requirements else broker.never_matching(want)
        able = {
            name: each
            for name, each in machines.items()
            if name not in never and want.resources.fits_in(each)
        }
        pools = {"": able or machines}
        if broker is not None:
            pools = self._pools(broker, able or machines)
        elif self._own:
            pools = {self._own_pool(): able or machines}
        return tuple(
            PoolRoom(
                name,
                max(each.cpus for each in members.values()),
                min(each.memory_bytes for each in members.values()),
                min(each.disk_bytes for each in members.values()),
            )
            for name, members in pools.items()
            if members
        )

    def runs_here(self, want: Want) -> bool:
        """Return whether this machine could run it, without evaluating expressions."""
        machine = self._machine
        if Part.NODE not in machine.parts or want.requirements:
            return False
        own = machine.node.settings.ad
        is_choosy = own is not None and bool(own.requirements)
        rooms = rooms_of(want.resources, self._own)
        return not is_choosy and ranks_in(rooms, want.shape) > 0

    def lacking(self, want: Want) -> tuple[Reason, ...]:
        """Return the resources that the machine which lacks the fewest has not free now.

        Of a parallel job how many ranks fit in the pool where most do; empty: they all do in one.
        """
        broker, resources = self._machine.own_broker, want.resources
        views = broker.state.machines.values() if broker is not None else ()
        if want.shape != ONE:
            pools: dict[str, dict[str, Resources]] = {}
            for view in views:
                pools.setdefault(view.pool, {})[view.name] = view.calendar.free
            return room_lacking(want, pools)
        lacking = [(view.name, resources.lacking_in(view.calendar.free)) for view in views]
        machine, least = min(lacking, key=lambda each: len(each[1]), default=("", ()))
        return tuple(
            Reason(
                Rule.MACHINE_BUSY,
                describe_amount(name, needed),
                f"{describe_amount(name, there)} free",
                machine,
            )
            for name, needed, there in least
        )

    def _capacities(self, broker: Broker) -> dict[str, Resources]:
        """Return the capacity of each machine; empty until all known machines have reported."""
        machine, views = self._machine, broker.state.machines
        awaited = [peer.name for peer in machine.peers if peer.has_node]
        if any(name not in views for name in awaited if name != machine.name):
            return {}
        return {name: view.calendar.capacity for name, view in views.items()} | self._own

    def _pools(
        self, broker: Broker, machines: Mapping[str, Resources]
    ) -> dict[str, dict[str, Resources]]:
        """Return the same machines by pool."""
        pools: dict[str, dict[str, Resources]] = {}
        for name, capacity in machines.items():
            view = broker.state.machines.get(name)
            pool = self._own_pool() if view is None else view.pool
            pools.setdefault(pool, {})[name] = capacity
        return pools

    def _own_pool(self) -> str:
        """Return the pool of this machine, which its broker does not know yet."""
        own = self._machine.node.settings.ad
        return "" if own is None else pool_of(own)


def _mismatch(broker: Broker, want: Want, pools: Pools) -> Refused | None:
    """Return a refusal if requirements leave no machine, or of no pool enough of them."""
    reasons = broker.never_runs(want)
    if reasons:
        return no_match(reasons)
    if want.shape == ONE:
        return None
    never = broker.never_matching(want)
    if not never:
        return None
    left = {
        pool: {name: each for name, each in machines.items() if name not in never}
        for pool, machines in pools.items()
    }
    return no_pool(want, left, "matching ")


def too_large_for(resources: Resources, machines: Mapping[str, Resources]) -> Refused | None:
    """Return a refusal if none of `machines`, by name, could ever hold `resources`; else None."""
    if not machines or any(resources.fits_in(there) for there in machines.values()):
        return None
    name, lacking = min(
        ((name, resources.lacking_in(there)) for name, there in machines.items()),
        key=lambda each: len(each[1]),
    )
    resource, needed, there = lacking[0]
    return Refused(
        "no-machine-large-enough",
        f"no machine has {describe_amount(resource, needed)}: "
        f"{name} has {describe_amount(resource, there)}",
        "ask for less, or use --wait-for-resources",
    )


def no_match(reasons: list[Reason]) -> Refused:
    """Return the refusal for `reasons`, one a machine, with the first clause that fails."""
    first = reasons[0]
    if not first.machine:  # no machine is in the way, but the broker
        return Refused(
            "extra-missing",
            f"the broker cannot read requirements: {first.had}",
            "install it on the broker's machine, or use --wait-for-resources",
        )
    whose = "its owner requires" if first.rule is Rule.OWNER_POLICY else "the job requires"
    others = f"; {len(reasons) - 1} more do not match either" if len(reasons) > 1 else ""
    return Refused(
        "no-machine-matches",
        f"no machine matches: on {first.machine} {whose} {first.needed}, and {first.had}{others}",
        "see 'iriai match EXPR' for all machines, or use --wait-for-resources",
    )
