"""Tries a policy of one's own: in worlds in which much breaks, and on workload logs.

In the worlds the checkers look at it with which iriai itself is tested; but a policy may pass over
the levels of queues. A decision that is refused counts as a fault of the policy in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec
from msgspec.structs import replace as with_fields

from iriai.model.policy_terms import JobAction
from iriai.model.problem import Problem
from iriai.plugins.policy_file import named_plan
from iriai.sim.faults.checker import Checker
from iriai.sim.faults.scenario import FAULTS_UNTIL_S, Scenario, scenario_of
from iriai.sim.faults.search import HEALED_S, failure_of, play
from iriai.sim.runs.cases import simulate
from iriai.sim.workload.generator import generate
from iriai.sim.workload.log import Log
from iriai.sim.workload.settings import POLICY, ReplaySettings
from iriai.sim.world.machine_model import MachinePlan

GENERATED_JOBS, GENERATED_PROCESSORS = 400, 32
"""Of each generated log: a second's work."""
MACHINES = (1, 4)
"""On so many machines each log is tried; a log of fewer processors than that on one alone."""


class PolicyRun(msgspec.Struct, frozen=True):
    """One run of a policy."""

    run: str
    """`world N`, with the seed; or the name of a log, and on how many machines."""
    is_good: bool
    what: str = ""
    """What went wrong, where; empty: nothing."""
    nearest: str = ""
    """What would do."""
    jobs: int = 0
    mean_wait_s: float | None = None
    """Of a log."""
    built_in_mean_wait_s: float | None = None
    """The same under the built-in policy of real machines, in the same order of jobs."""


def check_in_worlds(text: str, seeds: Iterable[int]) -> Iterator[PolicyRun]:
    """Yield the run in the world of each seed; that of a seed with frozen tasks is left out.

    Under a policy of one's own no task is frozen for a higher queue.
    """
    for seed in seeds:
        scenario = scenario_of(seed, lambda plans: [_with(text, plan) for plan in plans])
        if not any(plan.configuration.queue_modes for plan in scenario.plans):
            yield _in_world(scenario)


def generated_logs(seed: int) -> list[Log]:
    """Return the logs on which a policy is tried where none is named."""
    size = GENERATED_JOBS, GENERATED_PROCESSORS, seed
    return [generate(model, *size) for model in ("lublin", "poisson")]


def check_on_log(text: str, log: Log) -> Iterator[PolicyRun]:
    """Yield the run on a log, for each number of machines."""
    for machines in MACHINES:
        if machines == 1 or log.processors >= machines * machines:
            yield _on_log(text, log, machines)


def _with(text: str, plan: MachinePlan) -> MachinePlan:
    """Return the machine with a policy; each has its own, as each would load it.

    Its home lets the policy do all that a home can permit.
    """
    jobs = with_fields(plan.configuration.jobs, policy_may=tuple(JobAction))
    configuration = with_fields(plan.configuration, jobs=jobs)
    return replace(plan, policy=named_plan(text), configuration=configuration)


def _in_world(scenario: Scenario) -> PolicyRun:
    world = scenario.world()
    calm_from_s = FAULTS_UNTIL_S + HEALED_S
    checker = Checker(world, is_calm=scenario.is_calm, calm_from_s=calm_from_s)
    failure = failure_of(lambda: play(world, scenario, checker))
    machines = world.machines.values()
    refused = [each for machine in machines for each in machine.policy_mistakes]
    jobs = sum(len(machine.settled) for machine in machines)
    name = f"world {scenario.seed}"
    if refused:
        what, _, nearest = refused[0].rpartition("; ")
        return PolicyRun(name, is_good=False, what=what, nearest=nearest, jobs=jobs)
    return PolicyRun(name, failure is None, failure or "", jobs=jobs)


def _on_log(text: str, log: Log, machines: int) -> PolicyRun:
    name = log.name if machines == 1 else f"{log.name}, {machines} machines"
    settings = ReplaySettings(policy=text, is_checked=True, machines=machines)
    try:
        own = simulate(log, settings)
        usual = simulate(log, replace(settings, policy=POLICY, is_checked=False))
    except Problem as problem:
        return PolicyRun(name, is_good=False, what=problem.message, nearest=problem.hint)
    waits_s = own.metrics.wait_s.mean, usual.metrics.wait_s.mean
    return PolicyRun(name, True, "", "", len(log.jobs), *waits_s)
