"""The sensor of keyboards, mice and other input devices of the kernel.

What is read from them is dropped: of each event its type alone is looked at.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import stat
import struct
from collections.abc import Collection
from contextlib import suppress

from iriai.launcher.system.inotify import ATTRIBUTES, MADE, MOVED_HERE, Inotify
from iriai.model.owner import SensorState, SignKind

DEVICES_MAX = 256
"""Of one machine; others are left out."""
LIST_REST_S = 0.05
"""Between two looks at the directory."""
LOOK_AGAIN_S = 1.0
"""Until a device that has vanished is looked for again."""
RETRY_S = 10.0
"""Until the next trial to watch a directory that could not be watched."""
_EVENT = struct.Struct("llHHi")
"""struct input_event: seconds, microseconds, type, code, value."""
_READ_BYTES = _EVENT.size * 2048
"""More than the kernel keeps of one device for us."""
_SIGNS = frozenset({1, 2, 3})
"""EV_KEY, EV_REL, EV_ABS; others are of switches, sounds and lamps."""
_EVIOCGPROP = 2 << 30 | 4 << 16 | ord("E") << 8 | 0x09
_ACCELEROMETER = 1 << 6
"""INPUT_PROP_ACCELEROMETER: it moves although nobody is there."""


class InputSensor:
    """Watches what `folder` has, and what appears in it."""

    kind = SignKind.INPUT

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._appears: Inotify | None = None
        self._devices: dict[str, int] = {}
        """Descriptors by name."""
        self._left_out: dict[str, None] = {}
        """Those that move by themselves."""
        self._rest_until_s = 0.0
        self._list_due_s = 0.0
        self._refused = ""
        """Why a device could not be opened."""
        self._problem = ""
        """Why the directory cannot be watched."""

    def descriptors(self, now_s: float) -> list[int]:
        """Return what to wait for until it is readable, or `due_s` has come."""
        devices = list(self._devices.values())
        if self._appears is not None and now_s >= self._rest_until_s:
            devices.append(self._appears.fd)
        return devices

    def due_s(self) -> float:
        """Return when `take` is to be called although nothing is readable; infinite: never."""
        if self._rest_until_s > 0.0:
            return min(self._list_due_s, self._rest_until_s)
        return self._list_due_s

    def take(self, readable: Collection[int], now_s: float) -> bool:
        """Take in what has come; return whether there was a sign."""
        is_used = False
        if now_s >= self._rest_until_s:
            self._rest_until_s = 0.0
        for name, fd in list(self._devices.items()):
            if fd in readable and self._drain(name, fd, now_s):
                is_used = True
        if self._appears is not None and self._appears.fd in readable:
            self._appears.read()
            self._list_due_s = min(self._list_due_s, now_s)
            self._rest_until_s = now_s + LIST_REST_S
        if now_s >= self._list_due_s:
            self._list_due_s = math.inf
            self._list(now_s)
        return is_used

    def state(self) -> SensorState:
        """Return how it does."""
        count = len(self._devices)
        if count:
            words = f"{count} device{'s' if count > 1 else ''} in {self._folder}"
        else:
            words = self._problem or self._refused or f"no device in {self._folder}"
        return SensorState(self.kind, bool(count), words)

    def _drain(self, name: str, fd: int, now_s: float) -> bool:
        """Read all that a device has; return whether somebody has used it."""
        try:
            content = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # ENODEV: it was unplugged
            content = b""
        if not content:
            os.close(self._devices.pop(name))
            self._list_due_s = min(self._list_due_s, now_s + LOOK_AGAIN_S)
            return False
        whole = len(content) - len(content) % _EVENT.size
        return any(kind in _SIGNS for _, _, kind, _, _ in _EVENT.iter_unpack(content[:whole]))

    def _list(self, now_s: float) -> None:
        """Open what has appeared."""
        self._refused = ""
        try:
            self._watch_folder()
            names = [each for each in os.listdir(self._folder) if each.startswith("event")]
        except OSError as error:
            self._lose_folder(error, now_s)
            return
        self._left_out = {name: None for name in self._left_out if name in names}
        for name in sorted(names):
            if name in self._devices or name in self._left_out:
                continue
            if len(self._devices) >= DEVICES_MAX:
                break
            try:
                self._open(name)
            except OSError as error:
                self._refused = f"{self._folder}/{name}: {error.strerror}"

    def _watch_folder(self) -> None:
        if self._appears is None:
            appears = Inotify()
            try:
                appears.watch(self._folder, MADE | ATTRIBUTES | MOVED_HERE)
            except OSError:
                appears.close()
                raise
            self._appears, self._problem = appears, ""

    def _lose_folder(self, error: OSError, now_s: float) -> None:
        is_missing = error.errno == errno.ENOENT
        reason = "there are no input devices" if is_missing else error.strerror
        self._problem = f"{self._folder}: {reason}"
        if self._appears is not None:
            self._appears.close()
            self._appears = None
        self._list_due_s = now_s + RETRY_S

    def _open(self, name: str) -> None:
        """Raises OSError."""
        fd = os.open(f"{self._folder}/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        mode = os.fstat(fd).st_mode
        if not (stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)) or _moves_by_itself(fd):
            os.close(fd)
            self._left_out[name] = None
            return
        self._devices[name] = fd


def _moves_by_itself(fd: int) -> bool:
    properties = bytes(4)
    with suppress(OSError):
        properties = fcntl.ioctl(fd, _EVIOCGPROP, properties)
    return bool(int.from_bytes(properties, "little") & _ACCELEROMETER)
