"""The state directory: found or created with the right owners and modes, or refused."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

import iriai
from iriai.model.paths import SYSTEM_SOCKET, StatePaths, check_socket_path
from iriai.model.problem import NotAllowed, Problem, Refused, UsageProblem
from iriai.protocol.messages.effects import Part
from iriai.state.role import AS_BEFORE, EVERY_PART, RequestedRole, Role
from iriai.system.atomic_files import PRIVATE_FILE_MODE, write_whole
from iriai.system.lock_file import LockHeld, take_lock
from iriai.system.passwd_cache import user_words
from iriai.system.privileges import (
    DAEMON_USER,
    current_user,
    ensure_daemon_user,
    find_user,
    unreachable_ancestor,
)

STATE_VERSION = 3
"""Raised with every change that an older daemon would misread. 3: the store numbers its schema."""
HARMLESS_FILES = ("iriai.toml", "iriai.rc", "state.json", "state.json.new", "lost+found", "nodes")
"""What may lie in a directory that is to become a state directory; else it is someone's."""
_PROBE_BYTES = 65_536
"""Enough to notice a full disk, which a file of no bytes does not."""


class StateIdentity(NamedTuple):
    """The identity of a state directory."""

    version: int
    home: str
    """The home's name: job ids carry it, so it stays."""
    daemon_user: str
    """The Unix user that the daemon runs as and that the store belongs to."""
    parts: tuple[Part, ...] = EVERY_PART
    front: str = ""
    """Of a back end: the socket of its front end."""

    @property
    def role(self) -> Role:
        """Return the role of the machine."""
        return Role(self.parts, self.front)


def absolute_paths(directory: str) -> StatePaths:
    """Return the paths of the state directory `directory`, which may be relative."""
    return StatePaths(str(Path(directory).absolute()))


def read_identity(paths: StatePaths) -> StateIdentity | None:
    """Return the stored identity; None if the directory is new.

    Raises:
        Refused: another version has used it, or the file is not iriai's.
    """
    try:
        text = Path(paths.identity).read_text()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise problem_of(error, paths.identity) from None
    try:
        said = json.loads(text)
        version, home, user = int(said["version"]), str(said["home"]), str(said["daemon_user"])
        if version != STATE_VERSION:
            raise _of_another_version(paths, version)
        parts = tuple(Part(part) for part in said["parts"])
        front = str(said["front"])
    except (ValueError, KeyError, TypeError):
        raise Refused(
            "not-a-state-directory",
            f"{paths.identity} was not written by iriai",
            "choose another directory with --state, or restore this file from a copy",
        ) from None
    return StateIdentity(version, home, user, parts, front)


def daemon_owner(paths: StatePaths) -> tuple[int, int] | None:
    """Return the ids of the daemon's user, for files that root writes; None if not root.

    Raises `Refused`: the directory is no state directory.
    """
    identity = read_identity(paths)
    if identity is None:
        raise Refused(
            "not-a-state-directory",
            f"{paths.directory} is not a state directory",
            "run 'iriai up' first",
        )
    if os.geteuid() != 0:
        return None
    entry = find_user(identity.daemon_user)
    return entry.pw_uid, entry.pw_gid


def prepare(
    paths: StatePaths,
    *,
    home: str,
    home_given: bool,
    user: str | None = None,
    wanted: RequestedRole = AS_BEFORE,
) -> StateIdentity:
    """Make the state directory ready, or confirm that it is; safe to repeat.

    `home` is the machine's name for a new directory; with `home_given` it is configured and has
    to agree with the stored one. `user` is the daemon's user if root names one, `wanted` the other
    options of `iriai up`; None: as before, or the default. Returns the stored identity.

    Raises:
        Problem: it is another user's, from a newer version, cannot be written or reached, or has a
            path too long for its sockets. Nothing that was there was changed.
    """
    for socket_path in (paths.launcher_socket, paths.daemon_socket):
        check_socket_path(socket_path)
    try:
        _claim(paths)
        with locked_directory(paths.directory):
            identity = read_identity(paths)
            daemon_user = _daemon_user(paths, identity, user)
            _check_reach(paths, daemon_user)
            _check_program(daemon_user)
            if identity is None:
                name = _name(paths, wanted, home, home_given=home_given)
                identity = StateIdentity(STATE_VERSION, name, daemon_user, *wanted.role())
                write_identity(paths, identity._asdict())
            elif conflict := wanted.conflict(identity.home, identity.role):
                raise _settled(paths, identity, conflict)
            elif home_given and identity.home != home:
                raise UsageProblem(
                    "home-renamed",
                    f"{paths.configuration}: machine.name is '{home}', but ids in "
                    f"{paths.directory} carry '{identity.home}'",
                    f"write '{identity.home}', or choose another directory with --state",
                )
            _make_directories(paths, identity.daemon_user)
    except OSError as error:
        raise problem_of(error, paths.directory) from None
    return identity


