"""The ad of this machine: HTCondor's attributes, measured and configured."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Mapping
from pathlib import Path

from iriai.classad.installation import canonical
from iriai.classad.volatile_attributes import UTC_OFFSET
from iriai.config.sections import MachineSection
from iriai.host.hardware import MachineFacts
from iriai.host.speed_benchmark import read_speed
from iriai.model.ad import (
    ARCHITECTURES,
    KIND,
    MIB,
    POOL,
    PROCESSOR,
    PROCESSORS,
    MachineAd,
    Value,
    capacity_attributes,
    machine_ad,
)
from iriai.model.resources import Resources
from iriai.model.text_digest import digest_of

_RELEASE = Path("/etc/os-release")
_CPU = Path("/proc/cpuinfo")
_NAMES = {
    "rhel": "RedHat",
    "centos": "CentOS",
    "almalinux": "AlmaLinux",
    "opensuse-leap": "openSUSE",
}
"""Distributions whose HTCondor name is not their id with a capital letter."""
_MODELS = ("model name", "cpu", "uarch", "CPU part")
"""What the kernel calls the model of a processor: on x86, POWER, RISC-V and ARM."""
_POOL_DIGITS = 8
"""Of the name that a pool has by itself: no two kinds of machines of a site share one by chance."""
_FLAGS = ("avx", "avx2", "avx512f", "sse4_1", "sse4_2", "ssse3")
"""Features of the processor, published as has_avx and so on."""


def own_ad(
    home: str, machine: MachineSection, capacity: Resources, facts: MachineFacts, directory: str
) -> MachineAd:
    """Return the ad of the machine `home`; attributes of load and time are added later.

    `machine` is its configuration, `directory` its state directory.
    """
    attributes: dict[str, Value] = {
        **capacity_attributes(home, capacity, machine.speed),
        **system_attributes(),
        "DetectedCpus": facts.cpus,
        "DetectedMemory": facts.memory_bytes // MIB,
        UTC_OFFSET: time.localtime().tm_gmtoff,
        **read_speed(directory),
    }
    attributes[POOL] = pool_of_machine(machine, facts)
    attributes |= machine.attributes
    return machine_ad(
        attributes, canonical(machine.requirements, "requirements"), canonical(machine.rank, "rank")
    )


def pool_of_machine(machine: MachineSection, facts: MachineFacts) -> str:
    """Return the name of this machine's pool: as configured, else by what it is."""
    return machine.pool or pool_name(system_attributes() | {PROCESSORS: facts.cpus})


def pool_name(attributes: Mapping[str, Value]) -> str:
    """Return the name of the pool of all machines that are alike, as their attributes say."""
    kind = "\n".join(f"{name}={attributes.get(name, '')}" for name in KIND)
    return digest_of(kind.encode())[:_POOL_DIGITS]


def system_attributes() -> dict[str, Value]:
    """Return attributes of processor and operating system."""
    found: dict[str, Value] = {
        "Arch": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "OpSys": platform.system().upper(),
        "UtsnameRelease": platform.release(),
    }
    release = _release()
    name = release.get("ID", "linux")
    name = _NAMES.get(name, name.capitalize())
    major, _, minor = release.get("VERSION_ID", "").partition(".")
    found |= {"OpSysName": name, "OpSysAndVer": f"{name}{major}"}
    if major.isdecimal():
        found["OpSysMajorVer"] = int(major)
        found["OpSysVer"] = int(major) * 100 + (int(minor) if minor.isdecimal() else 0)
    if "PRETTY_NAME" in release:
        found["OpSysLongName"] = release["PRETTY_NAME"]
    cpu = _cpu()
    if model := next(filter(None, (_value(cpu, key) for key in _MODELS)), ""):
        found[PROCESSOR] = model
    flags = _value(cpu, "flags|Features").split()
    return found | {f"has_{flag}": True for flag in _FLAGS if flag in flags}


def _release() -> dict[str, str]:
    try:
        lines = _RELEASE.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name: value.strip().strip("\"'") for name, _, value in pairs}


def _cpu() -> str:
    try:
        return _CPU.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _value(cpu: str, keys: str) -> str:
    """Return what the kernel says of its first processor under one of these keys."""
    found = re.search(rf"^(?:{keys})\s*:(.*)$", cpu, re.MULTILINE)
    return found[1].strip() if found else ""
