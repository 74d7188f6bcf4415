"""Warm `iriai submit -- sleep 0.5`, one by one, at the iriai of this interpreter: what runs for it.

Run by house.py. Prints one JSON object: of each process the files that run for every submission,
the least calls and moves of one, and the moves of each. What else falls into a submission only adds
to them: a measurement of the load, an alarm, and on a busy machine a commit or two.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import trace_moves
from harness.private_iriai import PrivateIriai

WARM_UPS = 3
SUBMISSIONS = 7
JOB_S = 0.5
"""Less than the second after which the record of its start is stored alone, if nothing else is."""
AFTER_S = 2.0
"""Until its end is told to everybody."""
SUPERVISOR_S = 5.5
"""Until the supervisor has looked at its logs, in which there is a line of it."""


def main() -> None:
    """Print what one submission takes."""
    directory = Path(os.environ[trace_moves.VARIABLE])
    flag = directory / trace_moves.RECORDING
    numbers = [str(number) for number in range(SUBMISSIONS)]
    with PrivateIriai(2, system_users=True) as iriai:
        program = str(Path(sys.executable).with_name("iriai"))
        submit = [program, "submit", "--state", str(iriai.state), "--", "sleep", str(JOB_S)]
        status = iriai.status()
        for _ in range(WARM_UPS):
            _run(submit, iriai.work)
        commands = []
        for number in numbers:
            flag.symlink_to(number)
            commands.append(_run(submit, iriai.work))
            flag.unlink()
        whole = flag.with_name(f"{trace_moves.RECORDING}.{status.supervisor_pid}")
        whole.symlink_to("whole")
        _run(submit, iriai.work)
        time.sleep(SUPERVISOR_S)
        whole.unlink()
    # Only now: one that was idle since leaves what it counted when it is shut down.
    left = {
        "supervisor": [_left(directory, status.supervisor_pid, "whole")],
        "daemon": [_left(directory, status.daemon_pid, number) for number in numbers],
        "launcher": [_left(directory, status.launcher_pid, number) for number in numbers],
        "command": [_left(directory, *each) for each in zip(commands, numbers, strict=True)],
    }
    print(json.dumps({part: _summary(counts) for part, counts in left.items()}))


def _run(command: list[str], folder: Path) -> int:
    """Submit, and wait for the end of the job; returns the command's process id."""
    environment = {key: each for key, each in os.environ.items() if not key.startswith("IRIAI_")}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=sys.stderr) as process:
        if process.wait():
            raise RuntimeError("the job was not submitted")
    time.sleep(JOB_S + AFTER_S)
    return process.pid


def _left(directory: Path, pid: int | None, number: str) -> trace_moves.Counts:
    counts: trace_moves.Counts = json.loads((directory / f"{pid}.{number}.json").read_text())
    return counts


def _summary(counts: list[trace_moves.Counts]) -> dict[str, object]:
    return {
        "files": sorted(set.intersection(*(set(each["files"]) for each in counts))),
        "calls": min(each["calls"] for each in counts),
        "moves": min(each["moves"] for each in counts),
        "moves_of_each": [each["moves"] for each in counts],
    }


if __name__ == "__main__":
    main()
