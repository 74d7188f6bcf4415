"""The figure of an experiment, and its page."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from iriai.sim.experiments.outcome import ExperimentResult, Panel
from iriai.sim.report.plots import COLOURS, drawn
from iriai.sim.report.report import figure_of, write_page
from iriai.sim.runs.document import encoded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT_INCHES = 3.2
GROUP_WIDTH = 0.8
"""Of the bars of one row, where rows are 1 apart."""


def write_experiment(directory: Path, outcome: ExperimentResult) -> None:
    """Write `index.html`, `metrics.json` and the figure alone, `EXPERIMENT.svg`."""
    picture = drawn(figure_drawing(outcome), HEIGHT_INCHES)
    head = [
        f"<h1>{escape(outcome.about)}</h1>",
        f"<p>Means over seeds {outcome.seeds[0]} to {outcome.seeds[-1]}</p>",
        *(_table(panel) for panel in outcome.panels),
    ]
    shown = figure_of("Figure", "Lines: what is wanted.", figure_drawing(outcome), HEIGHT_INCHES)
    write_page(directory, encoded(outcome), f"iriai: {outcome.experiment}", head + shown)
    (directory / f"{outcome.experiment}.svg").write_bytes(picture)


def figure_drawing(outcome: ExperimentResult) -> Callable[[Figure], None]:
    """All panels side by side."""

    def draw(figure: Figure) -> None:
        every = figure.subplots(1, len(outcome.panels), squeeze=False)[0]
        for axes, panel in zip(every, outcome.panels, strict=True):
            _draw_panel(axes, panel)

    return draw


def _draw_panel(axes: Axes, panel: Panel) -> None:
    width = GROUP_WIDTH / len(panel.columns)
    for place, column in enumerate(panel.columns):
        shift = (place + 0.5) * width - GROUP_WIDTH / 2
        found = [
            (row + shift, values[place])
            for row, values in enumerate(panel.values)
            if values[place] is not None
        ]
        bars = axes.bar(
            [at for at, _ in found],
            [value or 0.0 for _, value in found],
            width * 0.95,
            color=COLOURS[place % len(COLOURS)],
            label=column,
        )
        axes.bar_label(bars, [_label(value or 0.0) for _, value in found], fontsize=7)
        if panel.wanted:
            ends = [
                (row + shift - width / 2, row + shift + width / 2) for row in range(len(panel.rows))
            ]
            for left, right in ends:
                axes.plot([left, right], [panel.wanted[place]] * 2, color="#222222", lw=1.5)
    axes.set_xticks(range(len(panel.rows)), panel.rows)
    axes.set_ylabel(f"{panel.title}, {panel.unit}")
    axes.grid(visible=False, axis="x")
    if panel.is_logarithmic:
        axes.set_yscale("log")
    if len(panel.columns) > 1:
        axes.legend(loc="best", fontsize=8)


def _label(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _table(panel: Panel) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in ("", *panel.columns))
    rows = "".join(
        f"<tr><td>{escape(row)}</td>"
        + "".join("<td>-</td>" if v is None else f"<td>{v:,.3f}</td>" for v in values)
        + "</tr>"
        for row, values in zip(panel.rows, panel.values, strict=True)
    )
    title = f"<h2>{escape(panel.title)}, {escape(panel.unit)}</h2>"
    return f"{title}<table><tr>{head}</tr>{rows}</table>"
