"""Denies GPUs to the tasks of pooled groups that they are not assigned to.

The denied devices change only if the next task of a group has other cards than the last one.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

from iriai.launcher.containment.cgroups.controllers import write_file

_CALL_NUMBERS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_PROGRAM_LOAD, _PROGRAM_ATTACH = 5, 8
_CGROUP_DEVICE_PROGRAM, _CGROUP_DEVICE = 15, 6
_ALLOW_MULTI, _REPLACE = 2, 4
_CHARACTER_DEVICE = 2
_LOAD_WORD, _AND, _JUMP_UNLESS, _JUMP_IF, _SET, _EXIT = 0x61, 0x54, 0x55, 0x15, 0xB7, 0x95
_RESULT, _CONTEXT, _KIND, _MAJOR, _MINOR = 0, 1, 2, 3, 4
"""Registers."""

_libc = ctypes.CDLL(None, use_errno=True)


def instructions(denied: Iterable[tuple[int, int]]) -> bytes:
    """Return the program that denies the character devices of these numbers.

    Version 2 has no `devices` controller: the kernel runs this whenever a member of the group opens
    or makes a device node (bpf(2), BPF_PROG_TYPE_CGROUP_DEVICE). Loading takes a millisecond.

    Its context is struct bpf_cgroup_dev_ctx: kind of device in the lower half of the first word,
    then major and minor number.
    """
    nodes = sorted(denied)
    code = [
        _instruction(_LOAD_WORD, _KIND, _CONTEXT, 0),
        _instruction(_AND, _KIND, value=0xFFFF),
        _instruction(_LOAD_WORD, _MAJOR, _CONTEXT, 4),
        _instruction(_LOAD_WORD, _MINOR, _CONTEXT, 8),
        _instruction(_SET, _RESULT, value=1),
        _instruction(_JUMP_IF, _KIND, skip=1, value=_CHARACTER_DEVICE),
        _instruction(_EXIT),
    ]
    for major, minor in nodes:
        code += [
            _instruction(_JUMP_UNLESS, _MAJOR, skip=3, value=major),
            _instruction(_JUMP_UNLESS, _MINOR, skip=2, value=minor),
            _instruction(_SET, _RESULT, value=0),
            _instruction(_EXIT),
        ]
    return b"".join([*code, _instruction(_EXIT)])


def _instruction(
    code: int, target: int = 0, source: int = 0, offset: int = 0, *, skip: int = 0, value: int = 0
) -> bytes:
    """Return one instruction: struct bpf_insn."""
    return struct.pack("=BBhi", code, source << 4 | target, offset or skip, value)


def load(denied: Iterable[tuple[int, int]]) -> int:
    """Load the program; return its descriptor. Raises OSError if the kernel refuses."""
    code = instructions(denied)
    held = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    log_level, log_size, log_buffer, kernel_version, flags, interface = 0, 0, 0, 0, 0, 0
    attributes = struct.pack(
        "=IIQQIIQII16sII",
        _CGROUP_DEVICE_PROGRAM,
        len(code) // 8,
        ctypes.addressof(held),
        ctypes.addressof(licence),
        log_level,
        log_size,
        log_buffer,
        kernel_version,
        flags,
        b"iriai_devices",
        interface,
        _CGROUP_DEVICE,
    )
    fd = _call(_PROGRAM_LOAD, attributes)
    os.set_inheritable(fd, False)
    return fd


def attach(group_fd: int, program_fd: int, replaced_fd: int = -1) -> None:
    """Attach the program to the group, in place of `replaced_fd`.

    Programs of groups above apply as well, and all must allow. Raises OSError.
    """
    flags = _ALLOW_MULTI | (_REPLACE if replaced_fd >= 0 else 0)
    attributes = struct.pack(
        "=IIIII", group_fd, program_fd, _CGROUP_DEVICE, flags, max(replaced_fd, 0)
    )
    _call(_PROGRAM_ATTACH, attributes)


def _call(command: int, attributes: bytes) -> int:
    number = _CALL_NUMBERS.get(os.uname().machine)
    if number is None:
        raise OSError(38, f"bpf(2) has no known number on {os.uname().machine}")
    held = ctypes.create_string_buffer(attributes, len(attributes))
    result = int(_libc.syscall(number, command, ctypes.byref(held), len(attributes)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


Nodes = tuple[tuple[int, int], ...]
"""Major and minor numbers of the character devices of one card."""


def denied_nodes(cards: tuple[Nodes, ...], gpu_ids: tuple[int, ...]) -> frozenset[tuple[int, int]]:
    """Return the devices of all other cards; a device that two cards share is not denied."""
    own = {node for each in gpu_ids if each < len(cards) for node in cards[each]}
    return frozenset(node for nodes in cards for node in nodes) - own


class Devices:
    """The GPUs that members of a group can open."""

    def __init__(self, cards: tuple[Nodes, ...]) -> None:
        self._cards = cards
        self._gpu_ids: tuple[int, ...] | None = None

    def allow(self, gpu_ids: tuple[int, ...]) -> None:
        """Allow these cards, by number, and none of the others. Raises OSError."""
        if gpu_ids != self._gpu_ids:
            self._deny(denied_nodes(self._cards, gpu_ids))
            self._gpu_ids = gpu_ids

    def close(self) -> None:
        """Close the open files."""

    def _deny(self, denied: frozenset[tuple[int, int]]) -> None:
        raise NotImplementedError


class DevicesV1(Devices):
    """The `devices` controller of version 1."""

    def __init__(self, directory: str, cards: tuple[Nodes, ...]) -> None:
        super().__init__(cards)
        self._directory = directory
        self._denied: frozenset[tuple[int, int]] = frozenset()

    def _deny(self, denied: frozenset[tuple[int, int]]) -> None:
        for name, nodes in (
            ("devices.deny", denied - self._denied),
            ("devices.allow", self._denied - denied),
        ):
            for major, minor in sorted(nodes):
                write_file(self._directory, name, f"c {major}:{minor} rwm")
        self._denied = denied


class DevicesV2(Devices):
    """A device program in the kernel, attached to a group of version 2."""

    def __init__(self, directory: str, cards: tuple[Nodes, ...]) -> None:
        super().__init__(cards)
        self._program_fd = -1
        self._group_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def _deny(self, denied: frozenset[tuple[int, int]]) -> None:
        program_fd = load(denied)
        try:
            attach(self._group_fd, program_fd, self._program_fd)
        except OSError:
            os.close(program_fd)
            raise
        if self._program_fd >= 0:
            os.close(self._program_fd)
        self._program_fd = program_fd

    def close(self) -> None:
        """Close the open files; the kernel unloads the program with its group."""
        if self._program_fd >= 0:
            os.close(self._program_fd)
        os.close(self._group_fd)
