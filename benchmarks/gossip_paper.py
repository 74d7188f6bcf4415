"""The experiments of paper 001 (Umeda, Nakada, Matsuoka), once more: tables once a minute.

`fig6`: how far one ad gets, by round, under the paper's stop rule, with the product's directories.
`fig7`: the same where a part of 1,000 machines can only connect outwards, in the paper's mode and
in the product's. `fig8`: utilisation by number of machines, gossip and a central manager. `fig9`:
their ratio under other loads. `table1`: 1 to 8 scheduling nodes. Utilisations are means over seeds;
all systems of a row are given the same jobs. Tables are the product's directories in `agreement`,
where arrays with the same rule are shown to give the same; in the rest they are arrays, because the
product takes 5 ms an exchange and these need millions. What the paper leaves open is assumed in
harness/paper_grid.py and named in the result's settings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from experiments.rumours import RumourSettings
from harness import paper_grid
from harness.options import read_options
from harness.paper_gossip import ProductTables, Spreading, spread
from harness.paper_grid import ArrayTables, Grid, by_gossip, by_manager, by_oracle
from harness.paper_pictures import draw_all
from harness.report import finish, machine_facts, progress

from iriai.config.sections import GossipSection

ROUNDS_MAX = 150
PAPER_TABLE_1 = {1: 0.939, 2: 0.941, 4: 0.967, 8: 0.970}
CYCLE_S = 60.0


def rumours(stop_after: int, *, answers: bool) -> RumourSettings:
    """The paper's mode: one machine a round, until so many knew already."""
    return RumourSettings(paper_grid.EXCHANGE_S, stop_after, answers)


def mean_reach(
    count: int, seeds: int, settings: Spreading, unreachable: int = 0
) -> dict[str, object]:
    """Reach after each round, mean over seeds; where it ends; rounds until 99 % of that."""
    runs = [spread(count, seed, settings, unreachable, ROUNDS_MAX) for seed in range(seeds)]
    longest = max(map(len, runs))
    mean = [fmean(run[min(r, len(run) - 1)] for run in runs) for r in range(longest)]
    rounds = next(number for number, reach in enumerate(mean) if reach >= 0.99 * mean[-1])
    return {"final": round(mean[-1], 3), "rounds": rounds, "by_round": [round(r, 4) for r in mean]}


def figure_6(count: int, seeds: int) -> dict[str, object]:
    """By the number of known answers after which a machine stops: section 2.3.1, one way."""
    figure: dict[str, object] = {}
    for stop_after in (1, 2, 3, 4):
        progress(f"figure 6: stop after {stop_after}")
        figure[str(stop_after)] = mean_reach(count, seeds, rumours(stop_after, answers=False))
    return figure


def figure_7(count: int, seeds: int, parts: Sequence[float]) -> dict[str, object]:
    """By the part of machines that can only connect outwards: section 4.5, both ways."""
    modes: dict[str, Spreading] = {
        "paper, stop after 1": rumours(1, answers=True),
        "paper, stop after 3": rumours(3, answers=True),
        "product": GossipSection(paper_grid.EXCHANGE_S),
    }
    figure: dict[str, object] = {}
    for label, settings in modes.items():
        progress(f"figure 7: {label}")
        figure[label] = {
            f"{part:g}": mean_reach(count, seeds, settings, round(part * count)) for part in parts
        }
    return figure


def utilisations(count: int, load: float, seeds: int, horizon_s: float) -> dict[str, float]:
    """Of every system, with the same jobs; means over seeds."""

    def grid(seed: int) -> Grid:
        return Grid(count, load, seed, horizon_s)

    systems: dict[str, Callable[[int], float]] = {
        "oracle": lambda seed: by_oracle(grid(seed)),
        "gossip": lambda seed: by_gossip(grid(seed), ArrayTables(count, seed), 1),
        "manager": lambda seed: by_manager(grid(seed)),
        "manager_60s": lambda seed: by_manager(grid(seed), CYCLE_S),
    }
    return {label: round(fmean(map(run, range(seeds))), 4) for label, run in systems.items()}


def row(count: int, load: float, seeds: int, horizon_s: float) -> dict[str, float]:
    """One point of figures 8 (100 %) and 9."""
    progress(f"figures 8 and 9: {load:.0%} of {count} machines, {seeds} seeds")
    used = utilisations(count, load, seeds, horizon_s)
    used["gossip_to_manager"] = round(used["gossip"] / used["manager"], 4)
    used["gossip_to_oracle"] = round(used["gossip"] / used["oracle"], 4)
    return used


def table_1(count: int, seeds: int, horizon_s: float) -> dict[str, object]:
    """By the number of scheduling nodes, at 100 %."""
    rows: dict[str, object] = {}
    for schedulers, paper in PAPER_TABLE_1.items():
        progress(f"table 1: {schedulers} scheduling nodes")
        grids = [Grid(count, 1.0, seed, horizon_s) for seed in range(seeds)]
        used = [by_gossip(grid, ArrayTables(count, grid.seed), schedulers) for grid in grids]
        refused = sum(grid.refused for grid in grids) / sum(grid.claims for grid in grids)
        rows[str(schedulers)] = {
            "utilisation": round(fmean(used), 4),
            "seeds": [round(each, 4) for each in used],
            "refused": round(refused, 3),
            "paper": paper,
        }
    return rows


