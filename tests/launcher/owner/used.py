"""A launcher, and an owner who uses its machine."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from iriai.launcher.contract.messages import FreezeState, OwnerSeen, Terminate
from iriai.launcher.owner.sensor_loop import PROCESS_NAME
from iriai.model.ids import AttemptId
from iriai.model.owner import SignKind
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendReason
from iriai.system.procfs import all_processes
from tests.launcher.harness import WAIT_S, Lab, Machine
from tests.launcher.owner.desk import Desk, Typing
from tests.launcher.tasks.test_freezing import BUSY, await_count, goes_on, stands

OWNER, USER = SuspendReason.OWNER, SuspendReason.USER
TERMINAL, INPUT, START = SignKind.TERMINAL, SignKind.INPUT, SignKind.START
SIGN_PAUSE_S = 1.1
"""After that the next sign of a kind is told at once."""
QUIET_S = 0.5
"""For so long nothing is told, where nothing has to be."""


class UsedLab(Lab):
    """Counts its tasks by files: each runs as long as its number rises."""

    def __init__(self, machine: Machine, desk: Desk) -> None:
        super().__init__(machine)
        self.desk = desk

    def begin(self, name: str = "count", **more: object) -> AttemptId:
        """Start a task that counts."""
        return self.launch(self.python(BUSY.replace("count", name), output="", **more))

    def runs(self, name: str = "count") -> None:
        await_count(self, name)
        assert goes_on(self, name)

    def stands(self, name: str = "count") -> None:
        assert stands(self, name)

    def watch(self, *exempt: AttemptId) -> None:
        """Give a first order, and let the sign with which watching begins be over."""
        self.link.watch_owner(*exempt)
        self.await_sign(START)
        self.release(*exempt)

    def release(self, *exempt: AttemptId) -> None:
        """Say that the signs that were told are over."""
        self.link.watch_owner(*exempt, signs=self.seen.signs, are_over=True)

    @property
    def seen(self) -> OwnerSeen:
        return self.link.seen[-1]

    def await_sign(self, kind: SignKind, after: int = 0) -> None:
        """Wait until a sign of this kind is told that was not before `after` were."""
        self.link.until(lambda: self._is_told(kind, after), f"a sign of {kind}")

    def _is_told(self, kind: SignKind, after: int) -> bool:
        told = [each for each in self.link.seen if each.signs > after]
        return any(sign.kind is kind for each in told for sign in each.last)

    def use(self) -> None:
        """Press a key; returns once that was told."""
        before = self.seen.signs
        time.sleep(SIGN_PAUSE_S)
        self.desk.press()
        self.await_sign(INPUT, before)

    def type(self, terminal: Typing) -> None:
        """Type at a terminal that may not be watched yet, until that was told."""
        before = self.seen.signs
        end_s = time.monotonic() + WAIT_S
        while not self._is_told(TERMINAL, before):
            assert time.monotonic() < end_s, "nobody has noticed it"
            terminal.type()
            time.sleep(0.1)
            self.machine.wait_until_read(self.link)

    def told(self, attempt: AttemptId, *reasons: SuspendReason) -> FreezeState:
        """Wait until the last word about an attempt has these reasons."""

        def last() -> list[FreezeState]:
            return [each for each in self.link.frozen if each.attempt == attempt][-1:]

        self.link.until(
            lambda: [each.reasons for each in last()] == [reasons], f"{attempt} with {reasons}"
        )
        return last()[0]

    def nothing_is_told(self) -> None:
        before = self.seen.signs
        time.sleep(QUIET_S)
        self.machine.wait_until_read(self.link)
        assert self.seen.signs == before

    def cancel(self, *attempts: AttemptId) -> None:
        self.link.send(Terminate(attempts, EndCause.CANCELLED, 0.0))
        for each in attempts:
            self.link.exit_of(each)


def sensors_of(machine: Machine) -> list[int]:
    """The process that watches for this launcher, if there is one."""
    assert machine.process is not None
    parent = machine.process.pid
    children = [each.pid for each in all_processes() if each.parent == parent and each.is_live]
    return [pid for pid in children if _name(pid) == PROCESS_NAME]


def _name(pid: int) -> str:
    """The name of a process; empty: it has ended meanwhile."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
