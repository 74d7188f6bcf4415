"""The options every benchmark takes."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

RUNS = 5
"""Machines are noisy: one run says little, and the median of five leaves two bad ones out."""


@dataclass(frozen=True)
class Options:
    """How much is measured."""

    runs: int
    """How often each contestant is measured; the figures are medians."""
    quick: bool
    """Few tasks and one run: shows that the benchmark works, measures nothing."""
    peers: bool
    """Whether other systems are measured beside iriai."""
    pictures: Path | None = None
    """Where pictures go, of a benchmark that draws some."""
    only: tuple[str, ...] = ()
    """Which of its parts are measured, of a benchmark that has some."""

    def tasks(self, full: int, quick: int) -> int:
        """Return how many tasks to run: `full`, or `quick` in quick mode."""
        return quick if self.quick else full


def read_options(description: str, parts: tuple[str, ...] = ()) -> Options:
    """Read the command line; exits with 2 and a usage line where it is wrong.

    `parts`: what `--only` may name.
    """
    parser = argparse.ArgumentParser(description=description)
    if parts:
        names = ", ".join(parts)
        parser.add_argument("--only", default=",".join(parts), metavar="A,B", help=f"of {names}")
    parser.add_argument("--runs", type=int, default=RUNS, help="medians of so many runs")
    parser.add_argument("--quick", action="store_true", help="one run of few tasks, as a check")
    parser.add_argument("--no-peers", action="store_true", help="measure iriai and the limit only")
    parser.add_argument("--pictures", type=Path, metavar="DIRECTORY", help="draw pictures there")
    given = parser.parse_args()
    if given.runs < 1:
        parser.error("--runs must be at least 1")
    only = tuple(given.only.split(",")) if parts else ()
    if unknown := [each for each in only if each not in parts]:
        parser.error(f"--only: no part is called {', '.join(unknown)}")
    runs = 1 if given.quick else given.runs
    return Options(runs, given.quick, not given.no_peers, given.pictures, only)
