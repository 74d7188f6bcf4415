"""Progress to people on standard error, one JSON object to programs on standard output."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

Figure = float | None
"""A measured number, or None where it could not be measured."""
Answer = dict[str, object]
"""What a program has measured, by name."""

_BEGAN = time.monotonic()


def progress(text: str) -> None:
    """Tell a person what is being done, with the seconds since the benchmark began."""
    print(f"[{time.monotonic() - _BEGAN:6.1f} s] {text}", file=sys.stderr, flush=True)


def median(samples: Sequence[float], digits: int = 1) -> Figure:
    """Return the median, rounded; None of nothing."""
    return round(statistics.median(samples), digits) if samples else None


def percentile(samples: Sequence[float], percent: int) -> float:
    """Return the value that `percent` of the samples (at least two) do not exceed."""
    return statistics.quantiles(samples, n=100, method="inclusive")[percent - 1]


class Figures:
    """Of one contestant, a number for each run."""

    def __init__(self, digits: int = 1) -> None:
        self._digits = digits
        self._by_name: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        """Add the number of one run."""
        self._by_name.setdefault(name, []).append(value)

    def answer(self) -> dict[str, Figure]:
        """Return the medians."""
        return {name: median(values, self._digits) for name, values in self._by_name.items()}


def ratio(part: Figure, whole: Figure) -> Figure:
    """Return part / whole; None where either is missing."""
    return round(part / whole, 3) if part is not None and whole else None


def filesystem(path: Path) -> str:
    """Return the type of the file system that holds `path`: durability costs nothing on tmpfs."""
    place = path.resolve()
    best, kind = "", "unknown"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        point, name = line.split()[1:3]
        if place.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, name
    return kind


def machine_facts(state_place: Path) -> dict[str, object]:
    """Return what the figures depend on; `state_place` is where iriai keeps its state."""
    return {
        "kernel": platform.release().split("-")[0],
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "state_filesystem": filesystem(state_place),
        "load_before": round(os.getloadavg()[0], 2),
        "root": os.geteuid() == 0,
    }


def last_line(text: str) -> str:
    """Return the last line of `text` that holds anything."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"


def read_answer(output: str) -> Answer:
    """Return the JSON object on the last line of what a program wrote."""
    answer: Answer = json.loads(last_line(output))
    return answer


def measured_apart(program: str, what: str, *arguments: object, run_s_max: float) -> Answer:
    """Return the answer of a benchmark that measures one thing in a process of its own."""
    command = [sys.executable, program, "--one", what, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=run_s_max)
    return read_answer(done.stdout)


def as_number(value: object) -> float:
    """Return a number out of an answer."""
    assert isinstance(value, int | float), value
    return float(value)


def commit_of(root: Path) -> str:
    """Return the commit of the files below `root`, `-dirty` behind it where some were changed.

    Empty where that cannot be told.
    """
    git = ["git", "-C", str(root)]
    try:
        name = subprocess.run(
            [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks/*.py"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return name.stdout.strip() + ("-dirty" if changed.stdout else "")


def finish(result: dict[str, object]) -> None:
    """Print the result, with the commit, as the last line of standard output."""
    sys.stderr.flush()
    commit = commit_of(Path(__file__).resolve().parents[2])
    print(json.dumps({"commit": commit} | result), flush=True)
