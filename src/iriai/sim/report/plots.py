"""Pictures of simulations, drawn with matplotlib (the extra `plots`)."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from iriai.sim.report.series import Bar, Series, largest_accounts, mean_waits, waits_by_width
from iriai.sim.workload.log import Log, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""A palette that people with colour blindness can tell apart, too (Okabe and Ito, 2008)."""
WIDTH_INCHES = 9.0
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "iriai",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "axes.edgecolor": "#888888",
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


class Shown(NamedTuple):
    """The part of one simulation that the plots need."""

    label: str
    records: Sequence[Record]
    series: Series


def drawn(draw: Callable[[Figure], None], height_inches: float) -> bytes:
    """Return what `draw` puts on a figure, as SVG; the same bytes for the same data."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as NewFigure

    with rc_context(STYLE):
        figure = NewFigure(figsize=(WIDTH_INCHES, height_inches))
        draw(figure)
        stream = io.BytesIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()


def utilisation(log: Log, shown: Sequence[Shown], figure: Figure) -> None:
    """Draw the part of the processors in use, over time."""
    curves = [_percent(each.series.used, log) for each in shown]
    axes = _curves(log, shown, curves, figure)
    axes.set_ylim(0, 102)
    axes.set_ylabel("processors in use, %")


def queue(log: Log, shown: Sequence[Shown], figure: Figure) -> None:
    """Draw how many jobs waited, over time."""
    axes = _curves(log, shown, [each.series.waiting for each in shown], figure)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("jobs waiting")


def by_width(shown: Sequence[Shown], figure: Figure) -> None:
    """Draw waits by width: a bar to the median, a mark at the 90th percentile."""
    axes = figure.subplots()
    room = 0.8 / len(shown)
    for place, (each, colour) in enumerate(zip(shown, COLOURS, strict=False)):
        classes = waits_by_width(each.records)
        at = [x - 0.4 + room * (place + 0.5) for x in range(len(classes))]
        axes.bar(at, [_hours(c.median_s) for c in classes], room * 0.9, color=colour)
        axes.plot(at, [_hours(c.p90_s) for c in classes], "_", ms=60 * room / 2, color=colour)
        axes.plot([], [], "s", color=colour, label=each.label)
        axes.set_xticks(range(len(classes)), [c.label for c in classes])
    axes.set_yscale("symlog", linthresh=0.1)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("wait, h: median, 90 %")
    axes.set_xlabel("processors that a job takes")
    axes.grid(visible=False, axis="x")
    _legend(axes, shown)


def by_account(shown: Sequence[Shown], figure: Figure) -> None:
    """Draw the mean waits of the accounts that used most."""
    axes = figure.subplots()
    accounts = largest_accounts(shown[0].records)
    room = 0.8 / len(shown)
    for place, (each, colour) in enumerate(zip(shown, COLOURS, strict=False)):
        at = [y - 0.4 + room * (place + 0.5) for y in range(len(accounts))]
        waits = [_hours(wait_s) for wait_s in mean_waits(each.records, accounts)]
        axes.barh(at, waits, room * 0.9, color=colour, label=each.label)
    axes.set_yticks(range(len(accounts)), [str(account) for account in accounts])
    axes.invert_yaxis()
    axes.set_xlabel("mean wait, h")
    axes.grid(visible=False, axis="y")
    _legend(axes, shown)


def shares(log: Log, each: Shown, figure: Figure) -> None:
    """Draw what the accounts that used most got and were entitled to, over time."""
    named = list(each.series.got)
    grid = figure.subplots(len(named), 1, sharex=True, squeeze=False)
    for account, axes, colour in zip(named, grid[:, 0], COLOURS, strict=False):
        when = _when(log, each.series.times_s)
        got, entitled = each.series.got[account], each.series.wanted[account]
        axes.fill_between(when, _percent(got, log), color=colour, alpha=0.35, lw=0)
        axes.plot(when, _percent(entitled, log), color="#333333", lw=0.8)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("%")
        axes.set_title(str(account), loc="left", fontsize=9)
    _date_axis(grid[-1, 0], log)


def gantt(log: Log, found: Sequence[Bar], figure: Figure) -> None:
    """Draw which account ran where, processor by processor."""
    axes = figure.subplots()
    accounts = list(dict.fromkeys(bar.account for bar in found))
    for bar in found:
        colour = COLOURS[accounts.index(bar.account) % len(COLOURS)]
        begin, end = _when(log, (bar.start_s, bar.start_s + bar.run_s))
        axes.barh(
            bar.first_processor,
            end - begin,
            bar.processors,
            begin,
            align="edge",
            color=colour,
            edgecolor="white",
            lw=0.4,
        )
    axes.set_ylim(0, log.processors)
    axes.set_ylabel("processor")
    axes.grid(visible=False)
    _date_axis(axes, log)


def _curves(
    log: Log, shown: Sequence[Shown], curves: Sequence[Sequence[float]], figure: Figure
) -> Axes:
    """Draw a curve of each simulation over time."""
    axes = figure.subplots()
    for each, curve, colour in zip(shown, curves, COLOURS, strict=False):
        axes.plot(_when(log, each.series.times_s), curve, color=colour, label=each.label, lw=1)
    _date_axis(axes, log)
    _legend(axes, shown)
    return axes


def _hours(seconds: float) -> float:
    return seconds / 3600


def _percent(cpus: Sequence[float], log: Log) -> list[float]:
    return [100 * each / log.processors for each in cpus]


def _when(log: Log, times_s: Sequence[float]) -> list[float]:
    """Return days since 1970 where the log says when it began, else hours since it began."""
    if log.began_wall_s:
        return [(log.began_wall_s + time_s) / 86400 for time_s in times_s]
    return [time_s / 3600 for time_s in times_s]


def _legend(axes: Axes, shown: Sequence[Shown]) -> None:
    """Put the legend above the plot, where it hides nothing."""
    if len(shown) > 1:
        axes.legend(ncols=len(shown), loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)


def _date_axis(axes: Axes, log: Log) -> None:
    if not log.began_wall_s:
        axes.set_xlabel("hours since the log began")
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    axes.xaxis_date()
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)
