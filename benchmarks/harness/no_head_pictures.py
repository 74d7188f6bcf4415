"""The figures of `no_head.py` by number of machines, as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iriai.sim.report.plots import COLOURS, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT_INCHES = 3.4
HOMES = {"n": "as many homes as machines", "8": "8 homes", "1": "1 home"}


def draw(figures: Mapping[str, Mapping[str, Any]], place: Path) -> None:
    """`no-head.svg`: what is lost, and bytes a second, by number of machines, if there are any."""
    if not any(_sizes(figures, homes) for homes in HOMES):
        return
    picture = drawn(partial(_both, figures=figures), HEIGHT_INCHES)
    (place / "no-head.svg").write_bytes(picture)


def _both(figure: Figure, figures: Mapping[str, Mapping[str, Any]]) -> None:
    lost, said = figure.subplots(1, 2)
    sizes = {homes: _sizes(figures, homes) for homes in HOMES}
    for (homes, label), colour in zip(HOMES.items(), COLOURS, strict=False):
        rows = sizes[homes]
        _line(lost, rows, lambda row: row["ratio_to_oracle"], colour, label)
        _line(said, rows, lambda row: row["bytes_per_s_mean"], colour, f"mean, {label}")
        _line(said, rows, lambda row: row["bytes_per_s_broker"], colour, f"broker, {label}", "s--")
    for key, colour in (("central_5_s", COLOURS[3]), ("central_60_s", COLOURS[4])):
        label = f"central manager, {key.split('_')[1]} s"
        _line(lost, sizes["n"], lambda row, key=key: row[key], colour, label, ":")  # type: ignore[misc]
    lost.set_ylabel("utilisation, relative to the oracle")
    said.set_ylabel("bytes a second, sent and received")
    said.set_yscale("log")
    for axes in (lost, said):
        axes.set_xscale("log")
        axes.set_xlabel("machines")
        axes.legend(fontsize=7)


def _sizes(figures: Mapping[str, Mapping[str, Any]], homes: str) -> dict[int, Mapping[str, Any]]:
    """The rows that differ in size alone."""
    found = {}
    for name, row in figures.items():
        words = name.replace(",", "").split()
        if words[1:2] == ["machines"] and words[3:] in (["home"], ["homes"]):
            count = words[0] if homes == "n" else homes
            if words[2] == count:
                found[int(words[0])] = row
    return dict(sorted(found.items()))


def _line(
    axes: Axes,
    rows: Mapping[int, Mapping[str, Any]],
    value: Callable[[Mapping[str, Any]], float],
    colour: str,
    label: str,
    style: str = "o-",
) -> None:
    axes.plot(list(rows), [value(row) for row in rows.values()], style, color=colour, label=label)