@contextmanager
def locked_directory(directory: str) -> Iterator[None]:
    """Lock the directory, so that two processes do not both write one of its files."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _name(paths: StatePaths, wanted: RequestedRole, home: str, *, home_given: bool) -> str:
    """Return the machine's name, from the option or the configuration."""
    if wanted.name is not None and home_given and wanted.name != home:
        raise UsageProblem(
            "two-names",
            f"--name is '{wanted.name}', but machine.name in {paths.configuration} is '{home}'",
            "leave one of them out",
        )
    return wanted.name or home


def _settled(paths: StatePaths, identity: StateIdentity, conflict: str) -> UsageProblem:
    if identity.role.has_home:  # it has jobs, and a history
        hint = "leave that out, or choose another directory with --state"
    else:
        hint = (
            f"leave that out; or run 'iriai down --kill', remove {paths.directory}, and "
            "repeat the command"
        )
    return UsageProblem(
        "settled",
        f"{conflict} is not what {paths.directory} was made for: {identity.home}, {identity.role}",
        hint,
    )


def check_space(paths: StatePaths) -> None:
    """Raise Refused if the disk is full, by writing a probe file."""
    probe = Path(paths.directory, "probe")
    try:
        with probe.open("wb") as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise problem_of(error, paths.directory) from None
    finally:
        probe.unlink(missing_ok=True)


def lock_state(paths: StatePaths, part: str) -> int:
    """Take the lock of `part` for the life of this process; returns the open descriptor.

    Raises:
        Refused: another process has it, or the file cannot be made.
    """
    try:
        return take_lock(paths.lock(part))
    except LockHeld as held:
        whose = f"process {held.pid}" if held.pid else "another process"
        raise Refused(
            "state-in-use",
            f"{paths.directory} is in use by {whose}",
            "stop it with 'iriai down', or choose another directory with --state",
        ) from None
    except OSError as error:
        raise problem_of(error, paths.lock(part)) from None


def problem_of(error: OSError, where: str) -> Problem:
    """Return `error` at `where` as a problem for people."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Refused("no-space", f"no space left under {where}", "free some and try again")
    hint = "check its owner and permissions, or choose another directory with --state"
    if error.errno == errno.EROFS:
        hint = "mount it writable, or choose another directory with --state"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        hint = "choose a directory with --state"
    place = error.filename if isinstance(error.filename, str) else where
    return Refused("state-not-writable", f"{place} cannot be used ({reason})", hint)


def _claim(paths: StatePaths) -> None:
    """Make the directory, or check that this user may use it; raise a `Problem`."""
    directory = Path(paths.directory)
    # Parents of a user's state directory are private by the XDG rules; root's exist.
    directory.mkdir(parents=True, exist_ok=True, mode=0o711)
    owner_uid = directory.stat().st_uid
    if owner_uid != os.geteuid():
        owner, me = user_words(owner_uid), user_words(os.geteuid())
        raise NotAllowed(
            "state-of-another",
            f"{directory} belongs to {owner}, and you are {me}",
            f"choose another directory with --state, or run the command as {owner}",
        )
    if Path(paths.identity).exists():
        return
    others = sorted(each.name for each in directory.iterdir() if each.name not in HARMLESS_FILES)
    if others:
        raise Refused(
            "not-a-state-directory",
            f"{directory} is not a state directory of iriai, and not empty ('{others[0]}' is in "
            "it)",
            "choose an empty or new directory with --state",
        )


def _daemon_user(paths: StatePaths, identity: StateIdentity | None, wanted: str | None) -> str:
    """Return the daemon's user; create the default user if it is missing."""
    me = os.geteuid()
    if me != 0:
        if wanted is not None and find_user(wanted).pw_uid != me:
            raise NotAllowed(
                "not-root",
                f"only root can run the daemon as '{wanted}'",
                "leave --user out, or run the command as root",
            )
        return current_user()
    if identity is not None and wanted not in (None, identity.daemon_user):
        raise UsageProblem(
            "daemon-user-changed",
            f"the daemon of {paths.directory} runs as '{identity.daemon_user}', not '{wanted}'",
            "leave --user out, or choose another directory with --state",
        )
    name = identity.daemon_user if identity else wanted or DAEMON_USER
    return (ensure_daemon_user() if name == DAEMON_USER else find_user(name)).pw_name


