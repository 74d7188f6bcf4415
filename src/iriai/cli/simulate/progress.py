"""A bar while a simulation runs: where in the log it is, and how fast."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from iriai.model.units import format_duration

Progress = Callable[[int, float], None]


@contextmanager
def bar(total: int, unit: str, began_wall_s: float = 0.0) -> Iterator[Progress]:
    """Return a function that shows progress; it takes the work done and the second of the log.

    The bar is on standard error, if that is a terminal, and is removed at the end.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _done, _now_s: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.fields[date]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(compact=True),
    )
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=total, date="", speed="")
        started_s = time.monotonic()

        def update(done: int, now_s: float) -> None:
            spent_s = max(time.monotonic() - started_s, 1e-3)
            speed = f"{done / spent_s:,.0f} {unit}/s"
            shown.update(task, completed=done, date=_date(now_s, began_wall_s), speed=speed)

        yield update


def _date(now_s: float, began_wall_s: float) -> str:
    """Return the simulated date if the log has its beginning, else the time into the log."""
    if not now_s:
        return ""
    if began_wall_s:
        return time.strftime("%Y-%m-%d", time.gmtime(began_wall_s + now_s))
    return format_duration(now_s)
