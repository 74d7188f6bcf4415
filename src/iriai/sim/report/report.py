"""A report: one page that needs nothing else, and the same numbers for programs."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from iriai.model.problem import UsageProblem
from iriai.sim.report import plots
from iriai.sim.report.series import GANTT_JOBS_MAX, bars, series
from iriai.sim.runs.cases import Simulation
from iriai.sim.runs.document import Document, encoded
from iriai.sim.workload.log import Log

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOTTED_MAX = 6
"""Simulations in one plot; the table has all. Colours beyond are hard to tell apart."""

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff }}
h1 {{ font-size: 1.5rem; margin-bottom: 0 }}
h2 {{ font-size: 1.1rem; margin: 2.2rem 0 0.3rem }}
p {{ margin: 0.3rem 0; color: #555 }}
table {{ border-collapse: collapse; margin-top: 1rem; font-variant-numeric: tabular-nums }}
th, td {{ text-align: right; padding: 0.25rem 0.7rem; border-bottom: 1px solid #ddd }}
th:first-child, td:first-child {{ text-align: left }}
.scroll {{ overflow-x: auto }}
img {{ width: 100%; height: auto }}
</style>
</head>
<body>
{body}
</body>
</html>
"""
_HEADERS = (
    *("simulation", "mean wait", "50 % below", "99 % below", "mean slowdown"),
    *("processors used", "makespan", "fairness"),
)
_RESERVATION_HEADERS = (
    *("simulation", "reservations", "accepted", "earliest later by", "processors reserved"),
    *("late", "promises broken"),
)


def write_report(
    directory: Path, log: Log, made: Document, simulations: Sequence[Simulation]
) -> None:
    """Write `index.html` and `metrics.json` into `directory`, and create it if it is missing.

    Raises:
        UsageProblem: `directory` exists and is not a directory.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UsageProblem(
            "bad-report", f"{directory} is not a directory", "name a directory for the report"
        ) from None
    (directory / "metrics.json").write_bytes(encoded(made))
    body = _body(log, made, simulations)
    page = _PAGE.format(title=escape(f"iriai: {log.name}"), body="\n".join(body))
    (directory / "index.html").write_text(page, encoding="utf-8")


def _body(log: Log, made: Document, simulations: Sequence[Simulation]) -> list[str]:
    shown = [
        plots.Shown(case.label, each.records, series(each.records, each.settings.rights_for(log)))
        for case, each in zip(made.simulations, simulations[:PLOTTED_MAX], strict=False)
    ]
    body = [
        f"<h1>{escape(log.name)}</h1>",
        f"<p>{len(log.jobs):,} jobs on {log.processors:,} processors{_counts(log)}</p>",
        _table(_HEADERS, [case.cells for case in made.simulations]),
        *_reservations(made),
        *_figure(
            "Use", "Share of the processors in use.", partial(plots.utilisation, log, shown), 2.6
        ),
        *_figure("Queue", "Jobs that waited.", partial(plots.queue, log, shown), 2.6),
        *_figure(
            "Waiting by width",
            "The bar ends at the median, the mark stands at what nine of ten did not exceed.",
            partial(plots.by_width, shown),
            3.2,
        ),
        *_figure(
            "Waiting by account",
            "The accounts that used most, the largest first.",
            partial(plots.by_account, shown),
            3.0,
        ),
    ]
    for each in shown:
        body += _figure(
            f"Shares: {each.label}",
            "Coloured: the share of the processors that each of the largest accounts got. "
            "Line: the share of those in use that it was entitled to, by rights, and never "
            "more than it asked for.",
            partial(plots.shares, log, each),
            1.1 * max(2, len(each.series.got)),
        )
        if len(each.records) <= GANTT_JOBS_MAX:
            body += _figure(
                f"Who ran where: {each.label}",
                "One colour per account.",
                partial(plots.gantt, log, bars(each.records, log.processors)),
                3.4,
            )
    return body


def _counts(log: Log) -> str:
    return "".join(f"; {count:,} {escape(what)}" for what, count in log.counts.items())


def _reservations(made: Document) -> list[str]:
    """Return the table of the reservations; nothing where there are none."""
    rows = [case.reservation_cells for case in made.simulations]
    return [_table(_RESERVATION_HEADERS, rows)] if any(rows) else []


def _table(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in headers)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in cells
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>'


def _figure(
    title: str, caption: str, draw: Callable[[Figure], None], height_inches: float
) -> list[str]:
    """Return the HTML of a picture with its title and caption."""
    image = b64encode(plots.drawn(draw, height_inches)).decode()
    return [
        f"<h2>{escape(title)}</h2>",
        f"<p>{escape(caption)}</p>",
        f'<img alt="{escape(title)}" src="data:image/svg+xml;base64,{image}">',
    ]
