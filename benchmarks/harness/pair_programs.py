"""Whole programs of benchmarks/ for two commits in turns: what each is asked, which figures count.

Today's program measures both commits, so that a figure means the same of both. A commit that it
cannot measure is told as that.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from harness.commit import Commit
from harness.report import progress

BENCHMARKS = Path(__file__).resolve().parent.parent
RUN_S_MAX = 3600.0


class Program(NamedTuple):
    """How one program is asked, and where in its answer the figures are."""

    file: str
    words: tuple[str, ...]
    figures: dict[str, str]
    """By the label in the comparison: the way through the answer, keys with a `/` between."""
    quick_words: tuple[str, ...] = ("--quick", "--no-peers")
    is_of_root: bool = False


_ONE = ("--runs", "1", "--no-peers")
PROGRAMS: dict[str, tuple[Program, ...]] = {
    "throughput": (
        Program(
            "throughput.py",
            _ONE,
            {
                "array_per_s": "array_per_s",
                "single_per_s": "single_per_s",
                "single_pipelined_per_s": "single_pipelined_per_s",
                "back_ends_2_per_s": "back_ends/2",
            },
        ),
    ),
    "latency": (
        Program(
            "latency.py",
            _ONE,
            {
                name: name
                for name in (
                    "p50_ms",
                    "p99_ms",
                    "version_ms",
                    "submit_ms",
                    "jobs_ms",
                    "show_ms",
                    "run_ms",
                )
            },
        ),
    ),
    "footprint": (
        Program(
            "footprint.py",
            _ONE,
            {
                name: name
                for name in (
                    "idle_rss_mb",
                    "supervisor_rss_mb",
                    "queued_100k_extra_mb",
                    "accepted_per_s",
                    "jobs_listing_100k_s",
                    "jobs_page_100k_s",
                    "restart_100k_s",
                )
            },
        ),
    ),
    "start": (
        Program(
            "start.py",
            _ONE,
            {name: name for name in ("first_up_s", "up_s", "daemon_cpu_s", "daemon_rss_mb")},
        ),
    ),
    "depth": tuple(
        Program(
            "depth.py",
            (*_ONE, "--machines", "1000", "--queued", str(queued), "--ends", "1000"),
            {
                f"quiet_p50_us_{queued}": f"cases/1000_machines_{queued}_queued/quiet_p50_us",
                f"quiet_p99_us_{queued}": f"cases/1000_machines_{queued}_queued/quiet_p99_us",
                f"burst_cpu_ms_{queued}": "burst/all_turns_cpu_ms",
            },
            (*_ONE, "--machines", "1000", "--queued", str(queued), "--ends", "20"),
        )
        for queued in (1_000, 100_000)
    ),
    "match": (
        Program(
            "match.py",
            _ONE,
            {
                "ours_us_per_pair": "ours_us_per_pair",
                "put_us_per_machine": "put_us_per_machine",
                "one_machine_changed_ms": "one_machine_changed_ms",
            },
        ),
    ),
    "simulation": (
        Program(
            "simulation.py",
            ("--one", "replay", "KTH-SP2", "easy", "0"),
            {"easy_jobs_per_cpu_s": "jobs_per_cpu_s"},
            ("--one", "replay", "KTH-SP2", "easy", "1000"),
        ),
        Program(
            "simulation.py",
            ("--one", "full", "300", "3000"),
            {"full_cpu_s": "cpu_s"},
            ("--one", "full", "20", "200"),
        ),
        Program(
            "simulation.py",
            ("--one", "seeds", "1", "50"),
            {"seeds_per_minute": "seeds_per_minute"},
            ("--one", "seeds", "1", "2"),
        ),
    ),
    "no_head": (
        Program(
            "no_head.py",
            ("--only", "10 machines, 8 homes"),
            {
                "cpu_s": "figures/10 machines, 8 homes/cpu_s",
                "bytes_per_s_mean": "figures/10 machines, 8 homes/bytes_per_s_mean",
            },
            ("--only", "10 machines, 8 homes"),
        ),
    ),
    "streams": (
        Program(
            "streams.py",
            _ONE,
            {
                f"{where}_{name}": f"{where}/{name}"
                for where in ("here", "there")
                for name in ("mb_per_s", "echo_p50_ms")
            },
            is_of_root=True,
        ),
    ),
}
"""Every program that measures how fast or large the product is. Not here: those that measure no
speed (paper_000, gossip_paper), that measure other systems (limit), that compare two commits
themselves (house), or kill daemons for an hour (live_*, abuse)."""


class PairProblem(Exception):
    """Two commits cannot be compared; says why, and what to do."""


class Side(Protocol):
    """What programs are asked of one commit."""

    def figures(self, program: Program, *, quick: bool) -> dict[str, float]:
        """Run the program once, and return its figures. Raises `PairProblem`."""
        ...


class ProgramSide:
    """A commit that today's programs measure, in its own environment."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit

    def figures(self, program: Program, *, quick: bool) -> dict[str, float]:
        """Run the program once, and return its figures. Raises `PairProblem`."""
        words = program.quick_words if quick else program.words
        command = [str(self._commit.python), str(BENCHMARKS / program.file), *words]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, timeout=RUN_S_MAX, check=False
        )
        what = f"{program.file} of today with commit {self._commit.name[:10]}"
        if done.returncode:
            raise PairProblem(
                f"{what} has ended with {done.returncode}, its reason stands above: if names of "
                "iriai were others then, compare with a later commit, or without this program"
            )
        return read_figures(program, done.stdout, what)


def read_figures(program: Program, output: str, what: str) -> dict[str, float]:
    """Return the figures in a program's answer. Raises `PairProblem` where one is not there."""
    lines = [line for line in output.splitlines() if line.strip()]
    try:
        answer: Any = json.loads(lines[-1])
    except (IndexError, json.JSONDecodeError):
        raise PairProblem(f"{what} has not ended with a JSON object") from None
    found: dict[str, float] = {}
    for label, way in program.figures.items():
        value = answer
        for key in way.split("/"):
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PairProblem(f"{what} has not measured {way}: it is {value!r}")
        found[label] = float(value)
    return found


def chosen(names: list[str]) -> list[tuple[str, Program]]:
    """Return the programs of these names. Raises `PairProblem` where one cannot be run here."""
    found = [(name, program) for name in names for program in PROGRAMS[name]]
    if os.geteuid() != 0 and (of_root := [name for name, each in found if each.is_of_root]):
        raise PairProblem(f"{', '.join(of_root)} needs root: it makes network namespaces")
    return found


def compare_programs(
    sides: tuple[Side, Side],
    programs: list[tuple[str, Program]],
    rounds: int,
    *,
    quick: bool = False,
) -> dict[str, list[tuple[float, float]]]:
    """Run each program for both in turns; return for each figure a pair (base, head) a round."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        for name, program in programs:
            found = {which: sides[which].figures(program, quick=quick) for which in order}
            for label, base in found[0].items():
                pairs.setdefault(f"{name}_{label}", []).append((base, found[1][label]))
                progress(f"round {number + 1}, {name} {label}: {base:g}, {found[1][label]:g}")
    return pairs
