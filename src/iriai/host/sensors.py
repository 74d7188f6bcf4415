"""How much of each kind of resource this machine has; `model.resources.KINDS` names these."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from pathlib import Path

_NVIDIA_CARDS = Path("/proc/driver/nvidia/gpus")
_MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Of the container that we are in, where there is one; version 2 and version 1."""


def cpus() -> int:
    """Return the number of CPUs that this process may run on."""
    return len(os.sched_getaffinity(0))


def memory_bytes() -> int:
    """Return the machine's memory, or the container's limit (bytes)."""
    least = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _MEMORY_LIMITS:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            least = min(least, int(text))
    return least


_DISK_BITS = 4
"""Of the free space that count, so that machines of one kind have equal amounts: a broker compares
them by kind. Up to an eighth is not given away."""


def disk_bytes(directories: Iterable[str] = ("/var/tmp",)) -> int:  # noqa: S108 - it is looked at
    """Return the free space of the directories' file systems together, each once, rounded down."""
    free_bytes: dict[int, int] = {}
    for directory in directories:
        try:
            device, found = Path(directory).stat().st_dev, os.statvfs(directory)
        except OSError:
            continue
        free_bytes[device] = found.f_bavail * found.f_frsize
    total = sum(free_bytes.values())
    unit = max(0, total.bit_length() - _DISK_BITS)
    return total >> unit << unit


def gpus() -> int:
    """Return the GPUs that NVIDIA's library counts, or the driver's if it is not installed."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        return _listed_gpus()
    try:
        library.nvmlInit()
        try:
            return int(library.nvmlDeviceGetCount())
        finally:
            library.nvmlShutdown()
    except library.NVMLError:
        return _listed_gpus()


def _listed_gpus() -> int:
    try:
        return sum(1 for _ in _NVIDIA_CARDS.iterdir())
    except OSError:
        return 0