def agreement(sizes: dict[int, tuple[int, float]]) -> dict[str, object]:
    """Gossip's utilisation with the product's directories and with arrays, seed by seed."""
    rows: dict[str, object] = {}
    for count, (seeds, horizon_s) in sizes.items():
        progress(f"the product's directories on {count} machines, {seeds} seeds")
        product, arrays = [], []
        for seed in range(seeds):
            grid = Grid(count, 1.0, seed, horizon_s)
            product.append(round(by_gossip(grid, ProductTables(count, seed), 1), 4))
            grid = Grid(count, 1.0, seed, horizon_s)
            arrays.append(round(by_gossip(grid, ArrayTables(count, seed), 1), 4))
        rows[str(count)] = {"product": product, "arrays": arrays, "hours": horizon_s / 3600}
    return rows


def settings(runs: int) -> dict[str, object]:
    """What was assumed."""
    return {
        "runs": runs,
        "exchange_s": paper_grid.EXCHANGE_S,
        "job_s": [paper_grid.SHORTEST_S, paper_grid.LONGEST_S],
        "one_way_s": [paper_grid.WAY_LEAST_S, paper_grid.WAY_MOST_S],
        "fetch_s": paper_grid.FETCH_S,
        "match_s_an_ad": paper_grid.MATCH_S,
        "manager": "asks one machine after the other, then matches, then begins again",
        "manager_60s": "is told of each end at once, and matches each 60 s",
        "measured_h": [paper_grid.FROM_S / 3600, paper_grid.HORIZON_S / 3600],
    }


@dataclass(frozen=True)
class Plan:
    """How much is run."""

    machines: int
    """Of figures 6 and 7, and table 1."""
    horizon_s: float
    parts: tuple[float, ...]
    """Of machines that can only connect outwards."""
    sizes: dict[int, int]
    """Figure 8: seeds by number of machines."""
    other_sizes: dict[int, int]
    """Figure 9, for loads other than 100 %."""
    loads: tuple[float, ...]
    agreement: dict[int, tuple[int, float]]


def full_plan(runs: int) -> Plan:
    """Small grids differ much from seed to seed, large ones hardly."""
    few, horizon_s = max(1, runs // 2), paper_grid.HORIZON_S
    return Plan(
        1000,
        horizon_s,
        (0.0, 0.1, 0.3, 0.5, 0.7, 0.9),
        {10: 8 * runs, 30: 4 * runs, 100: 2 * runs, 300: runs, 1000: few, 3000: 1},
        {10: 4 * runs, 100: runs, 1000: 1, 3000: 1},
        (0.1, 0.5, 2.0),
        {10: (runs, horizon_s), 30: (1, horizon_s), 100: (1, horizon_s / 4)},
    )


QUICK_PLAN = Plan(60, 7200.0, (0.0, 0.9), {10: 1, 30: 1}, {10: 1}, (2.0,), {10: (1, 7200.0)})


def run_all(plan: Plan, runs: int) -> dict[str, object]:
    """Every figure, in as many processes as there are processors."""
    few = max(1, runs // 2)
    with ProcessPoolExecutor() as pool:
        figure_8 = {
            count: pool.submit(row, count, 1.0, seeds, plan.horizon_s)
            for count, seeds in reversed(plan.sizes.items())
        }
        others = {
            load: {
                count: pool.submit(row, count, load, seeds, plan.horizon_s)
                for count, seeds in plan.other_sizes.items()
            }
            for load in plan.loads
        }
        rest = {
            "table1": pool.submit(table_1, plan.machines, few, plan.horizon_s),
            "fig7": pool.submit(figure_7, plan.machines, few, plan.parts),
            "fig6": pool.submit(figure_6, plan.machines, runs),
            "agreement": pool.submit(agreement, plan.agreement),
        }
    eighth = {str(count): figure_8[count].result() for count in plan.sizes}
    ninth: dict[str, object] = {
        f"{load:g}": {str(count): each.result() for count, each in rows.items()}
        for load, rows in others.items()
    }
    ninth["1"] = {str(count): eighth[str(count)] for count in plan.other_sizes}
    return {"fig8": eighth, "fig9": ninth} | {name: each.result() for name, each in rest.items()}


def main() -> None:
    """All figures; with `--pictures`, also as pictures and with the JSON beside them."""
    options = read_options(__doc__ or "")
    plan = QUICK_PLAN if options.quick else full_plan(options.runs)
    result = run_all(plan, options.runs)
    result |= {"settings": settings(options.runs), "machine": machine_facts(Path.cwd())}
    if options.pictures is not None:
        draw_all(result, options.pictures)
        (options.pictures / "paper-001.json").write_text(json.dumps(result, indent=1) + "\n")
    finish(result)


if __name__ == "__main__":
    main()
