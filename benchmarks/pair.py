"""Two commits in alternation: what a change costs, or gains.

    python benchmarks/pair.py BASE [--head REVISION] [--rounds 10] [--calls | --counts]
    python benchmarks/pair.py BASE --programs depth,match [--rounds 3]
    python benchmarks/pair.py BASE --programs all

Each commit is laid out in a directory of its own, with an environment of its own (kept in
`$XDG_CACHE_HOME/iriai/pair`, `~/.cache/iriai/pair`). For each figure: the median of the ratios
head / base of the rounds, and the least and largest of them.

Without `--programs`, both are up at the same time and run jobs in turns, the order swapped each
round, by one and the same program: that takes minutes, and shows a tenth on a quiet machine.
`daemon_ms` and `launcher_ms` are processor time for each task. `--programs` runs whole programs of
benchmarks/ for both in turns, of today: a figure means the same of both, or there is none.

No hardware counter is needed, which many virtual machines lack. `--calls` counts calls of Python
functions of the running daemons, which load changes little (how many tasks share a turn);
`--counts` compares the counts of guard.py (opcodes, statements, messages and more), which load does
not change at all; commits before it may not fit its script, which is told.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol

import guard
from harness import count_calls
from harness.commit import Commit, CommitProblem
from harness.kept_folder import kept_folder
from harness.pair_programs import (
    PROGRAMS,
    PairProblem,
    ProgramSide,
    chosen,
    compare_programs,
)
from harness.report import finish, machine_facts, progress
from harness.task_user import task_user

ROOT = Path(__file__).resolve().parent.parent
SIDE = Path(__file__).resolve().parent / "harness" / "pair_side.py"
COUNTS = {
    "array_per_s": 4_000,
    "single_per_s": 800,
    "single_pipelined_per_s": 1_500,
    "single_p50_ms": 200,
}
"""Tasks of each figure in one round: some seconds."""
_KINDS = {
    "array_per_s": "array",
    "single_per_s": "single",
    "single_pipelined_per_s": "pipelined",
    "single_p50_ms": "idle_single",
}
QUICK_COUNT = 60
COUNTED = ("array_per_s", "single_per_s")
COUNTED_TASKS = 500
ROUNDS = 10
COUNTED_ROUNDS = 5
PROGRAM_ROUNDS = 3


class Side(Protocol):
    """A commit that is up, ready to be measured."""

    def measure(self, name: str, count: int) -> dict[str, float]:
        """Measure one figure."""


class RunningSide:
    """A `Side` in a process of its own, ended with the block."""

    def __init__(self, commit: Commit, calls_directory: str | None) -> None:
        self._name = commit.name
        environment = {k: v for k, v in os.environ.items() if k != count_calls.VARIABLE}
        if calls_directory is not None:
            environment[count_calls.VARIABLE] = calls_directory
        self._process = subprocess.Popen(
            [str(commit.python), str(SIDE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> RunningSide:
        self.programs = str(self._read()["programs"])
        """Whose programs measure it: today's, unless they cannot be imported with that iriai."""
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def measure(self, name: str, count: int) -> dict[str, float]:
        """Measure one figure. Raises `PairProblem` if the side has ended."""
        asked = self._process.stdin
        if asked is None:
            raise RuntimeError("the side has no pipes")
        with suppress(BrokenPipeError):  # then it has said why
            asked.write(json.dumps({"measure": name, "count": count}) + "\n")
            asked.flush()
        return {key: float(value) for key, value in self._read().items()}

    def _read(self) -> dict[str, Any]:
        answers = self._process.stdout
        if answers is None:
            raise RuntimeError("the side has no pipes")
        line = answers.readline()
        if not line:
            raise PairProblem(
                f"the iriai of commit {self._name[:10]} could not be measured; the reason stands "
                "above"
            )
        result: dict[str, Any] = json.loads(line)
        return result


