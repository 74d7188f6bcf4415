"""What live daemons did, as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iriai.sim.report.plots import COLOURS, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT_INCHES = 3.2

Samples = Mapping[str, Sequence[float]]
"""Seconds, by what was measured."""


def draw_gossip(
    result: dict[str, Any], samples: Mapping[str, Sequence[float]], place: Path
) -> None:
    """Write live-gossip.svg: who knows of a change, and who waits for the next broker."""
    place.mkdir(parents=True, exist_ok=True)
    picture = drawn(lambda figure: _gossip(figure, result, samples), HEIGHT_INCHES)
    (place / "live-gossip.svg").write_bytes(picture)


def _gossip(figure: Figure, result: dict[str, Any], samples: Samples) -> None:
    knowing, matching = figure.subplots(1, 2)
    labels = {
        "document": "a document, told at once",
        "member": "a machine that came up",
        "ideal": "push-pull, ideal",
    }
    for (key, label), colour in zip(labels.items(), COLOURS, strict=False):
        _rising(knowing, samples[key], label, colour)
    knowing.set_xlabel("seconds after the change")
    knowing.set_ylabel("machines that know, %")
    knowing.legend(loc="lower right")
    _rising(matching, samples["match"], "", COLOURS[0])
    matching.axvline(result["goals"]["match_p99_s"], color="#888888", ls="--", lw=0.8)
    matching.set_xlim(left=0)
    matching.set_xlabel("seconds from kill -9 of the broker to the next match")
    matching.set_ylabel("of all kills, %")


def _rising(axes: Axes, seconds: Sequence[float], label: str, colour: str) -> None:
    ordered = sorted(seconds)
    parts = [100 * (place + 1) / len(ordered) for place in range(len(ordered))]
    axes.step([0.0, *ordered], [0.0, *parts], where="post", color=colour, label=label)
    axes.set_ylim(0, 103)
