"""`iriai policy`: try a policy of one's own before it counts."""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from iriai.cli.framework.command import CommandGroup, GlobalOptions, argument, option
from iriai.cli.framework.standard_streams import plain, print_document
from iriai.cli.framework.table import Column, count_text, print_table, span_text
from iriai.cli.simulate.progress import bar

if TYPE_CHECKING:
    from iriai.sim.runs.policy_check import PolicyRun

SEEDS = 40
"""Worlds by default: some seconds."""
EXIT_FOUND = 1
"""Exit code if a run failed."""

_COLUMNS: tuple[Column[PolicyRun], ...] = (
    Column("Run", lambda run: run.run, style="bold"),
    Column("Result", lambda run: "good" if run.is_good else "fails"),
    Column("Jobs", lambda run: f"{run.jobs:,}" if run.jobs else "", right=True),
    Column("Mean wait", lambda run: span_text(run.mean_wait_s), right=True),
    Column("Built in", lambda run: span_text(run.built_in_mean_wait_s), right=True),
    Column("What", lambda run: run.what, folds=True),
    Column("What would do", lambda run: run.nearest, folds=True),
)


def check(
    options: GlobalOptions,
    policy: str = argument(
        ..., metavar="FILE.py:CLASS", help="A policy, or the name of an installed one."
    ),
    log: Path | None = argument(
        None, metavar="LOG", help="A workload log (SWF), compressed or not."
    ),
    seeds: int = option(SEEDS, "--seeds", metavar="N", min=0, help="How many worlds."),
    seed: int = option(1, "--seed", metavar="N", min=0, help="The first of them."),
) -> int:
    """Run a policy where much breaks, and on workload logs; without LOG, on two generated ones.

    Of the worlds those that fail are listed, of the logs all. A decision that is refused is a
    failure, as in 'iriai simulate'.
    """
    from iriai.plugins.policy_file import named_plan
    from iriai.sim.runs.policy_check import check_in_worlds, check_on_log, generated_logs
    from iriai.sim.workload.swf import read_swf

    named_plan(policy)  # what cannot be loaded is told before anything runs
    logs = generated_logs(seed) if log is None else [read_swf(log)]
    runs: list[PolicyRun] = []
    worlds = 0
    with bar(seeds, "worlds") as progress:
        for run in check_in_worlds(policy, range(seed, seed + seeds)):
            worlds += 1
            progress(int(run.run.split()[1]) - seed + 1, 0.0)
            if not run.is_good:
                runs.append(run)
    runs += chain.from_iterable(check_on_log(policy, each) for each in logs)
    failed = sum(not run.is_good for run in runs)
    if options.as_json:
        print_document({"policy": policy, "worlds": worlds, "failed": failed, "runs": plain(runs)})
    else:
        print_table(_COLUMNS, runs)
        done = f"{count_text(worlds, 'world')} and {count_text(len(logs), 'log')}"
        print(f"{done}, {count_text(failed, 'run')} failed", file=sys.stderr)
    return EXIT_FOUND if failed else 0


app = CommandGroup(
    "Try a policy of your own before it counts.",
    {
        check: (
            ("iriai policy check mine.py:Policy", "where much breaks, and on generated logs"),
            ("iriai policy check mine.py:Policy log.swf.gz", "on a log"),
            ("iriai policy check mine.py:Policy --json", "for programs"),
        ),
    },
)
