"""Facts of this machine, measured once at start, and the part of it that is offered."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import msgspec

from iriai.config.reader import Configuration
from iriai.host import sensors
from iriai.model.ids import HOME_NAME
from iriai.model.resources import DISK, KINDS, NAMED_KINDS, Resources

NAMELESS = "home"
"""The home's name where the host's has no letter in it."""
_HOME_NAME_LENGTH_MAX = 31
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class MachineFacts(msgspec.Struct, frozen=True):
    """Measured facts of the machine, before the configuration is applied."""

    cpus: int
    """That this process may run on."""
    memory_bytes: int
    """Physical, or what our container may use."""
    gpus: int
    host_name: str
    boot_id: str
    """Changes with every boot; processes and leases are known by it."""
    named: dict[str, int] = {}
    """Of each kind of resource that is carried by name."""


def measure() -> MachineFacts:
    """Measure the machine; takes milliseconds, or longer if a GPU driver has to start."""
    found: dict[str, int] = {kind.name: getattr(sensors, kind.sensor)() for kind in KINDS}
    return MachineFacts(
        found["cpus"],
        found["memory"],
        found["gpus"],
        socket.gethostname(),
        _BOOT_ID.read_text().strip(),
        {name: found[name] for name in NAMED_KINDS},
    )


def load_average() -> float:
    """Return the average number of runnable processes over the last minute."""
    return os.getloadavg()[0]


def capacity(facts: MachineFacts, configuration: Configuration) -> Resources:
    """Return the offered resources: as configured, else as measured."""
    machine = configuration.machine
    cards = len(machine.gpu_ids) or len(machine.gpu_devices) or facts.gpus
    named = {**facts.named, **machine.resources}
    if DISK.name in facts.named and DISK.name not in machine.resources:
        named[DISK.name] = sensors.disk_bytes(machine.watchfs or (machine.tmp,))
    return Resources(
        cpus=facts.cpus if machine.cpus is None else machine.cpus,
        memory_bytes=facts.memory_bytes if machine.memory_bytes is None else machine.memory_bytes,
        gpus=cards if machine.gpus is None else machine.gpus,
        named=tuple(sorted((name, amount) for name, amount in named.items() if amount)),
    )


def home_name(host_name: str) -> str:
    """Return a valid home name made from the first label of a host's name."""
    label = host_name.lower().partition(".")[0]
    fitting = re.sub(r"[^a-z0-9]+", "-", label).lstrip("-0123456789")
    name = fitting[:_HOME_NAME_LENGTH_MAX].rstrip("-")
    return name if HOME_NAME.fullmatch(name) else NAMELESS
