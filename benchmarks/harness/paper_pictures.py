"""The figures of paper 001 as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from iriai.sim.report.plots import COLOURS, drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEIGHT_INCHES = 3.2


def draw_all(result: dict[str, Any], place: Path) -> None:
    """One SVG for each figure."""
    place.mkdir(parents=True, exist_ok=True)
    for name, draw in (
        ("fig6", _reach),
        ("fig7", _outward_only),
        ("fig8", _sizes),
        ("fig9", _loads),
    ):
        picture = drawn(lambda figure, d=draw: d(figure, result), HEIGHT_INCHES)  # type: ignore[misc]
        (place / f"paper-001-{name}.svg").write_bytes(picture)


def _reach(figure: Figure, result: dict[str, Any]) -> None:
    axes = figure.subplots()
    for (stop_after, row), colour in zip(result["fig6"].items(), COLOURS, strict=False):
        label = f"stop after {stop_after}: {row['final']:.1%}"
        axes.plot([100 * each for each in row["by_round"]], color=colour, label=label)
    axes.set_xlabel("rounds")
    axes.set_ylabel("machines that know, %")
    axes.legend()


def _outward_only(figure: Figure, result: dict[str, Any]) -> None:
    final, rounds = figure.subplots(1, 2)
    for (label, rows), colour in zip(result["fig7"].items(), COLOURS, strict=False):
        parts = [100 * float(part) for part in rows]
        final.plot(
            parts, [100 * r["final"] for r in rows.values()], "o-", color=colour, label=label
        )
        rounds.plot(parts, [r["rounds"] for r in rows.values()], "o-", color=colour)
    final.set_ylim(0, 103)
    final.set_ylabel("machines that know in the end, %")
    rounds.set_ylabel("rounds until 99 % of that")
    for axes in (final, rounds):
        axes.set_xlabel("machines that can only connect outwards, %")
    final.legend()


def _sizes(figure: Figure, result: dict[str, Any]) -> None:
    axes = figure.subplots()
    rows = result["fig8"]
    labels = {
        "gossip": "gossip",
        "manager": "manager that asks in turn",
        "manager_60s": "manager that is told, 60 s",
    }
    for (key, label), colour in zip(labels.items(), COLOURS, strict=False):
        ratios = [row[key] / row["oracle"] for row in rows.values()]
        axes.plot([int(count) for count in rows], ratios, "o-", color=colour, label=label)
    axes.set_xscale("log")
    axes.set_xlabel("machines")
    axes.set_ylabel("utilisation, relative to no delays")
    axes.legend()


def _loads(figure: Figure, result: dict[str, Any]) -> None:
    axes = figure.subplots()
    for (load, rows), colour in zip(result["fig9"].items(), COLOURS, strict=False):
        ratios = [row["gossip_to_manager"] for row in rows.values()]
        counts = [int(count) for count in rows]
        axes.plot(counts, ratios, "o-", color=colour, label=f"{float(load):.0%}")
    axes.set_xscale("log")
    axes.set_xlabel("machines")
    axes.set_ylabel("gossip / manager that asks in turn")
    axes.legend(title="load")
