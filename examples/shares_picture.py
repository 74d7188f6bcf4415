"""Each account's share of the cpu time over time, from when its attempts ran."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

POINTS = 200
WINDOW_PART = 0.15
"""Shares are means over this part of the whole time: draws are dice, a shorter mean is noise."""


class Ended(NamedTuple):
    """One attempt: whose, from when to when."""

    account: str
    start_s: float
    end_s: float


def time_in(ended: Sequence[Ended], account: str, begin_s: float, end_s: float) -> float:
    """How long attempts of `account` ran within a stretch of time, summed."""
    return sum(
        max(0.0, min(run.end_s, end_s) - max(run.start_s, begin_s))
        for run in ended
        if run.account == account
    )


def share_while_all_wait(ended: Sequence[Ended]) -> dict[str, float]:
    """Each account's part of the running time until the first account has started its last."""
    accounts = list(dict.fromkeys(run.account for run in ended))
    begin_s = min(run.start_s for run in ended)
    last_starts = [max(r.start_s for r in ended if r.account == name) for name in accounts]
    times = {name: time_in(ended, name, begin_s, min(last_starts)) for name in accounts}
    return {name: spent / sum(times.values()) for name, spent in times.items()}


def draw_shares(ended: Sequence[Ended], wanted: dict[str, float], path: Path) -> None:
    """Write the picture to `path`."""
    accounts = list(dict.fromkeys(run.account for run in ended))
    begin_s = min(run.start_s for run in ended)
    end_s = max(run.end_s for run in ended)
    half_s = (end_s - begin_s) * WINDOW_PART / 2
    moments = [begin_s + (end_s - begin_s) * point / POINTS for point in range(POINTS + 1)]
    lines: dict[str, list[float]] = {account: [] for account in accounts}
    for moment in moments:
        window = (max(begin_s, moment - half_s), min(end_s, moment + half_s))
        times = {name: time_in(ended, name, *window) for name in accounts}
        total = sum(times.values()) or 1.0
        for name in accounts:
            lines[name].append(times[name] / total)
    figure, axes = plt.subplots(figsize=(9, 4.5))
    for name in accounts:
        [line] = axes.plot([m - begin_s for m in moments], lines[name], label=name, linewidth=2)
        axes.axhline(wanted.get(name, 0.0), color=line.get_color(), linestyle=":", linewidth=1)
    axes.set(
        xlabel="seconds since the first start",
        ylabel="share of the running time",
        ylim=(0, 1.02),
        xlim=(0, end_s - begin_s),
        title="Share got (lines) and wanted while all three wait (dots)",
    )
    axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
    axes.legend(loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
