"""How long a start takes, and what an idle daemon holds, here and beside another installation.

    python benchmarks/start.py [--runs 7] [--beside OTHER/bin/python]

`first_up_s`: `iriai up` in an empty directory, until the daemon answers; `up_s`: the same where a
store is; `daemon_cpu_s`: processor time that the daemon has used by then; `daemon_rss_mb`,
`launcher_rss_mb`: resident memory SETTLE_S later. `packages`, `installed_mb`: what the environment
holds beside pip and setuptools. With `--beside` the two take turns, the order swapped each round.
Megabytes are 2^20 bytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.kept_folder import kept_folder
from harness.processes import cpu_s, rss_mb
from harness.report import Figure, finish, machine_facts, median, progress

SETTLE_S = 2.0
QUICK_SETTLE_S = 0.1
RUNS = 7
INSTALLED = """
import importlib.metadata as metadata, json, os, sysconfig
names = {each.name.lower() for each in metadata.distributions()} - {"pip", "setuptools"}
tools = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
size = 0
for folder, folders, files in os.walk(root := sysconfig.get_path("purelib")):
    if folder == root:
        folders[:] = [each for each in folders if not each.startswith(tools)]
    size += sum(os.lstat(os.path.join(folder, each)).st_blocks * 512 for each in files)
print(json.dumps({"packages": len(names) - 1, "installed_mb": size / 2**20}))
"""


class Installation:
    """An environment that iriai is installed in."""

    def __init__(self, python: Path, settle_s: float) -> None:
        self._python, self._settle_s = python, settle_s

    def measure(self) -> dict[str, float]:
        """Bring up an iriai twice in one directory."""
        state = kept_folder("iriai-") / "state"
        first_up_s = self._up(state)
        self._iriai("down", state)
        up_s = self._up(state)
        try:
            status = json.loads(self._iriai("status", state, "--json"))
            daemon, launcher = [status["daemon_pid"]], [status["launcher_pid"]]
            used_s = cpu_s(daemon)
            time.sleep(self._settle_s)
            held = {"daemon_rss_mb": rss_mb(daemon), "launcher_rss_mb": rss_mb(launcher)}
        finally:
            self._iriai("down", state, "--kill")
        return {"first_up_s": first_up_s, "up_s": up_s, "daemon_cpu_s": used_s} | held

    def installed(self) -> dict[str, float]:
        """Return what the environment holds: packages beside iriai, and megabytes with it."""
        found: dict[str, float] = json.loads(_output([str(self._python), "-c", INSTALLED]))
        return found

    def _up(self, state: Path) -> float:
        began_s = time.perf_counter()
        self._iriai("up", state, "--detach")
        return time.perf_counter() - began_s

    def _iriai(self, command: str, state: Path, *words: str) -> str:
        program = str(self._python.with_name("iriai"))
        return _output([program, command, "--state", str(state), *words])


def _output(command: list[str]) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> None:
    """Measure, and say it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="medians of so many runs")
    parser.add_argument("--beside", type=Path, help="the Python of another environment")
    parser.add_argument("--quick", action="store_true", help="one run, as a check")
    parser.add_argument("--no-peers", action="store_true", help="there is no other system")
    given = parser.parse_args()
    runs, settle_s = (1, QUICK_SETTLE_S) if given.quick else (given.runs, SETTLE_S)
    machine = machine_facts(Path(tempfile.gettempdir()))
    sides = {"here": Installation(Path(sys.executable), settle_s)}
    if given.beside is not None:
        sides["beside"] = Installation(given.beside, settle_s)
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for run in range(runs):
        progress(f"run {run + 1} of {runs}")
        for name in sorted(sides, reverse=bool(run % 2)):
            samples[name].append(sides[name].measure())
    figures: dict[str, dict[str, Figure]] = {
        name: {key: median([each[key] for each in taken], 3) for key in taken[0]}
        | {key: round(value, 1) for key, value in sides[name].installed().items()}
        for name, taken in samples.items()
    }
    others = {name: each for name, each in figures.items() if name != "here"}
    finish(
        figures["here"]
        | others
        | {"settings": {"runs": runs, "settle_s": settle_s}, "machine": machine}
    )


if __name__ == "__main__":
    main()
