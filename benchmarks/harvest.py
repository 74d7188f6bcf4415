"""What tasks get of desks whose owners are away, and what they lose, in virtual time.

300 desks for a week. Owners come by day and hour, with a break and short absences, and are absent
some 84 % of the time (`iriai.sim.world.owner_days`); `idle_percent` checks these against measured
desks: 97.9 % of all CPU time was idle (P. Domingues, P. Marques, L. Silva, Resource usage of
Windows computer laboratories, ICPP Workshops 2005). Jobs take 1 to 10 h each, evenly spread, and
state the next full hour as their limit.

A ladder is what becomes of a task when the owner comes: `discard` ends it at once, `suspend`
freezes it until the owner has been away for 5 min, `vacate` freezes it and ends it after 10 min
(profile `desk`). Programs never save themselves, or each 30 min (`saving`), or also when they are
asked to end (`saving_when_asked`); a rerun goes on from there. The broker knows `nothing` of when
owners come back, or what machines have learnt in four weeks before (`expected_idle`, the product's
`ExpectedIdle`), or the truth (`oracle`). `harvested` is the part of the time of absent owners that
became work which was kept; `lost_percent` the part of the computed work that was not. `full`: work
is never short, so there is rarely a choice of desks; `half`: jobs come that take half of the time.
"""

from __future__ import annotations

import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.harvest_world import HarvestCase, HarvestWorld, Hint, Saving, idle_part
from harness.options import read_options
from harness.report import as_number, finish, machine_facts, measured_apart, median, progress

from iriai.policy.owner.owner_steps import OwnerSteps

LADDERS = {
    "discard": OwnerSteps(discard_s=0.0),
    "suspend": OwnerSteps(suspend_s=0.0),
    "vacate": OwnerSteps(suspend_s=0.0, vacate_s=600.0),
}
SAVINGS = {
    "discard": (Saving.NEVER, Saving.REGULARLY),
    "suspend": (Saving.NEVER,),
    "vacate": tuple(Saving),
}
"""Where they make a difference."""
HINTS = {"discard": tuple(Hint), "suspend": (Hint.NOTHING,), "vacate": tuple(Hint)}
"""The same."""
LOADS = {"full": None, "half": 0.5}
DESKS, QUICK_DESKS = 300, 20
DAYS, QUICK_DAYS = 7, 2
RUN_S_MAX = 1_800.0
WORKERS = 5


def measure_one(seed: int, desks: int, days: int) -> dict[str, object]:
    """Run all cases with one seed; return each figure by its path."""
    figures: dict[str, object] = {"idle_percent": round(100 * idle_part(desks, days, seed), 2)}
    for load, part in LOADS.items():
        for ladder, steps in LADDERS.items():
            for saving in SAVINGS[ladder]:
                for hint in HINTS[ladder]:
                    case = HarvestCase(steps, saving, part, hint)
                    path = f"{load}.{ladder}.{saving.value}.{hint.value}"
                    figures |= measure_case(case, path, desks, days, seed)
    return figures


def measure_case(
    case: HarvestCase, path: str, desks: int, days: int, seed: int
) -> dict[str, object]:
    """Run one case; return its figures."""
    world = HarvestWorld(case, desks, days, seed)
    world.run()
    totals = world.totals
    return {
        f"{path}.harvested": totals.harvested,
        f"{path}.lost_percent": totals.lost_percent,
        f"{path}.turnaround_h": totals.turnaround_h,
        "absent_part": totals.absent_s / (desks * world.until_s),
    }


def tree_of(rounds: list[dict[str, object]]) -> dict[str, object]:
    """Return the medians of figures, each at its path."""
    tree: dict[str, object] = {}
    for path in rounds[0]:
        *above, name = path.split(".")
        place = tree
        for each in above:
            place = place.setdefault(each, {})  # type: ignore[assignment]
        place[name] = median([as_number(each[path]) for each in rounds], 4)
    return tree


def main() -> None:
    """Measure seeds side by side, and print the medians."""
    if sys.argv[1:2] == ["--one"]:
        seed, desks, days = map(int, sys.argv[3:])
        print(json.dumps(measure_one(seed, desks, days)))
        return
    options = read_options(__doc__ or "")
    desks, days = options.tasks(DESKS, QUICK_DESKS), options.tasks(DAYS, QUICK_DAYS)

    def apart(seed: int) -> dict[str, object]:
        found = measured_apart(__file__, "seed", seed, desks, days, run_s_max=RUN_S_MAX)
        progress(f"seed {seed}")
        return found

    with ThreadPoolExecutor(WORKERS) as pool:
        rounds = list(pool.map(apart, range(1, options.runs + 1)))
    settings = {"desks": desks, "days": days, "runs": options.runs}
    machine = machine_facts(Path(tempfile.gettempdir()))
    finish({"benchmark": "harvest", **tree_of(rounds), "settings": settings, "machine": machine})


if __name__ == "__main__":
    main()
