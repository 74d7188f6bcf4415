"""What reservations get, and what they cost those who wait, as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iriai.sim.report.plots import COLOURS, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT_INCHES = 3.2
WAYS = ("beside", "slack", "above", "queued")
LOG = "HPC2N"


def draw(replays: Mapping[str, Any], place: Path) -> None:
    """`reservations.svg`: waits and acceptance of one log by the part that is asked for."""
    place.mkdir(parents=True, exist_ok=True)
    orders = replays[LOG]
    picture = drawn(partial(_all, orders=orders), HEIGHT_INCHES)
    (place / "reservations.svg").write_bytes(picture)


def _all(figure: Figure, orders: Mapping[str, Mapping[str, Any]]) -> None:
    places = figure.subplots(1, 1 + len(orders))
    for axes, (order, rows) in zip(places, orders.items(), strict=False):
        _lines(axes, rows, lambda row: row["wait_ratio"], WAYS, with_none=True)
        axes.set_ylabel(f"mean wait of jobs, to none reserved: {order}")
        axes.legend(fontsize=7)
    rows = orders["fifo"]
    _lines(places[-1], rows, _had, WAYS, with_none=False)
    places[-1].set_ylabel("had when asked for, of all: fifo")
    places[-1].set_ylim(0.0, 1.05)
    for axes in places:
        axes.set_xlabel("asked for, % of the processors' time")


def _had(row: Mapping[str, Any]) -> float:
    """Return the part that is there at its start: accepted, or started at once of what queues."""
    return float(row["acceptance"] if "acceptance" in row else row["at_once"])


def _lines(
    axes: Axes,
    rows: Mapping[str, Any],
    value: Callable[[Mapping[str, Any]], float],
    ways: tuple[str, ...],
    *,
    with_none: bool,
) -> None:
    for way, colour in zip(ways, COLOURS, strict=False):
        found = {
            float(label.split()[1]): row for label, row in rows.items() if label.startswith(way)
        }
        parts = sorted(found)
        values = [value(found[part]) for part in parts]
        if with_none:
            parts, values = [0.0, *parts], [1.0, *values]
        axes.plot(parts, values, "o-", color=colour, label=way)
