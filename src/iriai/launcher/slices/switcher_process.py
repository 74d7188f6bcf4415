"""The launcher's side of the process that switches: started, told, lost and started again."""

from __future__ import annotations

import logging
import os
import signal
import socket
from contextlib import suppress

import msgspec

from iriai.launcher.containment.container import FreezerFile
from iriai.launcher.contract.messages import Enforcement
from iriai.launcher.pmi.pmi_sockets import Watch
from iriai.launcher.slices.precision import switching_row
from iriai.launcher.slices.real_time import take_real_time
from iriai.launcher.slices.switch_messages import (
    FromSwitcher,
    Obeyed,
    Schedule,
    Switched,
    TurnOfGroup,
)
from iriai.launcher.slices.switcher import fork_switcher
from iriai.launcher.system.timers import Timers
from iriai.model.bounds import decoded
from iriai.model.time_slices import NO_CYCLES, Cycles
from iriai.system.clock import steady_s
from iriai.system.frames import FrameReader, frame

log = logging.getLogger(__name__)

ANSWER_S = 2.0
"""How long it may take to obey, before it is ended and another one started. It answers within a
fraction of a millisecond where it has real-time priority."""
START_S = 30.0
"""How long it may take to begin."""
PAUSE_S = 1.0
"""Between two starts, after the first."""
RECEIVE_BYTES = 1 << 16
_encode = msgspec.msgpack.Encoder().encode