def compare(
    sides: tuple[Side, Side], counts: dict[str, int], rounds: int
) -> dict[str, list[tuple[float, float]]]:
    """Measure both in turns; return for each figure the pairs (base, head), a pair a round."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        for name, count in counts.items():
            found = {which: sides[which].measure(name, count) for which in order}
            for key, base in found[0].items():
                label = (
                    key
                    if key == name
                    else f"{name.rpartition('_per_s')[0] or name.rpartition('_p50_ms')[0]}_{key}"
                )
                pairs.setdefault(label, []).append((base, found[1][key]))
            base, head = pairs[name][-1]
            progress(f"round {number + 1}, {name}: {base:.1f}, {head:.1f}")
    return pairs


def summary(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """Return the medians of both, and of the ratios head / base with their spread."""
    ratios = [head / base for base, head in pairs if base]
    if not ratios:
        return {}
    return {
        "base": round(statistics.median(base for base, _ in pairs), 3),
        "head": round(statistics.median(head for _, head in pairs), 3),
        "ratio": round(statistics.median(ratios), 4),
        "ratio_min": round(min(ratios), 4),
        "ratio_max": round(max(ratios), 4),
    }


def compare_jobs(
    base: Commit, head: Commit, counts: dict[str, int], rounds: int, *, calls: bool
) -> dict[str, list[tuple[float, float]]]:
    """Run jobs at both in turns, while both are up."""
    task_user()
    with ExitStack() as stack:
        directory = str(kept_folder("calls-")) if calls else None
        sides = [stack.enter_context(RunningSide(each, directory)) for each in (base, head)]
        if any(side.programs != sides[0].programs for side in sides):
            progress(f"measured by programs {sides[0].programs}, and {sides[1].programs}")
        if calls:  # what is loaded and kept on first use is not counted
            compare((sides[0], sides[1]), dict.fromkeys(counts, QUICK_COUNT), 1)
        return compare((sides[0], sides[1]), counts, rounds)


def compare_counts(base: Commit, head: Commit) -> dict[str, list[tuple[float, float]]]:
    """Return the guard's counts of both. Raises `PairProblem`."""
    found = []
    for commit in (base, head):
        try:
            found.append(guard.measure_all(list(guard.CASES), commit.directory / "src"))
        except SystemExit as end:
            raise PairProblem(
                f"commit {commit.name[:10]}: {end}; the scripts of benchmarks/counts fit the iriai "
                "of today, so compare with a later commit, or with --calls"
            ) from None
    return {
        f"{case}_{name}": [(count, found[1][case][name])]
        for case, named in found[0].items()
        for name, count in named.items()
        if name in found[1].get(case, {})
    }


def read_arguments() -> argparse.Namespace:
    """Read the command line; exits with 2 where it is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("--head", default="HEAD", help="the commit that is compared")
    parser.add_argument("--rounds", type=int, help="10; with --calls 5, with --programs 3")
    parser.add_argument("--calls", action="store_true", help="count calls of Python functions")
    parser.add_argument("--counts", action="store_true", help="compare the guard's counts")
    names = ", ".join(PROGRAMS)
    parser.add_argument("--programs", default="", help=f"`all`, or some of: {names}")
    parser.add_argument("--quick", action="store_true", help="one round of few tasks, as a check")
    given = parser.parse_args()
    if given.calls + given.counts + bool(given.programs) > 1:
        parser.error("one of --calls, --counts and --programs, which measure different things")
    if given.rounds is not None and given.rounds < 1:
        parser.error("--rounds must be at least 1")
    given.programs = [name for name in given.programs.split(",") if name]
    if given.programs == ["all"]:
        given.programs = list(PROGRAMS)
    if unknown := [name for name in given.programs if name not in PROGRAMS]:
        parser.error(f"no program is called {', '.join(unknown)}; there are: {names}")
    return given


def run(given: argparse.Namespace) -> dict[str, object]:
    """Compare as was asked; return the answer. Raises `PairProblem` and `CommitProblem`."""
    machine = machine_facts(Path(tempfile.gettempdir()))
    programs = chosen(given.programs)
    base, head = Commit(given.base), Commit(given.head)
    base.lay_out()
    head.lay_out()
    usual = PROGRAM_ROUNDS if programs else COUNTED_ROUNDS if given.calls else ROUNDS
    rounds = 1 if given.quick or given.counts else given.rounds or usual
    counts = dict.fromkeys(COUNTED, COUNTED_TASKS) if given.calls else dict(COUNTS)
    if given.quick:
        counts = dict.fromkeys(counts, QUICK_COUNT)
    if given.counts:
        pairs = compare_counts(base, head)
    elif programs:
        sides = ProgramSide(base), ProgramSide(head)
        pairs = compare_programs(sides, programs, rounds, quick=given.quick)
    else:
        pairs = compare_jobs(base, head, counts, rounds, calls=given.calls)
    return {
        "figures": {name: summary(values) for name, values in pairs.items()},
        "settings": {
            "base": base.name,
            "head": head.name,
            "runs": rounds,
            "measured": _measured(given),
            "tasks": counts if not (programs or given.counts) else {},
            "quick": given.quick,
        },
        "machine": machine,
    }


def _measured(given: argparse.Namespace) -> str:
    """Return what the figures are."""
    if given.counts:
        return "counts of guard.py"
    if given.programs:
        return f"programs: {', '.join(given.programs)}"
    return "calls of Python functions" if given.calls else "jobs in turns"


def main() -> int:
    """Compare the two commits; returns the exit code."""
    given = read_arguments()
    try:
        result = run(given)
    except (CommitProblem, PairProblem) as problem:
        print(f"pair.py: {problem}", file=sys.stderr)
        return 1
    finish(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
