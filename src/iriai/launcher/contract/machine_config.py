"""The owner's configuration for the launcher: `machine.json` in the state directory.

The daemon writes it before it gives up its privileges, and the launcher reads it whenever a daemon
attaches. So a change of `iriai.toml` reaches a running launcher, and nothing that a daemon says
later can: what is run as root comes from a file that only root could write.
"""

from __future__ import annotations

import os
import stat

import msgspec

from iriai.model.admission_rules import HomeRules
from iriai.model.bounds import decoded
from iriai.system.atomic_files import write_whole

NAME = "machine.json"
TMP_DEFAULT = "/var/tmp"  # noqa: S108 - a directory of our own is made in it, with care
PROLOG_TIMEOUT_S = 60.0
"""A machine that is not ready after a minute will not be; a longer wait keeps a task from going
elsewhere. The epilog has the same limit."""
LOG_BYTES_MAX = 16 << 20
"""Some hundred thousand lines: weeks of a busy machine, and little on the smallest disk."""
LOG_FILES = 4
"""Older files kept of each log."""
_BYTES_MAX = 1 << 20


PROLOG = "prolog"
EPILOG = "epilog"


class MachineSettings(msgspec.Struct, frozen=True):
    """The keys of `[machine]` that concern the launcher and the logs."""

    cpus: int | None = None
    """How many processors are offered; None: all."""
    tmp: str = TMP_DEFAULT
    """Where the private directories of tasks are."""
    prolog: str = ""
    """Program to run before each attempt; empty: none."""
    epilog: str = ""
    """Program to run after each attempt; empty: none."""
    prolog_timeout_s: float = PROLOG_TIMEOUT_S
    epilog_timeout_s: float = PROLOG_TIMEOUT_S
    log_bytes_max: int = LOG_BYTES_MAX
    log_files: int = LOG_FILES
    rules: HomeRules = HomeRules()
    """Whose tasks are run, whatever the daemon says."""
    no_new_privileges: bool | None = None
    """Whether no program gives a task rights that its user has not (setuid, capabilities). None:
    where the launcher is root."""
    gpu_ids: tuple[int, ...] = ()
    """Numbers of the cards to assign, on this machine; empty: the first ones."""
    gpu_devices: tuple[str, ...] = ()
    """Paths of the nodes of each card, separated by spaces; empty: as the drivers list them."""
    owner_users: tuple[str, ...] = ()
    """Users who count as the machine's owner, wherever they sit: `[owner] users`."""
    private_tmp: bool = True
    """Whether each task has a /tmp and /dev/shm of its own, where that is possible."""


class BadMachineFile(Exception):
    """The file cannot be trusted or read; the text says why."""


def read_machine_file(directory_fd: int) -> MachineSettings:
    """Return the settings in the state directory; defaults if nothing was written yet.

    Raises:
        BadMachineFile: another user could have written it, or it is not ours.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        fd = os.open(NAME, flags, dir_fd=directory_fd)
    except FileNotFoundError:
        return MachineSettings()
    except OSError as error:
        raise BadMachineFile(f"{NAME} cannot be read: {error.strerror}") from error
    try:
        found = os.fstat(fd)
        is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if not is_ours or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise BadMachineFile(
                f"{NAME} must be a file of user id {os.geteuid()} that no other user can write"
            )
        return decoded(msgspec.json.Decoder(MachineSettings), os.read(fd, _BYTES_MAX))
    except msgspec.MsgspecError as error:
        raise BadMachineFile(f"{NAME} is not what the daemon writes: {error}") from error
    finally:
        os.close(fd)


def write_machine_file(directory: str, settings: MachineSettings) -> None:
    """Write `settings` for the launcher, atomically. Raises OSError."""
    write_whole(f"{directory}/{NAME}", msgspec.json.encode(settings) + b"\n")
