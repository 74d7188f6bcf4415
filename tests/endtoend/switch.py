"""An Ethernet switch in this process: what machines in network namespaces say passes through it.

The kernel of a test machine may have nothing that delays or loses packets. So each namespace has a
TAP device whose other end is read here, and here frames are held back, lost, or looked at.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import selectors
import struct
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from random import Random

FRAME_BYTES = 2048
_SET_INTERFACE = 0x400454CA
_TAP, _NO_HEADER = 0x0002, 0x1000
_NEW_NETWORK = 0x40000000
_PAUSE_S = 0.02
CAPTURED_BYTES_MAX = 64 << 20
_NICENESS = -10
"""A cable does not wait for processors that tests keep busy."""
_THREAD_S = 0.0005
"""For how long another thread of this process may go on while frames wait; 5 ms otherwise."""


class Switch:
    """Ports by name; what goes from one to another is delayed, lost or cut as it was told."""

    def __init__(self, seed: int = 0) -> None:
        self.delay_s = 0.0
        """Of each frame, one way."""
        self.loss = 0.0
        """The part of all frames that is lost."""
        self.cut: set[frozenset[str]] = set()
        """Pairs between which nothing passes."""
        self.dead: set[str] = set()
        """Ports that neither send nor hear."""
        self.bytes_from: Counter[str] = Counter()
        self.captured: dict[str, bytearray] = {}
        """All frames that reached or left these ports."""
        self._rng = Random(seed)
        self._ports: dict[str, int] = {}
        self._of_address: dict[bytes, str] = {}
        self._waiting: list[tuple[float, int, str, bytes]] = []
        self._numbers = count()
        self._selector = selectors.DefaultSelector()
        self._is_open = True
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def plug(self, name: str, namespace: str) -> None:
        """A device `eth0` in a network namespace, at a new port."""
        device = _tap(namespace)
        with self._lock:
            self._ports[name] = device
            self._selector.register(device, selectors.EVENT_READ, name)

    def separate(self, ones: list[str], others: list[str]) -> None:
        """Cut all of the one side from all of the other."""
        self.cut = {frozenset((one, other)) for one in ones for other in others}

    def heal(self) -> None:
        """Nothing is cut any more."""
        self.cut = set()

    def close(self) -> None:
        """End it."""
        self._is_open = False
        self._thread.join()
        self._selector.close()
        for device in self._ports.values():
            os.close(device)

    def _run(self) -> None:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        sys.setswitchinterval(_THREAD_S)
        while self._is_open:
            with self._lock:
                due_s = self._waiting[0][0] - time.monotonic() if self._waiting else _PAUSE_S
                ready = self._selector.select(min(max(0.0, due_s), _PAUSE_S)) if self._ports else []
            if not self._ports:
                time.sleep(_PAUSE_S)
            for key, _ in ready:
                self._read(key.data, key.fd)
            self._send_due()

    def _read(self, name: str, device: int) -> None:
        for _ in range(64):  # fair to the others
            try:
                frame = os.read(device, FRAME_BYTES)
            except BlockingIOError:
                return
            self._of_address[frame[6:12]] = name
            self.bytes_from[name] += len(frame)
            self._capture(name, frame)
            known = self._of_address.get(frame[:6])
            for other in [known] if known else [each for each in self._ports if each != name]:
                if self._passes(name, other):
                    due_s = time.monotonic() + self.delay_s
                    heapq.heappush(self._waiting, (due_s, next(self._numbers), other, frame))

    def _passes(self, name: str, other: str) -> bool:
        if name in self.dead or other in self.dead or frozenset((name, other)) in self.cut:
            return False
        return self.loss <= 0 or self._rng.random() >= self.loss

    def _send_due(self) -> None:
        now_s = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now_s:
            _, _, name, frame = heapq.heappop(self._waiting)
            self._capture(name, frame)
            with suppress(OSError):  # a full queue loses it, as a cable does
                os.write(self._ports[name], frame)

    def _capture(self, name: str, frame: bytes) -> None:
        captured = self.captured.get(name)
        if captured is not None and len(captured) < CAPTURED_BYTES_MAX:
            captured += frame


def enter(namespace: str) -> None:
    """Have the calling thread in a network namespace from here on, with the sockets it makes."""
    libc = ctypes.CDLL(None, use_errno=True)
    place = os.open(f"/var/run/netns/{namespace}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(place, _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(place)


def _tap(namespace: str) -> int:
    """A new TAP device `eth0` within a namespace; its descriptor works from here."""
    made: list[int] = []

    def make() -> None:  # in a thread of its own, which alone enters the namespace
        enter(namespace)
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        request = struct.pack("16sH22x", b"eth0", _TAP | _NO_HEADER)
        fcntl.ioctl(device, _SET_INTERFACE, request)
        made.append(device)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]
