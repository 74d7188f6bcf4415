"""Runs the tests of `make test`: most beside each other, then those that need the machine alone.

A test with real processes may lose a race beside others on a busy machine. So where few tests of a
pass fail, they run once more, alone and one after the other: what fails again is red. Their names
are the last thing that is printed. Many that fail are a defect, and red at once.

    python scripts/run_tests.py [--workers N] [PYTEST-OPTION]...

It runs pytest in the current directory. What it does not know it gives to pytest in every pass.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

BESIDE_OTHERS = "not serial and not soak"
BY_THEMSELVES = "serial and not soak"
REPEATED_MAX = 12
"""Tests of a pass that run once more; where more fail it is no race."""
FAILED = 1
"""pytest's exit code where tests ran and some failed; others mean that it could not run them."""
NONE_RAN = 5


def run_pytest(words: Sequence[str], cache: str) -> tuple[int, list[str]]:
    """Run pytest with `words`; return its exit code, and the names of those that have not passed.

    `cache` is a directory: a test that is there as failed stays until it passes.
    """
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *words]
    with subprocess.Popen(command) as process:
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:  # pytest had it too, and ends by itself
                continue
    failed = Path(cache, "v", "cache", "lastfailed")
    return code, sorted(json.loads(failed.read_bytes())) if failed.exists() else []


def run_pass(
    marker: str, common: Sequence[str], only_first: Sequence[str]
) -> tuple[int, list[str]]:
    """Run the tests of `marker`, and those that fail once more, without the words `only_first`.

    Returns the exit code, and the names of those that failed first and then passed.
    """
    with tempfile.TemporaryDirectory(prefix="iriai-tests-") as cache:
        code, failed = run_pytest([*only_first, *common, "-m", marker], cache)
        # With workers a file that cannot be read is counted as a test that failed.
        if code != FAILED or not failed or not all("::" in name for name in failed):
            return code, []
        if len(failed) > REPEATED_MAX:
            print(f"\n{count_text(failed)} failed, too many to be run once more", flush=True)
            return code, []
        print(f"\n== once more, alone: {count_text(failed)}", flush=True)
        code, again = run_pytest([*common, "-m", marker, *failed], cache)
        return code or (FAILED if again else 0), [name for name in failed if name not in again]


def count_text(names: Sequence[str]) -> str:
    """Return how many tests these are."""
    return "1 test" if len(names) == 1 else f"{len(names)} tests"


def main(words: Sequence[str]) -> int:
    """Run both passes, the second if the first is green. Returns pytest's exit code."""
    parser = argparse.ArgumentParser(description="the tests of make test", allow_abbrev=False)
    parser.add_argument("--workers", type=int, default=1, metavar="N")
    arguments, common = parser.parse_known_args(words)
    workers = ["-n", str(arguments.workers), "--dist", "worksteal"]
    code, passed_alone = run_pass(BESIDE_OTHERS, common, workers)
    if code == 0:
        code, more = run_pass(BY_THEMSELVES, common, ())
        code = 0 if code == NONE_RAN else code
        passed_alone += more
    if passed_alone:
        print(f"\nFailed beside others, passed alone ({count_text(passed_alone)}):")
        print("".join(f"  {name}\n" for name in passed_alone), end="", flush=True)
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
