"""Ads: attributes of machines and jobs, in HTCondor's names (docs/spec/007)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from iriai.model.bounds import Document, Double, Expression, Integer, Many, Name, Words, decoded
from iriai.model.ids import Account
from iriai.model.resources import DISK, Resources

Value = bool | Integer | Double | Words
"""The value of an attribute."""
AD_BYTES_MAX = 64 << 10
"""Bytes of a machine's encoded attributes: a thousand of them, or a few long texts."""
ATTRIBUTES_MAX = 1_000
MIB, KIB = 1 << 20, 1 << 10
"""HTCondor's units of memory and of disks."""
MACHINE_TYPE, JOB_TYPE = "Machine", "Job"
POOL = "Pool"
"""The attribute with the name of a machine's pool."""
ARCHITECTURE, SYSTEM, PROCESSOR, PROCESSORS = KIND = (
    "Arch",
    "OpSysAndVer",
    "CpuModel",
    "DetectedCpus",
)
"""The attributes in which machines are alike that name no pool."""
ARCHITECTURES = {"x86_64": "X86_64", "i686": "INTEL", "ppc64le": "ppc64le"}
"""HTCondor's names by the kernel's; others are named as by the kernel."""
VANILLA_UNIVERSE = 5
"""HTCondor's number for ordinary jobs, the only kind here."""
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[dict[str, Value]] = msgspec.msgpack.Decoder(
    Annotated[dict[Name, Value], Many]
)


class MachineAd(msgspec.Struct, frozen=True, omit_defaults=True):
    """The attributes of a machine, and its owner's conditions."""

    attributes: Document = b""
    """The constant attributes, encoded: they are decoded only if an expression is in use."""
    requirements: Expression = ""
    """The owner's condition on a job (TARGET); empty: any job may run."""
    rank: Expression = ""
    """The owner's preference among jobs; larger is better."""


def machine_ad(
    attributes: Mapping[str, Value], requirements: str = "", rank: str = ""
) -> MachineAd:
    """Return an ad with these attributes."""
    return MachineAd(_encode(dict(attributes)), requirements, rank)


def with_amounts(ad: MachineAd, capacity: Resources) -> MachineAd:
    """Return the same ad of a machine that gives away other amounts of memory and disk."""
    attributes = attributes_of(ad)
    amounts = capacity_attributes("", capacity, 0.0)
    for name in ("Memory", "TotalMemory", "Disk", "TotalDisk"):
        attributes.pop(name, None)
        if name in amounts:
            attributes[name] = amounts[name]
    return machine_ad(attributes, ad.requirements, ad.rank)


def attributes_of(ad: MachineAd) -> dict[str, Value]:
    """Return the attributes of an ad; none if it is over a limit or malformed."""
    if not ad.attributes or len(ad.attributes) > AD_BYTES_MAX:
        return {}
    try:
        found = decoded(_decoder, ad.attributes)
    except msgspec.MsgspecError:
        return {}
    return {name: value for name, value in found.items() if is_value(value)}


def is_value(value: Value) -> bool:
    """Return whether an attribute may have this value: no infinity, no larger integers."""
    if isinstance(value, float):
        return value - value == 0.0
    return isinstance(value, str) or -(2**63) <= value < 2**63


def is_attribute(name: str) -> bool:
    """Return whether the name may be that of an attribute."""
    return _IDENTIFIER.match(name) is not None


def _names_attribute(resource: str) -> bool:
    """Return whether the amount of a named resource is an attribute of that name."""
    return is_attribute(resource) and resource != DISK.name  # which HTCondor counts in KiB


def capacity_attributes(name: str, capacity: Resources, speed: float) -> dict[str, Value]:
    """Return the attributes that follow from a machine's whole capacity, free or not."""
    memory_mib = capacity.memory_bytes // MIB
    found: dict[str, Value] = {
        "MyType": MACHINE_TYPE,
        "Name": name,
        "Machine": name,
        "Cpus": capacity.cpus,
        "TotalCpus": capacity.cpus,
        "Memory": memory_mib,
        "TotalMemory": memory_mib,
        "Gpus": capacity.gpus,
        "TotalGpus": capacity.gpus,
        "Speed": float(speed),
    }
    if capacity.disk_bytes:
        found["Disk"] = found["TotalDisk"] = capacity.disk_bytes // KIB
    return found | {name: amount for name, amount in capacity.named if _names_attribute(name)}


def job_attributes(
    account: Account,
    resources: Resources,
    limit_s: float | None,
    urgency: float,
    *,
    exclusive: bool,
) -> dict[str, Value]:
    """Return the attributes of a job; the same at its home, its broker and its node."""
    found: dict[str, Value] = {
        "MyType": JOB_TYPE,
        "JobUniverse": VANILLA_UNIVERSE,
        "Owner": account.user,
        "User": account.user,
        "AcctGroup": account.group,
        "AcctGroupUser": account.user,
        "JobPrio": float(urgency),
        "RequestCpus": resources.cpus,
        "RequestMemory": -(-resources.memory_bytes // MIB),
        "RequestDisk": -(-resources.disk_bytes // KIB),
        "RequestGpus": resources.gpus,
        "WantWholeMachine": exclusive,
    }
    if limit_s is not None:
        found["AllowedJobDuration"] = float(limit_s)
    for name, amount in resources.named:
        if _names_attribute(name):
            found[f"Request{name[0].upper()}{name[1:]}"] = amount
    return found
