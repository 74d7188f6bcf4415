"""Checks whether any machine could ever run a job, if the broker is local."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from iriai.daemon.loop.engine import Engine
from iriai.daemon.net.local_links import LocalLinks
from iriai.daemon.startup.settings import DaemonSettings
from iriai.model.problem import Refused
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources, describe_amount
from iriai.policy.placement.calendar import within_running_cap
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

    def __init__(self, settings: DaemonSettings, engine: Engine, links: LocalLinks) -> None:
        """`links` are the links with back ends."""
        self._settings = settings
        self._engine = engine
        self._links = links
        self._own = {settings.home: settings.capacity} if settings.role.has_node else {}
        """The capacity of this machine; empty if it runs no tasks."""

    def check(self, want: Want) -> None:
        """Raise `Refused` if no machine could ever run a task of `want`, or no account may.

        Does not raise if another cluster may have such a machine; see `verdict`.
        """
        verdict = self.verdict(want)
        if verdict.refusal is not None and verdict.is_final:
            raise verdict.refusal

    def verdict(self, want: Want) -> ClusterFit:
        """Return whether a machine of this cluster could ever run a task of `want`."""
        machines = self._machines()
        may_run_elsewhere = self._may_run_elsewhere(want)
        too_small = too_large_for(want.resources, machines)
        if too_small is not None and not may_run_elsewhere:
            return ClusterFit(too_small, is_final=True)
        over_cap = self._over_cap(want, machines)
        if over_cap is not None:
            return ClusterFit(over_cap, is_final=True)
        if too_small is not None or not machines:
            return ClusterFit(too_small, is_final=False)
        reasons = self._engine.machine.broker.never_runs(want)
        return ClusterFit(no_match(reasons) if reasons else None, is_final=not may_run_elsewhere)

    def check_input(self) -> None:
        """Raise `Refused` if no machine here can take the descriptors of a client.

        A terminal or an open input needs a node on this host.
        """
        settings = self._settings
        is_member = settings.cluster is not None
        if is_member and not settings.role.has_node and not self._links.known.names():
            raise Refused(
                "input-elsewhere",
                f"{settings.home} runs no tasks, and a terminal or standard input cannot be "
                "passed to other machines",
                "use --no-stdin, or 'iriai submit --stdin FILE': the content of a file can be "
                "passed",
            )

    def lacking(self, resources: Resources) -> tuple[Reason, ...]:
        """Return the resources that the machine which lacks the fewest has not free now."""
        if Part.BROKER not in self._engine.machine.parts:
            return ()
        views = self._engine.machine.broker.state.machines.values()
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

    def _may_run_elsewhere(self, want: Want) -> bool:
        """Return whether another cluster of the site may have a machine for `want`."""
        machine = self._engine.machine
        if Part.BROKER not in machine.parts:
            return False
        return machine.broker.federation.may_run_elsewhere(want)

    def _machines(self) -> dict[str, Resources]:
        """Return the capacity of each machine; empty until all known machines have reported."""
        machine, settings = self._engine.machine, self._settings
        if Part.BROKER not in machine.parts:
            return {}
        views = machine.broker.state.machines
        awaited = [*self._links.known.names(), *(p.name for p in machine.peers if p.has_node)]
        if any(name not in views for name in awaited if name != settings.home):
            return {}
        return {name: view.calendar.capacity for name, view in views.items()} | self._own

    def _over_cap(self, want: Want, machines: Mapping[str, Resources]) -> Refused | None:
        """Return a refusal if no account may run as many CPUs as a task of `want` takes."""
        cpus = want.resources.cpus
        if want.exclusive:
            able = [each.cpus for each in machines.values() if want.resources.fits_in(each)]
            cpus = min(able, default=cpus)
        cap_cpus = self._settings.configuration.order.running_cap_cpus
        if within_running_cap(cpus, 0, cap_cpus).allowed:
            return None
        return Refused(
            "over-running-cap",
            f"{cpus} cpus are more than any account may run at once ({cap_cpus})",
            "ask for fewer cpus, or raise running_cap_cpus in [order] of iriai.toml",
        )


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
    whose = "its owner requires" if first.rule is Rule.OWNER_POLICY else "the job requires"
    others = f"; {len(reasons) - 1} more do not match either" if len(reasons) > 1 else ""
    return Refused(
        "no-machine-matches",
        f"no machine matches: on {first.machine} {whose} {first.needed}, and {first.had}{others}",
        "see 'iriai match EXPR' for all machines, or use --wait-for-resources",
    )
