"""The process that has terminals, input devices and session agents, and looks at the machine.

The launcher forks it where there is an owner policy. It waits for nothing but devices and time,
tells the kind and moment of a sign, and ends with the launcher.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from iriai.launcher.owner.input_devices import InputSensor
from iriai.launcher.owner.polled.conditions import Conditions, OwnTasks
from iriai.launcher.owner.sensor import Sensor, Watched
from iriai.launcher.owner.sensor_messages import (
    FRAME_BYTES_MAX,
    REPORT_S,
    SIGN_PAUSE_S,
    FromSensors,
    Noticed,
    SensorReport,
    WatchConditions,
)
from iriai.launcher.owner.session_agents import SessionSensor
from iriai.launcher.owner.session_users import SessionUsers
from iriai.launcher.owner.terminals import TerminalSensor
from iriai.launcher.owner.waking import WakeSensor
from iriai.launcher.slices.real_time import bound_real_time, lock_memory, take_real_time
from iriai.launcher.system.forked_process import fork_process
from iriai.launcher.system.syscalls import BootTimer
from iriai.model.bounds import decoded
from iriai.model.owner import SensorStates, SignKind
from iriai.system.clock import steady_s
from iriai.system.frames import FrameReader, frame

PROCESS_NAME = "iriai-owner"
CHANGE_PAUSE_S = 1.0
"""Between two reports of changes."""
RECEIVE_BYTES = 1 << 16
_encode = msgspec.msgpack.Encoder().encode


class SensorLoop:
    """Tells the launcher of signs, until it is gone."""

    def __init__(
        self, launcher: socket.socket, sensors: Sequence[Sensor], conditions: Conditions
    ) -> None:
        self._launcher = launcher
        self._devices = sensors
        self._conditions = conditions
        self._quiet_until_s = dict.fromkeys(SignKind, 0.0)
        """Until then a sensor is not asked: there was a sign just now."""
        self._timer = BootTimer()
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._decoder = msgspec.msgpack.Decoder(WatchConditions)
        self._told: SensorStates = ()
        self._told_s = -REPORT_S

    @property
    def _sensors(self) -> tuple[Sensor, ...]:
        return (*self._devices, *self._conditions.sensors)

    def run(self) -> None:
        """Watch; raises OSError and ValueError when the launcher is gone, or speaks otherwise."""
        for each in self._devices:
            each.take((), steady_s())
        self._report(steady_s())
        self._tell(Noticed(SignKind.START, steady_s()))
        readable: set[int] = set()
        while self._launcher.fileno() not in readable or self._hear():
            for each in self._sensors:
                self._ask(each, readable)
            self._report(steady_s())
            readable = self._wait(steady_s())

    def _hear(self) -> bool:
        """Take in what the launcher says; return False at its end."""
        content = self._launcher.recv(RECEIVE_BYTES)
        for each in self._reader.feed(content):
            message = decoded(self._decoder, each)
            self._conditions.go_by(message.settings, is_busy=message.is_busy)
        return bool(content)

    def _wait(self, now_s: float) -> set[int]:
        """Wait until something is readable, or due; return what is readable."""
        poll, due_s = select.poll(), self._told_s + REPORT_S
        poll.register(self._launcher.fileno(), select.POLLIN)
        poll.register(self._timer.fd, select.POLLIN)
        for each in self._sensors:
            quiet_until_s = self._quiet_until_s[each.kind]
            due_s = min(due_s, max(each.due_s(), quiet_until_s))
            if now_s < quiet_until_s:
                due_s = min(due_s, quiet_until_s)
                continue
            for fd in each.descriptors(now_s):
                poll.register(fd, select.POLLIN)
        if self._is_news(self._states()):
            due_s = min(due_s, self._told_s + CHANGE_PAUSE_S)
        self._timer.set(due_s)
        readable = {fd for fd, _ in poll.poll()}
        if self._timer.fd in readable:
            self._timer.acknowledge()
        return readable

    def _ask(self, sensor: Sensor, readable: set[int]) -> None:
        now_s = steady_s()
        if now_s >= self._quiet_until_s[sensor.kind] and sensor.take(readable, now_s):
            self._tell(Noticed(sensor.kind, now_s))
            self._quiet_until_s[sensor.kind] = now_s + SIGN_PAUSE_S

    def _states(self) -> SensorStates:
        return tuple(each.state() for each in self._sensors)

    def _is_news(self, states: SensorStates) -> bool:
        """Return whether they are to be told before the next report."""
        return [each.outline for each in states] != [each.outline for each in self._told]

    def _report(self, now_s: float) -> None:
        """Tell how the sensors do, if that is due."""
        states = self._states()
        pause_s = CHANGE_PAUSE_S if self._is_news(states) else REPORT_S
        if now_s >= self._told_s + pause_s:
            self._told, self._told_s = states, now_s
            self._tell(SensorReport(states))

    def _tell(self, message: FromSensors) -> None:
        """Tell the launcher; waits while it does not listen."""
        self._launcher.sendall(frame(_encode(message)))


def fork_sensors(watched: Watched) -> tuple[int, socket.socket]:
    """Start the process; return its number and the launcher's end. Raises OSError."""
    return fork_process(PROCESS_NAME, lambda socket: _serve(socket, watched))


def _serve(launcher: socket.socket, watched: Watched) -> None:
    bound_real_time()
    take_real_time()
    lock_memory()
    launcher.setblocking(True)
    terminals = TerminalSensor(watched.devices, watched.launcher)
    devices = InputSensor(f"{watched.devices}/input")
    sessions = SessionSensor(watched.sessions, SessionUsers(watched.users, watched.launcher))
    sensors = (terminals, devices, sessions, WakeSensor())
    own = OwnTasks(watched.launcher, watched.group, watched.version)
    try:
        with suppress(ConnectionError):
            SensorLoop(launcher, sensors, Conditions(own)).run()
    finally:
        sessions.close()
