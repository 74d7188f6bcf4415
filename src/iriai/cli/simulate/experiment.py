"""`iriai simulate --experiment NAME`: the experiments of paper 000."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from iriai.cli.framework.global_options import GlobalOptions
from iriai.cli.framework.json_output import plain, print_document
from iriai.cli.framework.table import Column, print_table

if TYPE_CHECKING:
    from pathlib import Path

    from iriai.sim.experiments.outcome import Panel

LIST = "list"
_LISTED = (Column("Experiment", style="bold"), Column("What"), Column("Seeds", right=True))


def run_experiments(name: str, seed: int, report: Path | None, options: GlobalOptions) -> None:
    """Run the experiment of that name from that seed on, or name all of them."""
    from iriai.sim.experiments.catalogue import EXPERIMENTS, run_experiment

    if name == LIST:
        if options.as_json:
            print_document({each: known.about for each, known in EXPERIMENTS.items()})
            return
        print_table(_LISTED, [(n, each.about, str(each.seeds)) for n, each in EXPERIMENTS.items()])
        return
    if report is not None:
        from iriai.sim.report.plots import need_matplotlib

        need_matplotlib()
    outcome = run_experiment(name, seed)
    if report is not None:
        from iriai.sim.experiments.figure import write_experiment

        write_experiment(report, outcome)
    if options.as_json:
        print_document(plain(outcome))
        return
    for panel in outcome.panels:
        _print_panel(panel)
    print(f"{outcome.about}; seeds {outcome.seeds[0]} to {outcome.seeds[-1]}", file=sys.stderr)
    if report is not None:
        print(f"The report is {report / 'index.html'}", file=sys.stderr)


def _print_panel(panel: Panel) -> None:
    first = Column(f"{panel.title}, {panel.unit}", style="bold")
    columns = (first, *(Column(name, right=True) for name in panel.columns))
    rows = [
        (row, *("-" if value is None else f"{value:,.2f}" for value in values))
        for row, values in zip(panel.rows, panel.values, strict=True)
    ]
    if panel.wanted:
        rows.append(("wanted", *(f"{value:,.2f}" for value in panel.wanted)))
    print_table(columns, rows)
