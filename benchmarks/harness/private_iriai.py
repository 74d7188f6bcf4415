"""A private iriai: its own state directory, its own daemon and launcher, ended with the block."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeVar

from harness.descendants import none_left
from harness.kept_folder import kept_folder
from harness.task_user import as_task_user, make_folder
from iriai.client import Client
from iriai.model.problem import Problem
from iriai.wire.reports import StatusReport

END_S_MAX = 30.0
"""For tasks, launcher and daemon to end when they are told to; then they are killed."""
LOG_LINES = 20
"""Of each log, shown when something went wrong: the state directory is about to go."""
_POLL_S = 0.01

_Result = TypeVar("_Result")


class PrivateIriai:
    """Brought up by `with`, with `cpus` to give away; `work` is where tasks may write.

    `system_users`: root may run tasks too. `up_options`: what else `iriai up` is told.
    `jobs_per_user`: another limit than the default. `sections`: more of its configuration. Of iriai
    only commands and the client are used: so an iriai of any commit is brought up alike.
    """

    def __init__(
        self,
        cpus: int,
        *,
        system_users: bool = False,
        up_options: Sequence[str] = (),
        jobs_per_user: int | None = None,
        sections: str = "",
    ) -> None:
        self._up_options = up_options
        # The task user has to reach the socket and the working directory.
        self._folder = kept_folder("iriai-")
        self.state = self._folder / "state"
        self.state.mkdir(mode=0o755)
        configuration = f"[machine]\ncpus = {cpus}\n"
        if system_users:
            configuration += "[identity]\nminimum_uid = 0\n"
        if jobs_per_user is not None:
            configuration += f"[limits]\njobs_per_user = {jobs_per_user}\n"
        (self.state / "iriai.toml").write_text(configuration + sections)
        self.work = make_folder(self._folder / "work")
        self._end = ExitStack()
        self._launcher: int | None = None

    def __enter__(self) -> PrivateIriai:
        with ExitStack() as stack:
            stack.enter_context(none_left())
            self.start()
            self._end = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._end:
            if kind is not None:
                self._tell_what_was_logged()
            self.end()

    def end(self) -> None:
        """End everything."""
        for pid in self._shut_down():
            _await_end(pid, END_S_MAX)

    def start(self) -> None:
        """Bring up what does not run; returns when the daemon answers."""
        program = str(Path(sys.executable).with_name("iriai"))
        command = [program, "up", "--detach", "--state", str(self.state)]
        subprocess.run([*command, *self._up_options], stdout=sys.stderr, check=True)
        self._launcher = self.status().launcher_pid

    def crash(self) -> None:
        """Kill supervisor and daemon; launcher and tasks go on."""
        status = self.status()
        # The supervisor first: it would start the daemon again.
        pids = [status.supervisor_pid, status.daemon_pid]
        doomed = [pid for pid in pids if pid is not None]
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        for pid in doomed:
            _await_end(pid, END_S_MAX)

    def connect(self) -> Client:
        """Return a connection of the calling user."""
        return Client.connect(self.state)

    def status(self) -> StatusReport:
        """Return what the daemon says of itself."""
        with Client.connect(self.state, follow=False) as client:
            return client.status()

    def pids(self) -> list[int]:
        """Return the processes of this iriai: supervisor, daemon, launcher."""
        status = self.status()
        found = (status.supervisor_pid, status.daemon_pid, status.launcher_pid)
        return [pid for pid in found if pid is not None]

    def as_user(self, work: Callable[[Client], _Result]) -> _Result:
        """Call `work` with a connection of the user that tasks run as."""

        def connected() -> _Result:
            with self.connect() as client:
                return work(client)

        return as_task_user(connected)

    def _shut_down(self) -> list[int]:
        """Ask for the end of everything; return who will end. What does not is killed later."""
        try:
            pids = self.pids()
            with Client.connect(self.state, follow=False) as client:
                client.down(kill=True)
        except Problem:
            # The daemon does not answer. The launcher has control groups to remove, so it is asked.
            if self._launcher is None:
                return []
            with suppress(ProcessLookupError):
                os.kill(self._launcher, signal.SIGTERM)
            return [self._launcher]
        return pids

    def _tell_what_was_logged(self) -> None:
        for log in sorted((self.state / "log").glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
            sys.stderr.writelines(f"{log.stem}: {line}\n" for line in lines)


def _await_end(pid: int, seconds_max: float) -> None:
    """Wait until there is no process `pid`, or only a zombie of another; at most so long."""
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        # Supervisors that this process started are its children, and stay until they are reaped.
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state in "ZX":
            return
        time.sleep(_POLL_S)
