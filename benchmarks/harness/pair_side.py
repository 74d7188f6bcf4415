"""One of two commits that `pair.py` compares: a private iriai that is measured when it is asked.

Runs with the Python of that commit's environment, and with today's programs; with the commit's own
where names of iriai were others then. Reads a JSON object from each line of standard input
(`measure`, `count`) and answers with one; the first line says whose programs they are.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import count_calls
from harness.processes import cpu_s
from harness.report import percentile
from iriai.client import Client

PROGRAMS = "of today"
"""Whose programs measure."""
try:
    import latency
    import throughput

    from harness.private_iriai import PrivateIriai
except ModuleNotFoundError:
    for name in [each for each in sys.modules if each.partition(".")[0] == "harness"]:
        del sys.modules[name]
    PROGRAMS = "of the commit itself"
    # Of the environment beside which the commit lies, not of the Python that it may link to.
    sys.path[0] = str(Path(sys.executable).parent.parent.parent / "benchmarks")
    import latency
    import throughput

    from harness.private_iriai import PrivateIriai

Measure = Callable[[Client, Path, int], float]


def _latency_p50_ms(client: Client, folder: Path, count: int) -> float:
    return percentile(latency.job_times_ms(client, folder, count), 50)


MEASURES: dict[str, Measure] = {
    "array_per_s": throughput.run_array,
    "single_per_s": throughput.run_singles,
    "single_pipelined_per_s": throughput.run_pipelined,
    "single_p50_ms": _latency_p50_ms,
}


class Side:
    """The iriai of one commit, and how its processes are watched."""

    def __init__(self, iriai: PrivateIriai) -> None:
        self._iriai = iriai
        status = iriai.status()
        self._pids = {"daemon": status.daemon_pid, "launcher": status.launcher_pid or 0}

    def measure(self, name: str, count: int) -> dict[str, float]:
        """Measure one figure, with what daemon and launcher did for each task meanwhile."""
        before = self._spent()
        figure = self._iriai.as_user(lambda client: MEASURES[name](client, self._iriai.work, count))
        spent = {key: value - before[key] for key, value in self._spent().items()}
        return {name: figure} | {key: value / count for key, value in spent.items()}

    def _spent(self) -> dict[str, float]:
        directory = os.environ.get(count_calls.VARIABLE)
        if directory is not None:
            return {
                f"{part}_calls": float(count_calls.read(directory, pid))
                for part, pid in self._pids.items()
            }
        return {f"{part}_ms": 1000 * cpu_s(_with_helper(pid)) for part, pid in self._pids.items()}


def _with_helper(pid: int) -> list[int]:
    """Return a process and the helper of it that starts tasks, if it keeps one."""
    found = [pid]
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):  # a task that has ended meanwhile
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"/iriai-exec") and words[1].startswith(b"s="):
                found.append(int(child))
    return found


def main() -> None:
    """Answer until standard input ends."""
    with PrivateIriai(throughput.CPUS) as iriai:
        side = Side(iriai)
        print(json.dumps({"programs": PROGRAMS}), flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            print(json.dumps(side.measure(asked["measure"], asked["count"])), flush=True)


if __name__ == "__main__":
    main()