def _of_another_version(paths: StatePaths, version: int) -> Refused:
    versions = f"(version {version} of the directory; this one knows {STATE_VERSION})"
    if version > STATE_VERSION:
        return Refused(
            "newer-state",
            f"{paths.directory} was written by a newer iriai {versions}",
            "install that iriai again, or choose another directory with --state",
        )
    return Refused(
        "older-state",
        f"{paths.directory} was written by an older iriai {versions}",
        "let that iriai finish its jobs and do 'iriai down', then choose an empty directory with "
        "--state, or move this one away",
    )


def write_identity(paths: StatePaths, identity: Mapping[str, object]) -> None:
    """Write the identity of a state directory; raise OSError."""
    write_whole(Path(paths.identity), json.dumps(identity).encode() + b"\n")


def _make_directories(paths: StatePaths, daemon_user: str) -> None:
    """Make the subdirectories and set owners and modes.

    Users pass through root's directory to their own files in the spool; identity and
    configuration are readable by the owner alone.
    """
    shared = os.geteuid() == 0
    Path(paths.directory).chmod(0o711 if shared else 0o700)
    # Files in the spool are made by the launcher for their users and removed by the daemon.
    modes = {
        paths.store: 0o700,
        paths.spool: 0o711 if shared else 0o700,
        paths.log: 0o710 if shared else 0o700,
    }
    for name, mode in modes.items():
        directory = Path(name)
        directory.mkdir(exist_ok=True)
        directory.chmod(mode)
    if shared:
        owner = pwd.getpwnam(daemon_user)
        for name in (paths.store, paths.spool):
            os.chown(name, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
        os.chown(paths.log, 0, owner.pw_gid, follow_symlinks=False)
        for name in (paths.identity, paths.configuration):
            with suppress(FileNotFoundError):
                Path(name).chmod(PRIVATE_FILE_MODE)
    if paths.daemon_socket == SYSTEM_SOCKET:
        Path(SYSTEM_SOCKET).parent.mkdir(exist_ok=True, mode=0o755)


def _check_reach(paths: StatePaths, daemon_user: str) -> None:
    """Raise Refused if the daemon's user cannot enter a parent of the directory."""
    barrier = unreachable_ancestor(str(Path(paths.directory).parent), daemon_user)
    if barrier is not None:
        raise Refused(
            "state-unreachable",
            f"the daemon runs as user '{daemon_user}', who may not enter {barrier} on the way "
            f"to {paths.directory}",
            f"choose another directory with --state, run 'chmod o+x {barrier}', or run the "
            "daemon as root with --user root",
        )


def _check_program(daemon_user: str) -> None:
    """Raise Refused if the daemon's user cannot read the program, which imports later."""
    if os.geteuid() != 0:
        return
    for module in (iriai, msgspec, os):  # the program, its libraries, Python
        place = str(Path(module.__file__ or "").parent)
        barrier = unreachable_ancestor(place, daemon_user)
        if barrier is not None:
            raise Refused(
                "program-unreachable",
                f"user '{daemon_user}', as whom the daemon runs, may not enter {barrier} on the "
                f"way to a part of the program, {place}",
                "install iriai and Python where all users may read them (in a checkout "
                "'make environment' does, as root), or run the daemon as root with --user root",
            )
