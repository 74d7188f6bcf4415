"""A real launcher process, and the daemon's own link to it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from iriai.daemon.loop.routes import Routes
from iriai.daemon.tasks.launcher_client import LauncherClient
from iriai.daemon.tasks.spool import Spool
from iriai.daemon.tasks.task_streams import TaskStreams
from iriai.jobs.payloads import PayloadStore
from iriai.launcher.contract.machine_config import MachineSettings, write_machine_file
from iriai.launcher.owner.sensor_messages import SIGN_PAUSE_S
from iriai.model.ids import AttemptId
from iriai.protocol.messages.effects import Effect, LauncherAttached, LauncherLost
from iriai.sim.world.work import Work
from iriai.system.clock import steady_s, wall_s
from tests.conformance.place import GAME, Place
from tests.launcher.harness import WAIT_S, Machine, is_running
from tests.launcher.owner.desk import Desk

LOOK_S = 0.005
"""Between two looks at what is waited for."""
NO_PREPARATION = "#!/bin/sh\nexit 1\n"


class RealPlace(Place):
    """See the module."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine
        self.user = machine.user
        self.directory = str(machine.work)
        self._game: subprocess.Popen[bytes] | None = None
        self._loop = asyncio.new_event_loop()
        self._link: LauncherClient | None = None
        self._prolog = machine.programs / "prolog"
        self._prolog.write_text(NO_PREPARATION)
        self._prolog.chmod(0o755)
        self._own(self._prolog)
        machine.devices = machine.directory / "dev"
        self._desk = Desk(machine.devices)
        self._desk.add_device()
        machine.start()
        self.attach()

    def prepare(self, attempt: AttemptId, work: Work) -> tuple[str, ...]:
        """A shell that notes its process id, and then does it."""
        _, exit_code, number = work.end
        end = f"exit {exit_code}" if number is None else f"kill -{number} $$"
        wait = f"sleep {work.run_s:g}; " if work.run_s else ""
        trap = "trap '' TERM; " if work.stubborn else ""
        return ("sh", "-c", f"{trap}echo $$ >> began-{attempt.number}; {wait}{end}")

    def order(self, *effects: Effect) -> None:
        assert self._link is not None
        self._link.perform(list(effects))

    def until(self, condition: Callable[[], object], what: str) -> None:
        self._loop.run_until_complete(self._until(condition, what))

    async def _until(self, condition: Callable[[], object], what: str) -> None:
        end_s = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end_s, f"waited in vain for: {what}"
            await asyncio.sleep(LOOK_S)

    def pass_s(self, seconds: float) -> None:
        self._loop.run_until_complete(asyncio.sleep(seconds))

    def steady_s(self) -> float:
        return steady_s()

    def wall_s(self) -> float:
        return wall_s()

    def runs(self, attempt: AttemptId) -> bool:
        return any(map(is_running, self._pids(attempt)))

    def starts(self, attempt: AttemptId) -> int:
        return len(self._pids(attempt))

    def attach(self) -> None:
        if self._link is not None:
            self._link.close()
        self._loop.run_until_complete(self._attach())
        self.until(lambda: self._welcomes, "the launcher's welcome")

    async def _attach(self) -> None:
        self.heard, routes = [], Routes()
        self._link = LauncherClient(
            str(self._machine.socket),
            0,
            PayloadStore(_no_text),
            TaskStreams(Spool(str(self._machine.work)), routes),
            self.heard.append,
            routes,
        )
        self._link.connect()

    @property
    def _welcomes(self) -> bool:
        return any(isinstance(each, LauncherAttached) for each in self.heard)

    def die(self) -> None:
        self._machine.kill()
        self.until(lambda: LauncherLost() in self.heard, "word that the launcher is gone")

    def come_up(self) -> None:
        self._machine.start()
        self.attach()

    def stop(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)
        stat = Path(f"/proc/{self._pid}/stat")
        self.until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "its sleep")

    def wake(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def have_prolog(self, *, fails: bool) -> None:
        write_machine_file(
            str(self._machine.state), MachineSettings(prolog=str(self._prolog) if fails else "")
        )
        self._own(self._machine.state / "machine.json")

    def close(self) -> None:
        """End the launcher and all that it runs."""
        self.play(begins=False)
        assert self._link is not None
        self._link.close()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()
        self._machine.close()
        self._desk.close()

    def use(self) -> None:
        time.sleep(SIGN_PAUSE_S + LOOK_S)  # a second one is not told at once
        self._desk.press()

    def play(self, *, begins: bool) -> None:
        if begins:
            program = self._machine.directory / GAME
            shutil.copy("/bin/sleep", program)
            self._game = subprocess.Popen([program, "600"])
        elif self._game is not None:
            self._game.kill()
            self._game.wait()
            self._game = None

    @property
    def _pid(self) -> int:
        assert self._machine.process is not None
        return self._machine.process.pid

    def _pids(self, attempt: AttemptId) -> list[int]:
        path = self._machine.work / f"began-{attempt.number}"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def _own(self, file: Path) -> None:
        if os.geteuid() == 0 and not self._machine.variant.is_privileged:
            os.chown(file, self._machine.uid, self._machine.gid)


def _no_text(_digest: str) -> bytes:
    return b""
