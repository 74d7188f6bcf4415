"""What an experiment comes to: panels of numbers, each a group of bars in its picture."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from iriai.sim.report.plots import COLOURS, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT_INCHES = 3.2
GROUP_WIDTH = 0.8
"""Of the bars of one row, where rows are 1 apart."""


class Panel(NamedTuple):
    """One quantity: of each row, a number for each column."""

    title: str
    unit: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    """By row; None: it has none."""
    wanted: tuple[float, ...] = ()
    """By column, where somebody is entitled to something; in the same unit."""
    is_logarithmic: bool = False

    @property
    def numbers(self) -> dict[str, dict[str, float | None]]:
        """The values by row and column."""
        rows = zip(self.rows, self.values, strict=True)
        return {row: dict(zip(self.columns, values, strict=True)) for row, values in rows}


def picture(panels: Sequence[Panel]) -> bytes:
    """Return all panels side by side, as SVG."""
    return drawn(partial(_draw_panels, panels), HEIGHT_INCHES)


def _draw_panels(panels: Sequence[Panel], figure: Figure) -> None:
    every = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, panel in zip(every, panels, strict=True):
        _draw_panel(axes, panel)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    width = GROUP_WIDTH / len(panel.columns)
    for place, column in enumerate(panel.columns):
        shift = (place + 0.5) * width - GROUP_WIDTH / 2
        found = [
            (row + shift, value)
            for row, values in enumerate(panel.values)
            if (value := values[place]) is not None
        ]
        heights = [value for _, value in found]
        colour = COLOURS[place % len(COLOURS)]
        bars = axes.bar([at for at, _ in found], heights, width * 0.95, color=colour, label=column)
        axes.bar_label(bars, [_label(value) for value in heights], fontsize=7)
        for wanted in panel.wanted[place : place + 1]:
            for middle in (row + shift for row in range(len(panel.rows))):
                ends = [middle - width / 2, middle + width / 2]
                axes.plot(ends, [wanted] * 2, color="#222222", lw=1.5)
    axes.set_xticks(range(len(panel.rows)), panel.rows)
    axes.set_ylabel(f"{panel.title}, {panel.unit}")
    axes.grid(visible=False, axis="x")
    if panel.is_logarithmic:
        axes.set_yscale("log")
    if len(panel.columns) > 1:
        axes.legend(loc="best", fontsize=8)


def _label(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
