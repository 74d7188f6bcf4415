"""Which machines run a program: what a binary says of itself, and commands that pick one.

Names of architectures and systems are HTCondor's, as in the ad of a machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

HEAD_BYTES = 20
"""Of a file: what tells for which machines it is."""
OF_MACHINES = ("/bin/", "/sbin/", "/usr/", "/lib/", "/opt/", "/nix/", "/snap/")
"""Where each machine has programs of its own."""
_PLACES = re.compile(r"%(%?)\{(Arch|OpSys)\}")
_LINUX, _FREEBSD = "LINUX", "FREEBSD"
_SYSTEMS = {0: _LINUX, 3: _LINUX, 9: _FREEBSD}
"""By the byte of the header; most say nothing (0), and are of the system where they are."""
_ON_64_BITS = {21: "ppc64", 22: "s390x", 62: "X86_64", 183: "aarch64", 243: "riscv64"}
"""By the number of the header. Of 32 bits there are none: many machines of 64 run them too."""
_MAGIC, _OF_64_BITS, _LITTLE, _BIG = b"\x7fELF", 2, 1, 2


class BinaryKind(NamedTuple):
    """What a machine has to be for a binary to run."""

    arch: str
    op_sys: str


def binary_of(head: bytes) -> BinaryKind | None:
    """Return for which machines a program is that begins like this; None: it does not say."""
    if len(head) < HEAD_BYTES or not head.startswith(_MAGIC) or head[4] != _OF_64_BITS:
        return None
    order = {_LITTLE: "little", _BIG: "big"}.get(head[5])
    if order is None:
        return None
    number = int.from_bytes(head[18:20], "little" if order == "little" else "big")
    arch, op_sys = _ON_64_BITS.get(number), _SYSTEMS.get(head[7])
    if arch is None or op_sys is None:
        return None
    return BinaryKind("ppc64le" if (arch, order) == ("ppc64", "little") else arch, op_sys)


def differs_by_machine(words: Iterable[str]) -> bool:
    """Return whether a command has other words on other machines."""
    return any("%" in word and _PLACES.search(word) for word in words)


def on_machine(words: tuple[str, ...], arch: str, op_sys: str) -> tuple[str, ...]:
    """Return a command as it is on such a machine: `%{Arch}` and `%{OpSys}` are its own.

    With two percents such a word stays as it is, with one.
    """
    named = {"Arch": arch, "OpSys": op_sys}
    return tuple(
        _PLACES.sub(lambda found: found[0][1:] if found[1] else named[found[2]], word)
        for word in words
    )


def required_kind(requirements: str, words: Iterable[str], binary: BinaryKind) -> str:
    """Return the requirements of a job whose program is a binary.

    What they name already, or the command picks itself, is not required.
    """
    picked = {found[2] for word in words for found in _PLACES.finditer(word) if not found[1]}
    clauses = [f"({requirements})"] if requirements else []
    if "Arch" not in picked and not re.search(r"\barch\b", requirements, re.IGNORECASE):
        clauses.append(f'TARGET.Arch == "{binary.arch}"')
    if "OpSys" not in picked and not re.search(r"\bopsys", requirements, re.IGNORECASE):
        clauses.append(f'TARGET.OpSys == "{binary.op_sys}"')
    return " && ".join(clauses) if len(clauses) > bool(requirements) else requirements
