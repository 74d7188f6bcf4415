"""The process that loads NVIDIA's library (NVML) and tells which processes compute on which GPU.

The library is the vendor's code: it gets a process of its own, without input devices and, where
the launcher is root's, without rights.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import cast

PROCESS_NAME = "iriai-gpus"
LIBRARY = "libnvidia-ml.so.1"
NOBODY = 65_534
GPUS_MAX, PROCESSES_MAX = 1024, 4096
"""Of a machine, and of one GPU; others are not told."""
ASK = b"?"
PROCESS_CALLS = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetComputeRunningProcesses_v2",
)
"""Of drivers from 510 and from 450 on; they fill the same structure."""
_OK, _TOO_SMALL = 0, 7


class NvmlProcessInfo(ctypes.Structure):
    """nvmlProcessInfo_t, since version 2 of the call."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory_bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def _first(library: ctypes.CDLL, names: tuple[str, ...]) -> Callable[..., int]:
    """Return the first of these calls that the library has. Raises AttributeError."""
    for name in names[:-1]:
        with suppress(AttributeError):
            return cast("Callable[..., int]", getattr(library, name))
    return cast("Callable[..., int]", getattr(library, names[-1]))


class NvmlProblem(Exception):
    """The library does not work here; the text says why."""


class Nvml:
    """The library, ready for use."""

    def __init__(self, library: str) -> None:
        """Raises `NvmlProblem`."""
        try:
            self._library = ctypes.CDLL(library)
            self._processes = _first(self._library, PROCESS_CALLS)
            self._begin = self._library.nvmlInit_v2
            self._count = self._library.nvmlDeviceGetCount_v2
            self._handle = self._library.nvmlDeviceGetHandleByIndex_v2
        except (OSError, AttributeError) as error:
            raise NvmlProblem(str(error)) from None
        self._check(self._begin(), "nvmlInit")

    def _check(self, code: int, call: str) -> None:
        if code != _OK:
            raise NvmlProblem(f"{call} failed with code {code}")

    def processes(self) -> list[list[int]]:
        """Return the processes that compute on each GPU. Raises `NvmlProblem`."""
        count = ctypes.c_uint()
        self._check(self._count(ctypes.byref(count)), "nvmlDeviceGetCount")
        return [self._processes_on(gpu) for gpu in range(min(count.value, GPUS_MAX))]

    def _processes_on(self, gpu: int) -> list[int]:
        handle = ctypes.c_void_p()
        code = self._handle(ctypes.c_uint(gpu), ctypes.byref(handle))
        if code != _OK:  # it was taken away, or has fallen off the bus
            return []
        room = 64
        while True:
            found = (NvmlProcessInfo * room)()
            count = ctypes.c_uint(room)
            code = self._processes(handle, ctypes.byref(count), found)
            if code == _TOO_SMALL and room < PROCESSES_MAX:
                room = min(PROCESSES_MAX, max(2 * room, count.value))
                continue
            if code not in (_OK, _TOO_SMALL):
                return []
            return [found[place].pid for place in range(min(count.value, room))]


def serve(asked: socket.socket, library: str) -> None:
    """Answer each question by a line: what was found on each GPU, or `!` and why it cannot be."""
    _drop_rights()
    asked.setblocking(True)
    nvml: Nvml | None = None
    with suppress(ConnectionError):
        while asked.recv(1):
            try:
                nvml = nvml or Nvml(library)
                found = nvml.processes()
            except NvmlProblem as problem:
                words = str(problem).replace("\n", " ")
                asked.sendall(f"!{words}\n".encode())
                continue
            words = ";".join(",".join(map(str, pids)) for pids in found)
            asked.sendall(f"{words}\n".encode())


def _drop_rights() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
