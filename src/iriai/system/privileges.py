"""Service users of iriai: found, created, and switched to."""

from __future__ import annotations

import grp
import os
import pwd
import subprocess
from pathlib import Path

from iriai.model.problem import Problem, UsageProblem

DAEMON_USER = "iriai"
"""The user of root's daemon."""
_USERADD_TIMEOUT_S = 60.0


def find_user(name: str) -> pwd.struct_passwd:
    """Return the entry of the user `name`; raise UsageProblem if there is none."""
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise UsageProblem(
            "unknown-user",
            f"there is no user '{name}' on this machine to run the daemon as",
            "name another with --user, or create it with useradd --system",
        ) from None


def current_user() -> str:
    """Return the name of the user that this process runs as.

    Raises:
        UsageProblem: the user id has no name.
    """
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise UsageProblem(
            "nameless-user",
            f"user id {uid} has no name on this machine",
            "accounts are named after users: give this id an entry in /etc/passwd",
        ) from None


def ensure_daemon_user(name: str = DAEMON_USER) -> pwd.struct_passwd:
    """Return the entry of the user `name`; create it if there is none. Needs root.

    Raises:
        Problem: the user could not be made.
    """
    try:
        return pwd.getpwnam(name)
    except KeyError:
        pass
    command = ["useradd", "--system", *_own_group(name), "--no-create-home"]
    command += ["--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", name]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_USERADD_TIMEOUT_S, check=False
        )
        complaint = done.stderr.strip() if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        complaint = str(error)
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise Problem(
            "no-daemon-user",
            f"the user '{name}' could not be created ({complaint or 'useradd created none'})",
            f"create it with useradd --system {name}, or name a user with --user",
        ) from None


def _own_group(name: str) -> list[str]:
    """Return the options of useradd for a group of its own, or the existing one of that name."""
    try:
        grp.getgrnam(name)
    except KeyError:
        return ["--user-group"]
    return ["--gid", name]


def drop_privileges(user: str) -> None:
    """Become `user` for good: groups, group, user.

    Does nothing where this process runs as `user` already.

    Raises:
        UsageProblem: there is no such user.
        PermissionError: this process may not become another user.
    """
    entry = find_user(user)
    if os.getuid() == os.geteuid() == entry.pw_uid:
        return
    os.setgroups(os.getgrouplist(entry.pw_name, entry.pw_gid))
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    if os.getresuid() != (entry.pw_uid,) * 3:
        raise PermissionError(f"privileges remain: user ids {os.getresuid()}")


def unreachable_ancestor(path: str, user: str) -> Path | None:
    """Return the first directory on the way to `path`, included, that `user` may not enter.

    Returns None if there is none. A child that has become `user` asks the kernel, so that access
    lists count as well; without root the answer is for the calling user.
    """
    ways = [*reversed(Path(path).parents), Path(path)]
    child = os.fork()
    if child == 0:
        refused = len(ways)
        try:
            if os.geteuid() == 0:
                drop_privileges(user)
            refused = next((i for i, way in enumerate(ways) if not os.access(way, os.X_OK)), 255)
        finally:
            os._exit(min(refused, 255))
    _, status = os.waitpid(child, 0)
    refused = os.waitstatus_to_exitcode(status)
    return ways[refused] if 0 <= refused < len(ways) else None
