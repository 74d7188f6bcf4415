"""The launcher's side of the process with the sensors: started, heard, lost and started again."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

import msgspec

from iriai.launcher.owner.sensor_messages import (
    FRAME_BYTES_MAX,
    REPORT_S,
    FromSensors,
    WatchConditions,
)
from iriai.launcher.pmi.pmi_sockets import Watch
from iriai.launcher.slices.real_time import take_real_time
from iriai.launcher.system.timers import Timers
from iriai.model.bounds import decoded
from iriai.model.owner import NO_CONDITIONS, SensorSettings
from iriai.system.clock import steady_s
from iriai.system.frames import FrameReader, frame

log = logging.getLogger(__name__)

PAUSE_S = 1.0
"""Between two starts, after the first."""
SILENT_MAX = 3
"""So many times `REPORT_S` without a word, and it is replaced. Counted one by one: when the machine
wakes, one of them is over."""
RECEIVE_BYTES = 1 << 16


class SensorProcess:
    """Keeps the process running, once it is wanted."""

    is_over = False
    """It is the subject of its timers."""

    def __init__(
        self,
        watch: Watch,
        timers: Timers,
        devices: str,
        state: str,
        own: tuple[str, int],
        hear: Callable[[FromSensors], None],
        lost: Callable[[str], None],
    ) -> None:
        """`devices` is like /dev, `state` the state directory.

        `own` is the control group above all tasks that counts processor time, and its version.
        `hear` is called with what the process says, `lost` with why there is none now.
        """
        self._watch = watch
        self._timers = timers
        self._devices, self._state = devices, state
        self._owners: tuple[str, ...] = ()
        self._own = own
        self._watched = WatchConditions(NO_CONDITIONS, is_busy=False)
        """What it was told, or is told when it begins."""
        self._hear = hear
        self._lost_word = lost
        self._socket: socket.socket | None = None
        """None: there is no process."""
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._decoder: msgspec.msgpack.Decoder[FromSensors]
        """Made with the first process: others need not pay for it."""
        self._pid = 0
        self._started_s = float("-inf")
        self._is_planned = False
        """Whether a timer will start it."""
        self._silent = 0

    def __contains__(self, session: object) -> bool:
        """Return whether a session is that of the process, or the launcher's, where it begins."""
        return session in (self.pid, os.getsid(0))

    @property
    def pid(self) -> int:
        """The process; 0: there is none."""
        return 0 if self._socket is None else self._pid

    def use(self, owners: tuple[str, ...]) -> None:
        """Hear the session agents of these users, wherever they sit."""
        if owners != self._owners:
            self._owners = owners
            if self._socket is not None:
                self._lost("it is to hear other users")

    def start(self) -> None:
        """Start the process, unless there is one; not sooner than `PAUSE_S` after the last."""
        if self._socket is not None:
            return
        now_s = steady_s()
        if now_s < self._started_s + PAUSE_S:
            self._plan(self._started_s + PAUSE_S)
            return
        self._started_s = now_s
        try:
            # Where there is no owner policy nobody pays for these modules.
            from iriai.launcher.owner.sensor import Watched
            from iriai.launcher.owner.sensor_loop import fork_sensors
            from iriai.launcher.owner.session_users import named_users
            from iriai.model.paths import StatePaths

            sessions, users = StatePaths(self._state).sessions_socket, named_users(self._owners)
            watched = Watched(self._devices, sessions, os.getpid(), users, *self._own)
            self._pid, own = fork_sensors(watched)
        except (OSError, ImportError) as error:
            log.exception("nobody watches for the owner: that process cannot be started")
            self._lost_word(f"the process cannot be started: {error}")
            self._plan(now_s + PAUSE_S)
            return
        self._decoder = msgspec.msgpack.Decoder(FromSensors)
        take_real_time(self._pid)  # at once: among busy tasks it would begin late
        self._socket, self._reader, self._silent = own, FrameReader(FRAME_BYTES_MAX), 0
        self._watch.begin(own.fileno(), self._receive)
        self._tell()
        self._await_report(own, now_s)

    def watch(self, settings: SensorSettings, *, is_busy: bool) -> None:
        """Have it watch these conditions, while tasks run or do not."""
        wanted = WatchConditions(settings, is_busy)
        if wanted != self._watched:
            self._watched = wanted
            self._tell()

    def _tell(self) -> None:
        """Tell it what to watch; one that does not listen hangs, and is replaced."""
        if self._socket is not None:
            content = frame(msgspec.msgpack.encode(self._watched))
            with suppress(OSError):
                self._socket.send(content, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def _plan(self, due_s: float) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._timers.add(due_s, self, lambda _: self._start_as_planned())

    def _start_as_planned(self) -> None:
        self._is_planned = False
        self.start()

    def close(self) -> None:
        """Leave the process, which ends."""
        if self._socket is not None:
            self._watch.end(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _await_report(self, own: socket.socket, now_s: float) -> None:
        self._timers.add(now_s + REPORT_S, self, lambda late_s: self._look(own, late_s))

    def _look(self, own: socket.socket, now_s: float) -> None:
        """Replace the process if it has been silent for long."""
        if self._socket is not own:
            return
        self._silent += 1
        if self._silent >= SILENT_MAX:
            self._lost("it says nothing")
        else:
            self._await_report(own, now_s)

    def _receive(self) -> None:
        if self._socket is None:
            return
        try:
            content = self._socket.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
            messages = [decoded(self._decoder, each) for each in self._reader.feed(content)]
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            self._lost(str(error))
            return
        self._silent = 0
        for message in messages:
            self._hear(message)
        if not content:
            self._lost("it has ended")

    def _lost(self, why: str) -> None:
        """Start another process."""
        log.warning("the process that watches for the owner is replaced: %s", why)
        self.close()
        with suppress(ChildProcessError):  # it was reaped, and its number may be another's
            if not os.waitpid(self._pid, os.WNOHANG)[0]:
                os.kill(self._pid, signal.SIGKILL)
        self._lost_word(why)
        self.start()
