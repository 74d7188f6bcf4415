"""The process that freezes and thaws groups when a slice begins.

The launcher forks it where tasks take turns, and says by `Schedule` which and when. It waits for
nothing but the clock and the launcher: what it writes to is open by then, its memory is locked, and
it collects no garbage. When the launcher dies it freezes all that it switches between, and ends:
nothing goes on out of its turn, and the next launcher ends what it finds (spec 015).
"""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress

import msgspec

from iriai.launcher.containment.container import FreezerFile
from iriai.launcher.slices.precision import Lateness
from iriai.launcher.slices.real_time import (
    bound_real_time,
    is_real_time,
    lock_memory,
    take_real_time,
)
from iriai.launcher.slices.switch_messages import (
    FromSwitcher,
    Obeyed,
    Schedule,
    Switched,
    TurnOfGroup,
)
from iriai.launcher.system.forked_process import fork_process
from iriai.launcher.system.syscalls import BootTimer
from iriai.model.bounds import decoded
from iriai.system.clock import steady_s
from iriai.system.frames import FrameReader, frame

REPORT_S = 10.0
"""Between two words to the launcher of how late switches are."""
RECEIVE_BYTES = 1 << 18
PROCESS_NAME = "iriai-switch"
_encode = msgspec.msgpack.Encoder().encode


class _Group:
    """One group that takes turns, with its open file."""

    def __init__(self, file: FreezerFile) -> None:
        """Raises OSError."""
        self.file = file
        self.mask = 0
        self.runs: bool | None = None
        """What was written last; None: nothing, or it failed."""
        self._fd = os.open(file.path, os.O_WRONLY | os.O_CLOEXEC)

    def write(self, *, runs: bool) -> None:
        """Thaw or freeze it. Raises OSError."""
        self.runs = None
        os.write(self._fd, self.file.thawed if runs else self.file.frozen)
        self.runs = runs

    def close(self) -> None:
        """Close its file; the group stays as it is."""
        os.close(self._fd)


class SwitcherLoop:
    """Obeys the launcher, and the clock."""

    def __init__(self, launcher: socket.socket) -> None:
        self._launcher = launcher
        self._reader, self._decoder = FrameReader(), msgspec.msgpack.Decoder(Schedule)
        self._groups: dict[str, _Group] = {}
        self._schedule = Schedule(0)
        self._timer = BootTimer()
        self._due_s = float("inf")
        """When the next slice begins."""
        self._lateness = Lateness()
        self._report_s = 0.0
        self._failed: list[tuple[str, int]] = []

    def run(self) -> None:
        """Switch until the launcher is gone."""
        poll = select.poll()
        poll.register(self._launcher.fileno(), select.POLLIN)
        poll.register(self._timer.fd, select.POLLIN)
        self._tell(Obeyed(0))
        while True:
            self._timer.set(self._due_s if self._groups else None)
            ready = [fd for fd, _ in poll.poll()]
            if self._timer.fd in ready:
                self._timer.acknowledge()
            if self._groups and steady_s() >= self._due_s:
                self._switch()
            if self._launcher.fileno() in ready and not self._listen():
                break
        for group in self._groups.values():
            self._write(group, runs=False)

    def _switch(self) -> None:
        """Stop whose slice is over, then let the next ones go on."""
        due_s, now_s = self._due_s, steady_s()
        self._bring_about(now_s)
        self._due_s = self._schedule.cycles.next_s(now_s)
        done_s = steady_s()
        self._lateness.add(done_s - due_s)
        if done_s >= self._report_s:
            self._report_s = done_s + REPORT_S
            self._tell(self._precision())

    def _bring_about(self, now_s: float) -> None:
        """Freeze and thaw what is not as it has to be now."""
        cycle, comes = self._schedule.cycles.at(now_s), []
        row = cycle.row_at(now_s)
        for group in self._groups.values():
            runs = not cycle.takes_turns or bool(group.mask >> row & 1)
            if group.runs is not runs:
                if runs:
                    comes.append(group)
                else:
                    self._write(group, runs=False)
        for group in comes:
            self._write(group, runs=True)

    def _write(self, group: _Group, *, runs: bool) -> None:
        try:
            group.write(runs=runs)
        except OSError as error:
            self._fail(group.file, error)

    def _fail(self, file: FreezerFile, error: OSError) -> None:
        if len(self._failed) < len(self._groups) + 1:
            self._failed.append((file.path, error.errno or 0))

    def _listen(self) -> bool:
        """Take in what the launcher says; return False if it is gone."""
        try:
            content = self._launcher.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        frames = self._reader.feed(content)
        if frames:  # each has the whole
            self._obey(decoded(self._decoder, frames[-1]))
        return bool(content)

    def _obey(self, schedule: Schedule) -> None:
        wanted = {each.file.path: each for each in schedule.groups}
        for path in [path for path in self._groups if path not in wanted]:
            self._groups.pop(path).close()
        for path, each in wanted.items():
            group = self._groups.get(path) or self._opened(each)
            if group is not None:
                group.mask = each.mask
        self._schedule = schedule
        now_s = steady_s()
        self._bring_about(now_s)
        self._due_s = schedule.cycles.next_s(now_s)
        failed, self._failed = tuple(self._failed), []
        self._tell(Obeyed(schedule.number, failed))

    def _opened(self, turn: TurnOfGroup) -> _Group | None:
        try:
            group = self._groups[turn.file.path] = _Group(turn.file)
        except OSError as error:
            self._fail(turn.file, error)
            return None
        return group

    def _precision(self) -> Switched:
        late = self._lateness
        return Switched(len(late), late.percentile(50), late.percentile(99), is_real_time())

    def _tell(self, message: FromSwitcher) -> None:
        with suppress(OSError):  # the launcher is gone, or does not listen
            self._launcher.send(frame(_encode(message)), socket.MSG_DONTWAIT)


def fork_switcher() -> tuple[int, socket.socket]:
    """Start the process; return its number and the launcher's end. Raises OSError."""
    return fork_process(PROCESS_NAME, _serve)


def _serve(launcher: socket.socket) -> None:
    """Serve the launcher in the forked process."""
    bound_real_time()
    take_real_time()
    lock_memory()
    SwitcherLoop(launcher).run()
