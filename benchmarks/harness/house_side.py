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
LEFT_S_MAX = 60.0
"""For each process to leave what it counted: the supervisor looks at its logs now and then."""


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
        command = _run(submit, iriai.work)
        flag.unlink()
        found = {part: _left(directory, pid) for part, pid in pids.items() if pid is not None}
    found["command"] = _left(directory, command)
    print(json.dumps(found))


def _run(command: list[str], folder: Path) -> int:
    """Submit, and wait for the end of the job; returns the command's process id."""
    with subprocess.Popen(command, cwd=folder, stdout=sys.stderr) as process:
        if process.wait():
            raise RuntimeError("the job was not submitted")
    time.sleep(JOB_S + AFTER_S)
    return process.pid


def _left(directory: Path, pid: int) -> object:
    file = directory / f"{pid}.json"
    deadline_s = time.monotonic() + LEFT_S_MAX
    while not file.exists():
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"process {pid} left nothing")
        time.sleep(0.1)
    time.sleep(0.1)
    return json.loads(file.read_text())


if __name__ == "__main__":
    main()
