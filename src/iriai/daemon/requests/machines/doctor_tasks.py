"""What `iriai doctor` finds around tasks: private directories, prolog and epilog, mail."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from iriai.daemon.requests.machines.mounts import NETWORKED, mount_of
from iriai.daemon.startup.settings import DaemonSettings, ServiceMode
from iriai.daemon.tasks.notifications import find_sendmail
from iriai.launcher.contract.machine_config import EPILOG, PROLOG
from iriai.launcher.hooks.trusted_program import NotTrusted, check_program

_PROGRAM_PLACES = ("usr/bin", "usr/sbin", "bin", "sbin", "usr/local/bin", "usr/local/sbin")
_PROGRAMS = (
    *("sudo", "su", "doas", "pkexec", "newgrp", "sg", "ping", "mount", "umount"),
    *("newuidmap", "newgidmap", "fusermount", "fusermount3", "dumpcap"),
)
"""What jobs have been seen to call; `passwd`, `crontab` and their like are no work."""
_STARTERS = (
    "usr/libexec/*/bin/starter-suid",
    "usr/lib/*/bin/starter-suid",
    "usr/lib/*/*/bin/starter-suid",
    "usr/local/libexec/*/bin/starter-suid",
    "opt/*/libexec/*/bin/starter-suid",
)
"""By which Apptainer and Singularity become root where they were installed so."""


def around_tasks(settings: DaemonSettings) -> Iterator[tuple[str, str, str]]:
    """What does not work: (what, how it is, what would help)."""
    machine, jobs = settings.configuration.machine, settings.configuration.jobs
    if settings.role.has_node:
        if not Path(machine.tmp).is_dir():
            hint = "make it, or have tmp in [machine] name another: no task starts without"
            yield "tmp", f"there is no directory {machine.tmp}", hint
        for name, program in ((PROLOG, machine.prolog), (EPILOG, machine.epilog)):
            if program and (why := _why_not_run(program, settings.owner_uid)):
                yield name, f"{program} {why}", "the machine is drained at the first task"
    if settings.role.has_home and jobs.sendmail and not find_sendmail(jobs.sendmail):
        yield "mail", f"there is no {jobs.sendmail}", "jobs with --notify mailto: are refused"


def notes_around_tasks(settings: DaemonSettings) -> Iterator[tuple[str, str, str]]:
    """What works otherwise than one might expect: likewise."""
    if settings.role.has_node:
        mount = mount_of(settings.configuration.machine.tmp)
        if mount is not None and mount.kind in NETWORKED:
            hint = "have tmp in [machine] name a disk of this machine"
            yield "tmp", f"private directories of tasks are on a network ({mount.kind})", hint
        yield from _privileges(settings)


def _privileges(settings: DaemonSettings) -> Iterator[tuple[str, str, str]]:
    """Which programs do not work in tasks, or that they do."""
    wanted = settings.configuration.machine.no_new_privileges
    is_system = settings.mode is ServiceMode.SYSTEM
    if is_system if wanted is None else wanted:
        names = sorted({path.name for path in privileged_programs()})
        if names:
            text = f"give tasks no rights, so may fail in them: {', '.join(names)}"
            yield "privileges", text, "no_new_privileges = false in [machine] where jobs need them"
    elif is_system:
        text = "tasks can gain rights through programs that are setuid"
        yield "privileges", text, "leave no_new_privileges in [machine] as it is by default"


def privileged_programs(root: str = "/") -> list[Path]:
    """The installed programs, of those that jobs know, that give rights to whoever calls them."""
    places = [Path(root, each) for each in _PROGRAM_PLACES]
    found = [path for place in places for name in _PROGRAMS if _gives_rights(path := place / name)]
    for pattern in _STARTERS:
        found += [path for path in Path(root).glob(pattern) if _gives_rights(path)]
    return found


def _gives_rights(program: Path) -> bool:
    try:
        if program.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
            return True
        return bool(os.getxattr(program, "security.capability"))
    except OSError:  # not there, not to be read, or without such attributes
        return False


def _why_not_run(program: str, owner_uid: int) -> str:
    """Why the launcher would not run a program; empty where it would, or where we cannot see."""
    try:
        check_program(program, owner_uid)
        found = os.stat(program)  # noqa: PTH116 - one call for all there is to know
    except NotTrusted as error:
        return f"is not run: {error.strerror}"
    except PermissionError:
        return ""
    except OSError as error:
        return f"cannot be run: {os.strerror(error.errno or 0)}"
    return "" if found.st_mode & stat.S_IXUSR else "is not executable"
