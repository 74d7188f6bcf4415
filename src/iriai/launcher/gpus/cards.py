"""The GPUs of this machine, as their drivers list them, and the device nodes that open them.

The drivers' files in /proc and /sys tell all that is needed. NVIDIA's library (NVML) would tell the
same, but what loads it in a process of root's runs the vendor's code there, wakes the cards, and
takes some 20 MB.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

log = logging.getLogger(__name__)

Node = tuple[int, int]
"""Major and minor number of a character device."""

_NVIDIA_MAJOR = 195
_AMD_VENDOR = "0x1002"
_CARDS_MAX = 1024


class Vendor(StrEnum):
    """Whose driver it is: by that programs are told which cards they have."""

    NVIDIA = "nvidia"
    AMD = "amd"
    OTHER = ""


class Card(NamedTuple):
    """One GPU."""

    vendor: Vendor
    nodes: tuple[Node, ...]
    """What opens this card and no other."""
    uuid: str = ""
    """As NVIDIA's programs take it for a number; empty where the driver does not tell."""


def find_cards(configured: Iterable[str] = (), root: str = "/") -> tuple[Card, ...]:
    """All GPUs by number: NVIDIA's, then AMD's, each in the order of their places on the bus.

    `configured` lists the paths of each card's nodes instead, separated by spaces. Below `root` lie
    the files of the drivers.
    """
    found = [*_nvidia_cards(Path(root)), *_amd_cards(Path(root))]
    given = [Card(Vendor.OTHER, _nodes_of(text)) for text in configured]
    if not given:
        return tuple(found[:_CARDS_MAX])
    known = {node: card for card in found for node in card.nodes}
    return tuple(_named(card, known) for card in given)


def _named(card: Card, known: dict[Node, Card]) -> Card:
    """A configured card with what its driver tells of it."""
    for node in card.nodes:
        if node in known:
            return Card(known[node].vendor, card.nodes, known[node].uuid)
    return card


def _nodes_of(text: str) -> tuple[Node, ...]:
    nodes = []
    for path in text.split():
        try:
            found = os.stat(path)
        except OSError as error:
            log.warning("gpu_devices: %s: %s", path, error.strerror)
            continue
        if stat.S_ISCHR(found.st_mode):
            nodes.append((os.major(found.st_rdev), os.minor(found.st_rdev)))
        else:
            log.warning("gpu_devices: %s is no character device", path)
    return tuple(nodes)


def _nvidia_cards(root: Path) -> Iterable[Card]:
    try:
        places = sorted((root / "proc/driver/nvidia/gpus").iterdir())
    except OSError:
        return
    for number, place in enumerate(places):
        fields: dict[str, str] = {}
        with suppress(OSError):
            lines = (place / "information").read_text(errors="replace").splitlines()
            fields = {name: value.strip() for name, _, value in (x.partition(":") for x in lines)}
        minor = fields.get("Device Minor", "")
        uuid = fields.get("GPU UUID", "")
        node = _NVIDIA_MAJOR, int(minor) if minor.isdecimal() else number
        nodes = node, *_drm_nodes(root / "sys/bus/pci/devices" / place.name.lower())
        # Until the card was woken for the first time it says GPU-????????-...
        yield Card(Vendor.NVIDIA, nodes, "" if "?" in uuid else uuid)


def _amd_cards(root: Path) -> Iterable[Card]:
    try:
        places = sorted((root / "sys/bus/pci/devices").iterdir())
    except OSError:
        return
    for place in places:
        with suppress(OSError):
            if (place / "vendor").read_text().strip() != _AMD_VENDOR:
                continue
            nodes = tuple(_drm_nodes(place))
            if nodes:
                yield Card(Vendor.AMD, nodes)


def _drm_nodes(place: Path) -> Iterable[Node]:
    """Of one card in the kernel's graphics interface: `card0` and `renderD128`."""
    with suppress(OSError):
        for each in sorted((place / "drm").iterdir()):
            with suppress(OSError, ValueError):
                major, minor = map(int, (each / "dev").read_text().split(":"))
                yield major, minor
