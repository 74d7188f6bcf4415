"""Counts of what the product does, compared with those stored in the tree: fails where one rose.

    python benchmarks/guard.py                           compare (make bench-guard)
    python benchmarks/guard.py --store                   store what fell
    python benchmarks/guard.py --store --why "REASON"    store what rose as well
    python benchmarks/guard.py --functions array_task    the functions that cost most there
    python benchmarks/guard.py --source OTHER/src        the iriai of another directory

A task of an array and a single submission through the daemon, a task through front end and back
end, a task in the launcher, a pass of the broker, a message in the simulator, the start of
commands: calls of Python functions, opcodes, SQL statements, commits, messages, bytes, system
calls, imported modules. All of it with a scripted clock and scripted arrivals, so that it is the
same on a busy machine. Nothing is timed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from counts import stored
from counts.counter import FUNCTIONS
from counts.stored import Change, Counts

CASES = ("commands", "daemon", "simulator", "back_end", "broker", "launcher")
"""Modules of `counts`, those that take longest first; each is measured in a process of its own."""
ENVIRONMENT = {"HOME": "/", "LANG": "C.UTF-8", "PATH": os.environ["PATH"], "PYTHONHASHSEED": "0"}
PLACE = "/tmp"
"""Its length is part of what is counted."""
WAIT_S = 300.0
FUNCTIONS_SHOWN = 40


def measure(case: str, source: Path | None = None, functions: Path | None = None) -> Counts:
    """Count one case, in a process of its own.

    `source` is a directory with an iriai other than the installed one; `functions` the file for
    what each function costs.
    """
    environment = dict(ENVIRONMENT)
    if source is not None:
        environment["PYTHONPATH"] = str(source.resolve())
    if functions is not None:
        environment[FUNCTIONS] = str(functions)
    directory = tempfile.mkdtemp(prefix="iriai-guard-", dir=PLACE)
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--measure", case, directory],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            timeout=WAIT_S,
            check=False,
        )
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if done.returncode:
        raise SystemExit(f"the case '{case}' could not be measured; what it said stands above")
    counts: Counts = json.loads(done.stdout)
    if nothing := [label for label, named in counts.items() if not named["calls"]]:
        raise SystemExit(f"the case '{case}' was not counted: no call in {', '.join(nothing)}")
    return stored.rounded(counts)


def measure_all(cases: list[str], source: Path | None = None) -> Counts:
    """Count several cases, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(partial(measure, source=source), cases)
        return {name: row for each in found for name, row in each.items()}


def show_functions(label: str, cases: list[str], source: Path | None) -> int:
    """Print the functions that cost most in one row of the counts."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "functions")
        file.touch()
        for path in (Path(folder), file):
            path.chmod(0o777)  # a case may become another user
        for case in cases:
            measure(case, source, file)
        rows = [line.split("\t") for line in file.read_text().splitlines()]
    found = sorted((int(row[3]), int(row[2]), row[1]) for row in rows if row[0] == label)
    if not found:
        labels = ", ".join(dict.fromkeys(row[0] for row in rows))
        print(f"no case is called '{label}'; there are: {labels}", file=sys.stderr)
        return 2
    total = sum(opcodes for opcodes, _, _ in found)
    print(" share    opcodes      calls  function")
    for opcodes, calls, place in found[: -FUNCTIONS_SHOWN - 1 : -1]:
        short = place.replace(f"{Path.cwd()}/", "")
        print(f"{opcodes / total:6.1%} {opcodes:10,} {calls:10,}  {short}")
    return 0


def store(counts: Counts, why: str) -> int:
    """Store what fell and, with a reason, what rose; returns the exit code."""
    path = stored.path_of(stored.this_version())
    before = stored.read(path)
    found = stored.changes(before, counts)
    stored.write(path, stored.merged(before, counts, may_rise=bool(why)))
    for change in found:
        if change.after < change.before or why:
            print(change)
    risen = [change for change in found if change.after > change.before]
    if why and risen:
        stored.note_rises(stored.RISES, stored.this_version(), risen, why)
        page = [sys.executable, "-m", "scripts.performance_page"]
        subprocess.run(page, cwd=Path(__file__).resolve().parent.parent, check=True)
    left = [change for change in risen if change.is_too_much and not why]
    if left:
        _complain(left)
    return bool(left)


def compare(counts: Counts) -> int:
    """Compare with what is stored; returns the exit code."""
    path = stored.path_of(stored.this_version())
    before = stored.read(path)
    if not before:
        print(
            f"no counts are stored for Python {stored.this_version()}, so nothing was compared: "
            f"python benchmarks/guard.py --store makes {path.name}"
        )
        return 0
    found = stored.changes(before, counts)
    fell = [change for change in found if change.after < change.before * (1 - stored.TOLERATED)]
    for change in fell:
        print(change)
    if fell:
        print("Store what fell, or it can rise again unseen: python benchmarks/guard.py --store")
    worse = [change for change in found if change.is_too_much]
    if worse:
        _complain(worse)
    else:
        print(f"{sum(map(len, counts.values()))} counts of {len(counts)} cases: none rose")
    return bool(worse)


def _complain(worse: list[Change]) -> None:
    """Say what rose, and what to do."""
    for change in worse:
        print(change, file=sys.stderr)
    print(
        "\nThe change costs everybody this much more. Find what it added, with\n"
        "  python benchmarks/guard.py --functions CASE      (the functions that cost most)\n"
        "  python benchmarks/pair.py BASE --calls\n"
        "and take it out of the way of those who do not use it. If it is worth its cost:\n"
        '  python benchmarks/guard.py --store --why "what it is for"',
        file=sys.stderr,
    )


def main() -> int:
    """Count, and compare or store."""
    if sys.argv[1:2] == ["--measure"]:
        case, directory = sys.argv[2:]
        counts = importlib.import_module(f"counts.{case}").measure(Path(directory))
        print(json.dumps(counts))
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=CASES, action="append", help="these cases alone")
    parser.add_argument("--store", action="store_true", help="store what fell")
    parser.add_argument("--why", default="", help="store what rose, for this reason")
    parser.add_argument("--json", action="store_true", help="print the counts, compare nothing")
    parser.add_argument("--source", type=Path, help="the directory of another iriai")
    parser.add_argument("--functions", metavar="CASE", help="print what cost most in this case")
    given = parser.parse_args()
    if given.why and not given.store:
        parser.error("--why is the reason for --store")
    if given.source is not None and not (given.source / "iriai").is_dir():
        parser.error(f"there is no iriai in {given.source}")
    cases = given.only or list(CASES)
    if given.functions:
        return show_functions(given.functions, cases, given.source)
    counts = measure_all(cases, given.source)
    if given.json:
        print(json.dumps(counts, indent=1))
        return 0
    return store(counts, given.why) if given.store else compare(counts)


if __name__ == "__main__":
    sys.exit(main())
