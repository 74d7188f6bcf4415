"""Where the time of daemon and launcher goes while one array keeps both busy: flame graphs.

    python benchmarks/flame_graphs.py DIRECTORY [--tasks 8000] [--py-spy PROGRAM]

Writes DIRECTORY/flame-daemon.svg and flame-launcher.svg, of a machine alone that runs `true` as
throughput.py does, as root with all limits. Samples are taken by py-spy (`pip install py-spy`, into
any environment), also of native code; those of threads that wait for something to do are left out.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.flame_graph import flame_graph
from harness.private_iriai import PrivateIriai
from harness.report import progress
from throughput import CPUS, WARM_UP_TASKS, run_array

from iriai.client import Client

TASKS = 8_000
SAMPLES_PER_S = 250
PARTS = ("daemon", "launcher")


def sampler(py_spy: str, pid: int, folder: Path, part: str) -> subprocess.Popen[bytes]:
    """Begin to sample a process, until it is told to stop."""
    words = ["record", "--pid", str(pid), "--rate", str(SAMPLES_PER_S), "--format", "raw"]
    words += ["--threads", "--nolineno", "--native", "--output", str(folder / part)]
    return subprocess.Popen([py_spy, *words], stdout=subprocess.DEVNULL)


def run(py_spy: str, tasks: int, place: Path) -> None:
    """Run the array and write the pictures."""
    with PrivateIriai(CPUS) as iriai, tempfile.TemporaryDirectory() as folder:
        iriai.as_user(lambda client: run_array(client, iriai.work, WARM_UP_TASKS))
        status = iriai.status()
        pids = (status.daemon_pid, status.launcher_pid or 0)
        samplers = [
            sampler(py_spy, pid, Path(folder), part) for part, pid in zip(PARTS, pids, strict=True)
        ]

        def work(client: Client) -> float:
            return run_array(client, iriai.work, tasks)

        progress(f"{iriai.as_user(work):.0f} tasks a second while samples were taken")
        for each in samplers:
            each.send_signal(signal.SIGINT)
            each.wait()
        for part in PARTS:
            samples = (Path(folder) / part).read_text().splitlines()
            title = f"The {part} during an array of {tasks:,} tasks"
            (place / f"flame-{part}.svg").write_text(flame_graph(samples, title))


def main() -> int:
    """Write the pictures where the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, help="where the pictures go")
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--py-spy", default="py-spy", help="the program, if it is not on PATH")
    given = parser.parse_args()
    py_spy = shutil.which(given.py_spy)
    if py_spy is None:
        parser.error(
            f"there is no program {given.py_spy}: pip install py-spy into any environment, and "
            "name its program with --py-spy"
        )
    if given.tasks < 1:
        parser.error("--tasks must be at least 1")
    given.directory.mkdir(parents=True, exist_ok=True)
    run(py_spy, given.tasks, given.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
