"""A whole machine in a directory of its own: supervisor, launcher and daemon as real processes."""

from __future__ import annotations

import os
import pwd
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from iriai.client import Client
from iriai.model.paths import StatePaths
from iriai.supervisor.daemon_probe import DaemonProbe
from iriai.supervisor.up import bring_up
from iriai.system.lock_file import lock_holder
from tests.support.waiting import is_gone, until

PARTS = ("supervisor", "daemon", "launcher")


class RealMachine:
    """Processes of one state directory; whatever is left of them is ended with the test."""

    def __init__(self, directory: Path, daemon_user: str) -> None:
        self.paths = StatePaths(str(directory))
        self._daemon_user = daemon_user

    def configure(self, text: str) -> None:
        """Write `iriai.toml`."""
        Path(self.paths.directory).mkdir(exist_ok=True)
        Path(self.paths.configuration).write_text(text)

    def up(self) -> DaemonProbe:
        """`iriai up --detach`."""
        return bring_up(self.paths.directory, self._daemon_user)

    def pid(self, part: str) -> int | None:
        """The process that is `part` now, if there is one."""
        holder = (
            lock_holder(self.paths.lock(part)) if os.path.exists(self.paths.directory) else None
        )
        return holder if holder is not None and not is_gone(holder) else None

    def pids(self) -> dict[str, int]:
        """All three, once each of them runs."""
        return {part: until(lambda part=part: self.pid(part), f"a {part}") for part in PARTS}

    def kill(self, part: str) -> None:
        """`kill -9` it, and see it gone."""
        pid = self.pid(part)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: is_gone(pid), f"the end of the {part}")

    def client(self) -> Client:
        """A connection to the daemon."""
        return Client.connect(self.paths.directory)

    def end(self) -> None:
        """End whatever still runs; the launcher in a way that takes its tasks along."""
        for part, number in zip(
            PARTS, (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM), strict=True
        ):
            while (pid := self.pid(part)) is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
                until(lambda pid=pid: is_gone(pid), f"the end of the {part}")


@contextmanager
def real_machine(daemon_user: str | None = None) -> Iterator[RealMachine]:
    """A machine that was never up, in a directory that every user may enter."""
    user = daemon_user or pwd.getpwuid(os.geteuid()).pw_name
    with tempfile.TemporaryDirectory(prefix="iriai-") as name:
        os.chmod(name, 0o755)
        machine = RealMachine(Path(name, "state"), user)
        try:
            yield machine
        finally:
            machine.end()
