"""Terminals and input devices of a machine, and somebody who uses them.

Where a file system of terminals can be mounted they are apart from those of this machine, which
other tests use at the same time.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

EVENT = struct.Struct("llHHi")
EV_SYN, EV_KEY, EV_REL, EV_ABS, EV_SW = 0, 1, 2, 3, 5
KEY_A = 30
_TIOCGPTN, _TIOCSPTLCK = 0x80045430, 0x40045431


class Typing:
    """A terminal in which somebody may type, and a program reads that."""

    def __init__(self, pts: Path, uid: int = -1) -> None:
        self.master = os.open(pts / "ptmx", os.O_RDWR | os.O_NOCTTY)
        self.number: int = struct.unpack("i", fcntl.ioctl(self.master, _TIOCGPTN, bytes(4)))[0]
        fcntl.ioctl(self.master, _TIOCSPTLCK, bytes(4))
        path = pts / str(self.number)
        self.slave = os.open(path, os.O_RDWR | os.O_NOCTTY)
        if uid >= 0 and os.geteuid() == 0:
            os.chown(path, uid, -1)  # as sshd gives it to who has come

    def type(self) -> None:
        os.write(self.master, b"x\n")
        os.read(self.slave, 16)

    def print(self) -> None:
        os.write(self.slave, b"x\n")
        os.read(self.master, 64)

    def close(self) -> None:
        os.close(self.slave)
        os.close(self.master)


class Desk:
    """What /dev has of these."""

    def __init__(self, folder: Path, uid: int = -1) -> None:
        self.folder = folder
        self.pts = folder / "pts"
        self.input = folder / "input"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        self.input.mkdir()
        self.input.chmod(0o755)
        self._uid = uid
        self._open: list[Typing] = []
        self._devices: dict[str, int] = {}
        self.is_apart = self._mount()

    def _mount(self) -> bool:
        self.pts.mkdir()
        options = "newinstance,ptmxmode=0666,mode=0620"
        words = ["mount", "-t", "devpts", "-o", options, "devpts", str(self.pts)]
        done = subprocess.run(words, stderr=subprocess.DEVNULL, check=False)
        if done.returncode == 0:
            return True
        self.pts.rmdir()
        self.pts.symlink_to("/dev/pts")
        return False

    def terminal(self) -> Typing:
        """A terminal of the machine's user."""
        self._open.append(Typing(self.pts, self._uid))
        return self._open[-1]

    def add_device(self, name: str = "event0") -> None:
        path = self.input / name
        os.mkfifo(path)
        path.chmod(0o644)
        self._devices[name] = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def remove_device(self, name: str = "event0") -> None:
        (self.input / name).unlink()
        os.close(self._devices.pop(name))

    def press(self, name: str = "event0", kind: int = EV_KEY, count: int = 1) -> None:
        events = EVENT.pack(1, 2, kind, KEY_A, 1) + EVENT.pack(1, 2, EV_SYN, 0, 0)
        self.write(events * count, name)

    def write(self, content: bytes, name: str = "event0") -> None:
        with suppress(BlockingIOError):  # as a device drops what nobody reads
            os.write(self._devices[name], content)

    def close(self) -> None:
        for each in self._open:
            each.close()
        for descriptor in self._devices.values():
            os.close(descriptor)
        if self.is_apart:
            subprocess.run(["umount", "-l", str(self.pts)], check=False)
