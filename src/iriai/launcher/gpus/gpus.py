"""Assigns GPUs to tasks, and keeps other launchers of this machine from using them."""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

from iriai.launcher.contract.machine_config import MachineSettings
from iriai.launcher.contract.messages import StartOrder
from iriai.model.ids import AttemptId

Node = tuple[int, int]
"""Major and minor number of a character device."""

_NVIDIA_MAJOR = 195
_AMD_VENDOR = "0x1002"
_CARDS_MAX = 1024


class Vendor(StrEnum):
    """The vendor of a driver, which decides how programs learn their GPUs."""

    NVIDIA = "nvidia"
    AMD = "amd"
    OTHER = ""


class Card(NamedTuple):
    """One GPU."""

    vendor: Vendor
    nodes: tuple[Node, ...]
    """The devices of this card and no other."""
    uuid: str = ""
    """As NVIDIA's programs accept it in place of a number; empty if the driver does not report
    it."""


def find_cards(configured: Iterable[str] = (), root: str = "/") -> tuple[Card, ...]:
    """Return all GPUs by number: NVIDIA's, then AMD's, each in the order of their bus addresses.

    The drivers' files in /proc and /sys tell all that is needed. NVIDIA's library (NVML) would tell
    the same, but what loads it in a process of root's runs the vendor's code there, wakes the
    cards, and takes some 20 MB.

    `configured` lists the paths of each card's nodes instead, separated by spaces. Below `root` lie
    the files of the drivers.
    """
    found = [*_nvidia_cards(root), *_amd_cards(root)]
    given = [Card(Vendor.OTHER, _nodes_of(text)) for text in configured]
    if not given:
        return tuple(found[:_CARDS_MAX])
    known = {node: card for card in found for node in card.nodes}
    return tuple(_named(card, known) for card in given)


def _named(card: Card, known: dict[Node, Card]) -> Card:
    """Return a configured card with vendor and id from its driver."""
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
            log.warning("gpu_devices: %s is not a character device", path)
    return tuple(nodes)


def _nvidia_cards(root: str) -> Iterable[Card]:
    place = f"{root}/proc/driver/nvidia/gpus"
    for number, address in enumerate(_names_in(place)):
        fields: dict[str, str] = {}
        with suppress(OSError):
            lines = _text_of(f"{place}/{address}/information").splitlines()
            fields = {name: value.strip() for name, _, value in (x.partition(":") for x in lines)}
        minor = fields.get("Device Minor", "")
        uuid = fields.get("GPU UUID", "")
        node = _NVIDIA_MAJOR, int(minor) if minor.isdecimal() else number
        nodes = node, *_drm_nodes(f"{root}/sys/bus/pci/devices/{address.lower()}")
        # Until the card was woken for the first time it says GPU-????????-...
        yield Card(Vendor.NVIDIA, nodes, "" if "?" in uuid else uuid)


def _amd_cards(root: str) -> Iterable[Card]:
    place = f"{root}/sys/bus/pci/devices"
    for address in _names_in(place):
        with suppress(OSError):
            if _text_of(f"{place}/{address}/vendor").strip() != _AMD_VENDOR:
                continue
            nodes = tuple(_drm_nodes(f"{place}/{address}"))
            if nodes:
                yield Card(Vendor.AMD, nodes)


def _drm_nodes(place: str) -> Iterable[Node]:
    """Yield the nodes of one card in the graphics interface: `card0` and `renderD128`."""
    for name in _names_in(f"{place}/drm"):
        with suppress(OSError, ValueError):
            major, minor = map(int, _text_of(f"{place}/drm/{name}/dev").split(":"))
            yield major, minor


def _names_in(place: str) -> list[str]:
    """Return what is in a directory, sorted; nothing where it cannot be read."""
    try:
        return sorted(os.listdir(place))
    except OSError:
        return []


