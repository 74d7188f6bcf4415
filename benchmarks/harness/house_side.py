"""One warm `iriai submit -- sleep 1` at the iriai of this interpreter: which files run for it.

Run by house.py. Prints one JSON object: files, calls and moves of each process.
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
JOB_S = 1
AFTER_S = 2.0
"""Until its end is told to everybody."""
SUPERVISOR_S = 5.5
"""Until the supervisor has looked at its logs, in which there is a line of it."""


def main() -> None:
    """Print what one submission takes."""
    directory = Path(os.environ[trace_moves.VARIABLE])
    flag = directory / trace_moves.RECORDING
    with PrivateIriai(2, system_users=True) as iriai:
        program = str(Path(sys.executable).with_name("iriai"))
        submit = [program, "submit", "--state", str(iriai.state), "--", "sleep", str(JOB_S)]
        pids = {
            "supervisor": iriai.status().supervisor_pid,
            "daemon": iriai.status().daemon_pid,
            "launcher": iriai.status().launcher_pid,
        }
        for _ in range(WARM_UPS):
            _run(submit, iriai.work)
        flag.touch()
        pids["command"] = _run(submit, iriai.work)
        longer = flag.with_name(f"{trace_moves.RECORDING}.{pids['supervisor']}")
        longer.touch()
        flag.unlink()
        time.sleep(SUPERVISOR_S)
        longer.unlink()
    # Only now: one that was idle since leaves what it counted when it is shut down.
    print(json.dumps({part: _left(directory, pid) for part, pid in pids.items()}))


def _run(command: list[str], folder: Path) -> int:
    """Submit, and wait for the end of the job; returns the command's process id."""
    environment = {key: each for key, each in os.environ.items() if not key.startswith("IRIAI_")}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=sys.stderr) as process:
        if process.wait():
            raise RuntimeError("the job was not submitted")
    time.sleep(JOB_S + AFTER_S)
    return process.pid


def _left(directory: Path, pid: int | None) -> object:
    return json.loads((directory / f"{pid}.json").read_text())


if __name__ == "__main__":
    main()
