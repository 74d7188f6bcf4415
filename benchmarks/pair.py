"""Two commits in alternation: what a change costs, or gains.

    python benchmarks/pair.py BASE [--head REVISION] [--rounds 10] [--calls]

Each commit is laid out in a directory of its own, with an environment of its own (kept in
`$XDG_CACHE_HOME/iriai/pair`, `~/.cache/iriai/pair`). Both are up at the same time and are measured
in turns, the order swapped each round, by one and the same program. For each figure: the median of
the ratios head / base of the rounds, and the least and largest of them. `daemon_ms` and
`launcher_ms` are processor time for each task. `--calls` counts calls of Python functions instead,
which load changes little (how many tasks share a turn).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from harness import count_calls
from harness.commit import Commit
from harness.kept_folder import kept_folder
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


class Side(Protocol):
    """A commit that is up, ready to be measured."""

    def measure(self, name: str, count: int) -> dict[str, float]:
        """Measure one figure."""


class RunningSide:
    """A `Side` in a process of its own, ended with the block."""

    def __init__(self, commit: Commit, calls_directory: str | None) -> None:
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
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def measure(self, name: str, count: int) -> dict[str, float]:
        """Measure one figure."""
        asked, answers = self._process.stdin, self._process.stdout
        if asked is None or answers is None:
            raise RuntimeError("the side has no pipes")
        asked.write(json.dumps({"measure": name, "count": count}) + "\n")
        asked.flush()
        line = answers.readline()
        if not line:
            raise RuntimeError("one side has ended; what it said stands above")
        result: dict[str, float] = json.loads(line)
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


def main() -> None:
    """Compare the two commits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("--head", default="HEAD", help="the commit that is compared")
    parser.add_argument("--rounds", type=int, default=None, help="10; with --calls 5")
    parser.add_argument("--calls", action="store_true", help="count calls of Python functions")
    parser.add_argument("--quick", action="store_true", help="one round of few tasks, as a check")
    given = parser.parse_args()
    machine = machine_facts(Path(tempfile.gettempdir()))
    base, head = Commit(given.base), Commit(given.head)
    base.lay_out()
    head.lay_out()
    task_user()
    rounds = given.rounds or (COUNTED_ROUNDS if given.calls else ROUNDS)
    rounds = 1 if given.quick else rounds
    counts = dict.fromkeys(COUNTED, COUNTED_TASKS) if given.calls else dict(COUNTS)
    if given.quick:
        counts = dict.fromkeys(counts, QUICK_COUNT)
    with ExitStack() as stack:
        directory = str(kept_folder("calls-")) if given.calls else None
        sides = [stack.enter_context(RunningSide(each, directory)) for each in (base, head)]
        if given.calls:  # what is loaded and kept on first use is not counted
            compare((sides[0], sides[1]), dict.fromkeys(counts, QUICK_COUNT), 1)
        pairs = compare((sides[0], sides[1]), counts, rounds)
    finish(
        {
            "figures": {name: summary(values) for name, values in pairs.items()},
            "settings": {
                "base": base.name,
                "head": head.name,
                "runs": rounds,
                "tasks": counts,
                "calls": given.calls,
            },
            "machine": machine,
        }
    )


if __name__ == "__main__":
    main()
