"""The experiments of paper 000, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from iriai.model.problem import UsageProblem
from iriai.sim.experiments import flooder, groups, offpeak, rights, urgency
from iriai.sim.experiments.outcome import ExperimentResult, Panel


class Experiment(NamedTuple):
    """One figure."""

    about: str
    seeds: int
    """Over how many the means are, where nobody says."""
    run: Callable[[Sequence[int]], tuple[Panel, ...]]


EXPERIMENTS: Mapping[str, Experiment] = {
    "flooder": Experiment("A moderate user beside one who hands in 2,000 jobs", 10, flooder.run),
    "rights": Experiment("Two users with rights 1 and 4", 10, rights.run),
    "groups": Experiment("Three users of one group beside one of another", 10, groups.run),
    "offpeak": Experiment("Cheap quiet hours, and users who react to them", 3, offpeak.run),
    "urgency": Experiment("-p 5 never, now and then, and always", 3, urgency.run),
}


def run_experiment(name: str, first_seed: int) -> ExperimentResult:
    """Run it with as many seeds as it takes, from `first_seed` on.

    Raises:
        UsageProblem: there is no such experiment.
    """
    experiment = EXPERIMENTS.get(name)
    if experiment is None:
        raise UsageProblem(
            "unknown-experiment",
            f"there is no experiment '{name}'",
            f"there are: {', '.join(EXPERIMENTS)}",
        )
    seeds = range(first_seed, first_seed + experiment.seeds)
    return ExperimentResult(name, experiment.about, tuple(seeds), experiment.run(seeds))