def _text_of(path: str) -> str:
    """Return the content of a driver's file. Raises OSError."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


log = logging.getLogger(__name__)

SYSTEM_CLAIMS = "/run/iriai-gpus"
"""Where launchers of root lock the cards of their tasks, a file for each."""
_HOLDER_BYTES_MAX = 4096

HIDDEN = {
    "CUDA_VISIBLE_DEVICES": "",
    "NVIDIA_VISIBLE_DEVICES": "void",
    "ROCR_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "",
}
"""The variables of a task without GPUs, whatever it was submitted with."""


class CardTaken(Exception):
    """A card cannot be given to a task; the text explains why and what to do."""


class Gpus:
    """The cards of this machine, by the numbers that the daemon uses."""

    def __init__(self, owner: str) -> None:
        """`owner` is the state directory, which other launchers read as the holder of a card."""
        self._owner = os.fsencode(owner)
        self._numbers: tuple[int, ...] = ()
        self.cards: tuple[Card, ...] = ()
        self.held: dict[AttemptId, list[int]] = {}
        """The locks of attempts that have cards."""

    def use(self, settings: MachineSettings) -> None:
        """Apply the configuration, and detect the cards again."""
        self._numbers = settings.gpu_ids
        self.cards = find_cards(settings.gpu_devices)

    def acquire(self, order: StartOrder) -> tuple[int, ...]:
        """Lock the cards of `order` until `release`; return their numbers on this machine.

        Raises `CardTaken`, or OSError where its lock cannot be made.
        """
        numbers = self._numbers
        if numbers and max(order.gpu_ids) >= len(numbers):
            raise CardTaken(
                f"{max(order.gpu_ids) + 1} GPUs are needed, {len(numbers)} are offered here: "
                "see gpu_ids in [machine] of iriai.toml"
            )
        ids = tuple(numbers[each] for each in order.gpu_ids) if numbers else order.gpu_ids
        locks: list[int] = []
        self.held[order.attempt] = locks
        directory_fd = _claims() if self.cards else -1
        try:
            if directory_fd >= 0:
                known = (each for each in ids if each < len(self.cards) and self.cards[each].nodes)
                locks.extend(self._lock(directory_fd, each) for each in known)
        except (CardTaken, OSError):
            self.release(order.attempt)
            raise
        finally:
            if directory_fd >= 0:
                os.close(directory_fd)
        return ids

    def release(self, attempt: AttemptId) -> None:
        """Unlock the cards of a task that is over, or is not started."""
        for fd in self.held.pop(attempt, ()):
            os.close(fd)

    def variables(self, gpu_ids: tuple[int, ...]) -> dict[str, str]:
        """Return the variables by which a task finds these cards, and no others."""
        if not gpu_ids:
            return HIDDEN
        result = dict(HIDDEN)
        cards = self.cards
        amd = [each for each, card in enumerate(cards) if card.vendor is Vendor.AMD]
        mine = [amd.index(each) for each in gpu_ids if each in amd]
        others = [each for each in gpu_ids if each not in amd]
        if mine:
            # HIP counts what ROCR leaves, and goes by CUDA's variable as well.
            counted = _joined(range(len(mine)))
            result["ROCR_VISIBLE_DEVICES"] = _joined(mine)
            result["HIP_VISIBLE_DEVICES"] = result["CUDA_VISIBLE_DEVICES"] = counted
        if others:
            uuids = [cards[each].uuid for each in others if each < len(cards)]
            is_told = len(uuids) == len(others) and all(uuids)
            names = ",".join(uuids) if is_told else _joined(others)
            if not is_told:
                result["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # as they are numbered here
            result["CUDA_VISIBLE_DEVICES"] = result["NVIDIA_VISIBLE_DEVICES"] = names
        return result

    def _lock(self, directory_fd: int, number: int) -> int:
        """Lock a card; return the descriptor, whose end unlocks it."""
        major, minor = self.cards[number].nodes[0]
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(f"{major}-{minor}", flags, 0o600, dir_fd=directory_fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, _HOLDER_BYTES_MAX).decode(errors="replace")
            os.close(fd)
            raise CardTaken(
                f"GPU {number} is in use by a task of {holder or 'another launcher'} on this host:"
                " divide the GPUs, with gpu_ids in [machine] of each iriai.toml"
            ) from None
        os.ftruncate(fd, 0)
        os.write(fd, self._owner)
        return fd


def _joined(numbers: range | list[int]) -> str:
    return ",".join(map(str, numbers))


def _claims() -> int:
    """Open the directory of claims; -1 if it is missing or others may enter it."""
    uid = os.geteuid()
    path = SYSTEM_CLAIMS if uid == 0 else f"/run/user/{uid}/iriai-gpus"
    try:
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        log.warning("GPUs are not protected from other launchers: %s: %s", path, error.strerror)
        return -1
    found = os.fstat(fd)
    if found.st_uid != uid or stat.S_IMODE(found.st_mode) & 0o077:
        os.close(fd)
        log.warning(
            "GPUs are not protected from other launchers: %s must belong to this launcher alone",
            path,
        )
        return -1
    return fd