class Switcher:
    """Has groups frozen and thawed in turns by a process of its own, while there are any.

    A group that is lent is written to by that process alone. Whoever wants to freeze or thaw it
    withdraws it first.
    """

    is_over = False
    """It is the subject of its timer."""
    has_news = False
    """Whether `news` may return something."""

    def __init__(self, watch: Watch, timers: Timers, version: int) -> None:
        """`version` of control groups has the freezers; 0: there are none."""
        self._version = version
        self._watch = watch
        self._timers = timers
        self._lent: dict[str, TurnOfGroup] = {}
        self._cycles: Cycles = NO_CYCLES
        self._number = 0
        self._obeyed = 0
        """The last schedule that is known to be in force."""
        self.is_dirty = False
        """Whether `flush` has something to tell."""
        self._socket: socket.socket | None = None
        """None: there is no process."""
        self._is_ready = False
        """Whether the process has begun; before that it knows of no group."""
        self._reader = FrameReader()
        self._decoder: msgspec.msgpack.Decoder[FromSwitcher]
        """Made with the first process: others need not pay for it."""
        self._pid = 0
        self._started_s = float("-inf")
        self._precision: Switched | None = None
        """How late switches were, as last told."""
        self._told = self.enforcement()

    @property
    def pid(self) -> int:
        """The process; 0: there is none."""
        return 0 if self._socket is None else self._pid

    def enforcement(self) -> Enforcement:
        """Return how exactly tasks take turns here."""
        return switching_row(self._version, self._precision)

    def news(self) -> Enforcement | None:
        """Return the same if it has changed since the last call."""
        self.has_news = False
        row = self.enforcement()
        if row == self._told:
            return None
        self._told = row
        return row

    def follow(self, cycles: Cycles) -> None:
        """Switch by these from the next `flush` on."""
        self._cycles, self.is_dirty = cycles, True

    def lend(self, file: FreezerFile, mask: int) -> None:
        """Switch this group as well, from the next `flush` on."""
        self._lent[file.path] = TurnOfGroup(file, mask)
        self.is_dirty = True

    def change(self, path: str, mask: int) -> None:
        """Switch a group that is lent in other rows, from the next `flush` on."""
        self._lent[path] = self._lent[path]._replace(mask=mask)
        self.is_dirty = True

    def withdraw(self, *paths: str) -> None:
        """Leave these groups as they are; returns once that is so."""
        had = [self._lent.pop(path, None) for path in paths]
        if any(had):
            self._send(start=False)
            self._await_obedience()

    def flush(self) -> None:
        """Tell the process what has changed; start it if there is none."""
        self.is_dirty = False
        if not self._lent and not self._cycles.now.takes_turns:
            self._end()
        elif self._lent or self._socket is not None:
            self._send(start=True)

    # --- the process -----------------------------------------------------------------------------

    def _send(self, *, start: bool) -> None:
        if self._socket is None and start:
            self._start()
        if self._socket is None or not self._is_ready:
            return  # it is told everything once it has begun
        self._number += 1
        schedule = Schedule(self._number, self._cycles, tuple(self._lent.values()))
        self.is_dirty = False
        try:
            self._socket.sendall(frame(_encode(schedule)))
        except OSError as error:  # it is gone, or hangs
            self._lost(f"it cannot be told anything: {error.strerror or error}")

    def _start(self) -> None:
        now_s = steady_s()
        if now_s < self._started_s + PAUSE_S:
            self._timers.add(self._started_s + PAUSE_S, self, lambda _: self._restart())
            return
        self._started_s = now_s
        try:
            self._pid, own = fork_switcher()
        except OSError:
            log.exception("time slices stand still: the process that switches cannot be started")
            self._timers.add(now_s + PAUSE_S, self, lambda _: self._restart())
            return
        self._decoder = msgspec.msgpack.Decoder(FromSwitcher)
        take_real_time(self._pid)  # at once: among busy tasks it would begin late
        own.settimeout(ANSWER_S)
        self._socket, self._reader, self._is_ready = own, FrameReader(), False
        self._timers.add(now_s + START_S, self, lambda _: self._give_up_start(own))
        self._watch.begin(own.fileno(), self._receive)

    def _restart(self) -> None:
        if self._socket is None and self._lent:
            self.flush()

    def _give_up_start(self, own: socket.socket) -> None:
        if self._socket is own and not self._is_ready:
            self._lost(f"it has not begun within {START_S:g} s")

    def _await_obedience(self) -> None:
        end_s = steady_s() + ANSWER_S
        while self._socket is not None and self._is_ready and self._obeyed < self._number:
            left_s = end_s - steady_s()
            if left_s <= 0.0:
                self._lost("it does not answer")
                return
            self._socket.settimeout(left_s)
            self._receive_some(0)
        if self._socket is not None:
            self._socket.settimeout(ANSWER_S)

    def _receive(self) -> None:
        self._receive_some(socket.MSG_DONTWAIT)

    def _receive_some(self, flags: int) -> None:
        if self._socket is None:
            return
        try:
            content = self._socket.recv(RECEIVE_BYTES, flags)
            frames = self._reader.feed(content)
            messages = [decoded(self._decoder, each) for each in frames]
        except (BlockingIOError, TimeoutError):
            return
        except (OSError, ValueError) as error:
            self._lost(str(error))
            return
        for message in messages:
            self._handle(message)
        if not content:
            self._lost("it has ended")

    def _handle(self, message: FromSwitcher) -> None:
        match message:
            case Obeyed(number, failed):
                self._obeyed = number
                if not self._is_ready:
                    self._is_ready = True
                    self._send(start=False)
                for path, code in failed:
                    log.warning("%s could not be switched: %s", path, os.strerror(code))
            case Switched():
                self._precision, self.has_news = message, True

    def _lost(self, why: str) -> None:
        """Start another process; until then all groups stay as they are."""
        log.warning("the process that switches between time slices is replaced: %s", why)
        self.close()
        with suppress(ChildProcessError):  # it was reaped, and its number may be another's
            if not os.waitpid(self._pid, os.WNOHANG)[0]:
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)  # it writes nothing any more
        if self._lent:
            self._send(start=True)

    def _end(self) -> None:
        """Have the process end, which has no groups."""
        if self._socket is not None:
            self.close()

    def close(self) -> None:
        """Leave the process: it freezes what it switches, and ends."""
        if self._socket is not None:
            self._watch.end(self._socket.fileno())
            self._socket.close()
            self._socket = None
