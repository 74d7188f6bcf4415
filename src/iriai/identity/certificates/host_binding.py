"""The binding of an identity to its host: detects a copy of it that is started elsewhere.

Two machines with one key cannot be told apart by what they sign, only by where they run. So the
identity remembers the machine and the directory that it was first used in.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from iriai.identity.certificates.machine_identity import KEY_FILE
from iriai.model.bounds import Word, Words, decoded
from iriai.model.problem import Refused
from iriai.system.atomic_files import read_file, replace_file

DWELLING_FILE = "dwelling.json"
MACHINE_ID = Path("/etc/machine-id")
"""Made when a system is installed (machine-id(5)); a copied disk has its original's."""


class HostBinding(msgspec.Struct, frozen=True):
    """The host and directory where an identity was first used."""

    machine_id: Word
    """Empty: the system has none."""
    directory: Words


def this_machine_id() -> str:
    """Return the machine id of this system; empty if it has none."""
    try:
        return MACHINE_ID.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def check_dwelling(directory: Path, machine_id: str) -> None:
    """See that the identity in `directory` is used where it was before; remembers the first use.

    Raises:
        Refused: it is a copy: of another machine's, or of one that is still there beside it.
    """
    file = directory / DWELLING_FILE
    here = HostBinding(machine_id, str(directory))
    if not file.exists():
        _keep(directory, here)
        return
    try:
        before = decoded(msgspec.json.Decoder(HostBinding), read_file(file))
    except msgspec.DecodeError as error:
        raise Refused("bad-cluster-file", f"{file} is damaged: {error}") from None
    if before == here:
        return
    if before.machine_id and machine_id and before.machine_id != machine_id:
        raise _copied(file, f"on another machine ({before.machine_id[:8]}...)")
    if before.directory != here.directory and _is_same_key(Path(before.directory), directory):
        raise _copied(file, f"in {before.directory}, and is still there")
    _keep(directory, here)


def _is_same_key(one: Path, other: Path) -> bool:
    try:
        if one.samefile(other):
            return False
        return (one / KEY_FILE).read_bytes() == (other / KEY_FILE).read_bytes()
    except OSError:
        return False


def _keep(directory: Path, dwelling: HostBinding) -> None:
    owner = None
    if os.geteuid() == 0:
        status = directory.stat()
        owner = status.st_uid, status.st_gid
    replace_file(directory / DWELLING_FILE, msgspec.json.encode(dwelling), owner)


def _copied(file: Path, where: str) -> Refused:
    return Refused(
        "copied-identity",
        f"{file.parent} is a copy: this identity was used {where}",
        "two machines with one key would be taken for one. To make this a machine of its own: "
        f"remove {file.parent} and join with a new token. If the other is gone for good: remove "
        f"{file}",
    )
