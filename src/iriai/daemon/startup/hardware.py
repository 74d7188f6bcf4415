"""What this machine is: measured once at start, and what of it there is to give away."""

from __future__ import annotations

import importlib
import os
import re
import socket
from pathlib import Path

import msgspec
import psutil

from iriai.config.reader import Configuration
from iriai.model.ids import HOME_NAME
from iriai.model.resources import Resources

NAMELESS = "home"
"""The home's name where the host's has no letter in it."""
_HOME_NAME_LENGTH_MAX = 31
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NVIDIA_CARDS = Path("/proc/driver/nvidia/gpus")
_MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Of the container that we are in, where there is one; version 2 and version 1."""


class MachineFacts(msgspec.Struct, frozen=True):
    """What was found, before the configuration has its say."""

    cpus: int
    """That this process may run on."""
    memory_bytes: int
    """Physical, or what our container may use."""
    gpus: int
    host_name: str
    boot_id: str
    """Changes with every boot; processes and leases are known by it."""


def measure() -> MachineFacts:
    """Look at the machine. A few milliseconds, more where a GPU driver must wake."""
    return MachineFacts(
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=_memory_bytes(),
        gpus=_gpus(),
        host_name=socket.gethostname(),
        boot_id=_BOOT_ID.read_text().strip(),
    )


def load_average() -> float:
    """Processes that ran or wanted to, on average over the last minute."""
    return os.getloadavg()[0]


def capacity(facts: MachineFacts, configuration: Configuration) -> Resources:
    """What the machine gives away: what was configured, else what was measured."""
    machine = configuration.machine
    named = len(machine.gpu_ids) or len(machine.gpu_devices) or facts.gpus
    return Resources(
        cpus=facts.cpus if machine.cpus is None else machine.cpus,
        memory_bytes=facts.memory_bytes if machine.memory_bytes is None else machine.memory_bytes,
        gpus=named if machine.gpus is None else machine.gpus,
        named=tuple(sorted(machine.resources.items())),
    )


def home_name(host_name: str) -> str:
    """A valid home name made from a host's: its first label, in small letters."""
    label = host_name.lower().partition(".")[0]
    fitting = re.sub(r"[^a-z0-9]+", "-", label).lstrip("-0123456789")
    name = fitting[:_HOME_NAME_LENGTH_MAX].rstrip("-") or NAMELESS
    assert HOME_NAME.fullmatch(name), name
    return name


def _memory_bytes() -> int:
    least = int(psutil.virtual_memory().total)
    for path in _MEMORY_LIMITS:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            least = min(least, int(text))
    return least


def _gpus() -> int:
    """NVIDIA's own library where it is installed, else the driver's list of cards."""
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
