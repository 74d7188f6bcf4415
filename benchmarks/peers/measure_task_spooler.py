"""task-spooler (`tsp`): a client process for each task, which runs the task itself when told to.

`tsp -nf` waits for its turn in the foreground, so its end is the task's end and no second process
is needed to learn of it. The output goes to the file the caller opened (`-n`), which is faster than
task-spooler's own file. Several such clients are kept going at once, since each waits for its turn.
"""

import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
from pathlib import Path

from report import WARM_UP_TASKS, answer, cpus, latencies, make_folder, parse, rate, require_outputs

# Anything from one to eight a processor is the same within the noise.
SLOTS_PER_CPU = 4
# Finished jobs are a linked list that is walked at each change: keep it short.
FINISHED_KEPT = 1
CONNECTIONS_MAX = 1000
STOP_TIMEOUT_S = 10


class Spooler:
    """A private task-spooler server, whose socket and files lie in `folder`."""

    def __init__(self, folder: Path, slots: int) -> None:
        program = shutil.which("tsp")
        if program is None:
            raise SystemExit("there is no program tsp; apt-get install task-spooler")
        self.program = program
        self.socket_path = folder / "socket"
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": "/",
            "TMPDIR": str(folder),
            "TS_SOCKET": str(self.socket_path),
            "TS_SLOTS": str(slots),
            "TS_MAXFINISHED": str(FINISHED_KEPT),
            "TS_MAXCONN": str(CONNECTIONS_MAX),
        }
        # Any call starts the server; it stays when the call has ended.
        subprocess.run([program], env=self.environment, stdout=subprocess.DEVNULL, check=True)
        self.server = os.pidfd_open(self.server_pid())

    def server_pid(self) -> int:
        """Return the pid of the process that listens on the socket."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(self.socket_path))
            credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid: int = struct.unpack("3i", credentials)[0]
        return pid

    def spawn(self, output_path: str) -> int:
        """Start a client that runs `true` when its turn comes; return the client's pid."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        actions = [
            (os.POSIX_SPAWN_OPEN, 1, output_path, flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        command = [self.program, "-nf", "true"]
        return os.posix_spawn(self.program, command, self.environment, file_actions=actions)

    def version(self) -> str:
        """Return what `tsp -V` says the version is."""
        said = subprocess.run(
            [self.program, "-V"], env=self.environment, capture_output=True, text=True, check=False
        )
        found = re.search(r"v?(\d+(\.\d+)+)", said.stdout + said.stderr)
        return found.group(1) if found else "unknown"

    def stop(self) -> None:
        """Ask the server to end and kill it if it does not within STOP_TIMEOUT_S seconds."""
        subprocess.run([self.program, "-K"], env=self.environment, check=False)
        if not select.select([self.server], [], [], STOP_TIMEOUT_S)[0]:
            signal.pidfd_send_signal(self.server, signal.SIGKILL)
        os.close(self.server)


def reap(pid: int) -> int:
    """Wait for `pid` (-1: any client), and return its pid; raise RuntimeError if it failed."""
    ended, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError(f"a task ended with {os.waitstatus_to_exitcode(status)}")
    return ended


def run_all(spooler: Spooler, tasks: int, outstanding: int, folder: Path) -> None:
    """Run `tasks` tasks with up to `outstanding` clients at a time."""
    alive = 0
    for number in range(tasks):
        if alive == outstanding:
            reap(-1)
            alive -= 1
        spooler.spawn(f"{folder}/{number}")
        alive += 1
    for _ in range(alive):
        reap(-1)


def main() -> None:
    """Start a private server, measure, and end it."""
    arguments = parse("task-spooler")
    slots = SLOTS_PER_CPU * cpus()
    folder = make_folder("tsp-")
    warm = folder / "warm"
    timed = folder / "timed"
    warm.mkdir()
    timed.mkdir()
    spooler = Spooler(folder, slots)
    try:
        run_all(spooler, WARM_UP_TASKS, slots, warm)
        if arguments.measure == "throughput":
            figures = rate(arguments.tasks, lambda: run_all(spooler, arguments.tasks, slots, timed))
        else:
            figures = latencies(
                arguments.tasks, lambda number: reap(spooler.spawn(f"{timed}/{number}"))
            )
        require_outputs(timed, arguments.tasks)
        version = spooler.version()
    finally:
        spooler.stop()
    settings: dict[str, object] = {
        "slots": slots,
        "clients_at_a_time": slots if arguments.measure == "throughput" else 1,
        "spawn": "os.posix_spawn of `tsp -nf true` a task, which forks the task",
        "output": "a file each",
        "finished_kept": FINISHED_KEPT,
    }
    answer("task_spooler", version, arguments.tasks, figures, settings)


if __name__ == "__main__":
    main()
