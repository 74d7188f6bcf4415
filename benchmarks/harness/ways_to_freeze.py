"""A benchmark of each way to freeze: control groups of both versions, and signals."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from harness.options import Options, read_options
from harness.report import Figure, finish, machine_facts, median, progress

WAYS = ("v2", "v1", "none")


class FiguresOfWay:
    """Of one way to freeze, a number for each run."""

    def __init__(self, digits: int) -> None:
        """`digits` stay behind the point of a median."""
        self._digits = digits
        self._by_name: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        """Add the number of one run."""
        self._by_name.setdefault(name, []).append(value)

    def answer(self) -> dict[str, Figure]:
        """Return the medians."""
        return {name: median(values, self._digits) for name, values in self._by_name.items()}


def measure_ways(
    benchmark: str,
    options_text: str,
    compiled: Callable[[Path], Path],
    measure: Callable[[str, Path, Options, FiguresOfWay], None],
    digits: int = 1,
) -> None:
    """Measure each way in turns, with a program that is made in a directory; print the answer."""
    options = read_options(options_text)
    facts = machine_facts(Path(tempfile.gettempdir()))
    by_way = {way: FiguresOfWay(digits) for way in WAYS}
    with tempfile.TemporaryDirectory(prefix=f"iriai-{benchmark}-") as name:
        Path(name).chmod(0o755)
        program = compiled(Path(name))
        for run in range(options.runs):
            for way, figures in by_way.items():
                measure(way, program, options, figures)
                progress(f"run {run + 1}, {way}: {figures.answer()}")
    answers = {way: figures.answer() for way, figures in by_way.items()}
    finish({"benchmark": benchmark, **answers, "machine": facts})
