"""What `iriai doctor` finds around tasks: private directories, prolog and epilog, mail."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from iriai.daemon.mounts import NETWORKED, mount_of
from iriai.daemon.notification import find_sendmail
from iriai.daemon.settings import Settings
from iriai.launcher.machine_file import EPILOG, PROLOG


def around_tasks(settings: Settings) -> Iterator[tuple[str, str, str]]:
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


def notes_around_tasks(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """What works otherwise than one might expect: likewise."""
    if settings.role.has_node:
        mount = mount_of(settings.configuration.machine.tmp)
        if mount is not None and mount.kind in NETWORKED:
            hint = "have tmp in [machine] name a disk of this machine"
            yield "tmp", f"private directories of tasks are on a network ({mount.kind})", hint


def _why_not_run(program: str, owner_uid: int) -> str:
    """Why the launcher would not run a program; empty where it would, or where we cannot see."""
    try:
        found = os.stat(program)  # noqa: PTH116 - one call for all there is to know
    except PermissionError:
        return ""
    except OSError as error:
        return f"cannot be run: {os.strerror(error.errno or 0)}"
    if not found.st_mode & stat.S_IXUSR or not stat.S_ISREG(found.st_mode):
        return "is not executable"
    if found.st_uid not in (0, owner_uid) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "could be written by others, so it is not run"
    return ""
