"""Findings of `iriai doctor`: how each limit is enforced here, and what is missing."""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from iriai.daemon.net.descriptor_limit import descriptors_allowed, descriptors_needed
from iriai.daemon.requests.machines.mounts import NETWORKED, VOLATILE, mount_of
from iriai.daemon.startup.settings import DaemonSettings, ServiceMode
from iriai.daemon.tasks.notifications import find_sendmail
from iriai.launcher.contract.machine_config import EPILOG, PROLOG
from iriai.launcher.contract.messages import Enforcement
from iriai.launcher.hooks.trusted_program import NotTrusted, check_program
from iriai.model.resources import describe_amount
from iriai.model.units import format_size
from iriai.wire.reports import Finding, LimitedRow

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


def _tasks(settings: DaemonSettings) -> Iterator[Finding]:
    """Yield findings about what tasks and notifications need."""
    machine, jobs = settings.configuration.machine, settings.configuration.jobs
    if settings.role.has_node:
        if not Path(machine.tmp).is_dir():
            hint = "create it, or set tmp in [machine] to another: no task starts without"
            yield Finding("tmp", TROUBLE, f"there is no directory {machine.tmp}", hint)
        for name, program in ((PROLOG, machine.prolog), (EPILOG, machine.epilog)):
            if program and (why := _why_not_run(program, settings.owner_uid)):
                hint = "the machine is drained at the first task"
                yield Finding(name, TROUBLE, f"{program} {why}", hint)
        mount = mount_of(machine.tmp)
        if mount is not None and mount.kind in NETWORKED:
            text = f"private directories of tasks are on a network ({mount.kind})"
            yield Finding("tmp", NOTE, text, "set tmp in [machine] to a disk of this machine")
        yield from _privileges(settings)
    if settings.role.has_home and jobs.sendmail and not find_sendmail(jobs.sendmail):
        hint = "jobs with --notify mailto: are refused"
        yield Finding("mail", TROUBLE, f"there is no {jobs.sendmail}", hint)


def _privileges(settings: DaemonSettings) -> Iterator[Finding]:
    """Yield a finding about programs that need setuid rights in tasks."""
    wanted = settings.configuration.machine.no_new_privileges
    is_system = settings.mode is ServiceMode.SYSTEM
    if is_system if wanted is None else wanted:
        names = sorted({path.name for path in privileged_programs()})
        if names:
            text = f"give tasks no rights, so these may fail in them: {', '.join(names)}"
            hint = "set no_new_privileges = false in [machine] if jobs need them"
            yield Finding("privileges", NOTE, text, hint)
    elif is_system:
        text = "tasks can gain rights through programs that are setuid"
        hint = "leave no_new_privileges in [machine] at its default"
        yield Finding("privileges", NOTE, text, hint)


def privileged_programs(root: str = "/") -> list[Path]:
    """Return the installed setuid programs that jobs are known to call."""
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
    """Return why the launcher would refuse a program; empty if it would not, or is unknown."""
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


OK = "ok"
NOTE = "note"
"""Works, but not as well as it could, or not as one might expect."""
TROUBLE = "trouble"
"""Something does not work, or will not for long."""

SPACE_LOW_BYTES = 1 << 30
"""The database of a hundred thousand jobs with their history is a tenth of this."""
PEOPLE_BEGIN_UID = 1000
_EXACT = (
    *("cgroup", "device program", "iriai-exec", "mount namespaces", "no paths are kept"),
    "the launcher",
)
"""How the words begin that say a limit is kept exactly."""


def findings(
    settings: DaemonSettings,
    enforcement: Iterable[Enforcement],
    trouble: Sequence[str],
    limited: Iterable[LimitedRow] = (),
) -> list[Finding]:
    """Return trouble first, then notes, then what works; each in the order of the checks.

    `enforcement` is the launcher's report, `trouble` the daemon's, and `limited` the users who
    were refused or slowed, as far as the caller may see them.
    """
    found = [Finding("daemon", TROUBLE, text) for text in trouble]
    found += [_limit(row) for row in enforcement]
    found += [_limited(row) for row in limited]
    for look in (
        _tasks,
        _processes,
        _descriptors,
        _machine,
        _state_directory,
        _space,
        _people,
        _trust,
    ):
        found += look(settings)
    return sorted(found, key=lambda finding: (TROUBLE, NOTE, OK).index(finding.level))


def _limit(row: Enforcement) -> Finding:
    if row.by.startswith(_EXACT):
        return Finding(row.limit, OK, f"{row.by}: {row.note}" if row.note else row.by)
    return Finding(row.limit, NOTE, row.by, row.note)


def _limited(row: LimitedRow) -> Finding:
    text = f"{row.user or 'an unknown user'} was refused or slowed {row.times} times by {row.limit}"
    return Finding("limits", NOTE, text, f"raise {row.limit} in [limits] if that was honest use")


def _processes(settings: DaemonSettings) -> Iterator[Finding]:
    whom = "every user" if settings.mode is ServiceMode.SYSTEM else f"{settings.daemon_user} alone"
    yield Finding("daemon", OK, f"runs as {settings.daemon_user}, works for {whom}")
    if settings.supervisor_pid is None:
        hint = "'iriai up' starts a supervisor"
        yield Finding("supervisor", NOTE, "no supervisor restarts launcher and daemon", hint)


def _descriptors(settings: DaemonSettings) -> Iterator[Finding]:
    limits = settings.configuration.limits
    allowed, needed = descriptors_allowed(limits), descriptors_needed(limits)
    if allowed >= needed:
        yield Finding("descriptors", OK, f"{allowed} may be open")
        return
    text = f"{allowed} may be open; with all clients and links it takes {needed}"
    hint = "raise the hard limit of the daemon's supervisor (LimitNOFILE= in a unit, ulimit -Hn)"
    yield Finding("descriptors", NOTE, text, hint)


def _machine(settings: DaemonSettings) -> Iterator[Finding]:
    if not settings.role.has_node:
        yield Finding("machine", OK, "runs no tasks itself: its back ends do")
        return
    facts, given = settings.facts, settings.capacity
    well = True
    if given.cpus > facts.cpus:
        well = False
        text = f"{given.cpus} cpus are given away, there are {facts.cpus}"
        yield Finding("cpus", NOTE, text, "tasks share them and run slower")
    if given.memory_bytes > facts.memory_bytes:
        well = False
        text = (
            f"{format_size(given.memory_bytes)} of memory are given away, there are "
            f"{format_size(facts.memory_bytes)}"
        )
        yield Finding("memory", TROUBLE, text, "the kernel may kill tasks: lower machine.memory")
    cards = len(settings.configuration.machine.gpu_devices) or facts.gpus
    if given.gpus > cards:
        well = False
        text = f"{given.gpus} GPUs are given away, {cards} were found"
        yield Finding("gpus", TROUBLE, text, "check the driver, or lower machine.gpus")
    if well:
        amounts = (describe_amount(name, amount) for name, amount in given.amounts())
        yield Finding("machine", OK, ", ".join(amounts))


def _state_directory(settings: DaemonSettings) -> Iterator[Finding]:
    directory = settings.paths.directory
    mount = mount_of(os.path.realpath(directory))
    kind = mount.kind if mount else "unknown"
    if kind in NETWORKED or kind.startswith("fuse."):
        hint = "a database is safe on a local disk only: choose another with --state"
        yield Finding("state directory", TROUBLE, f"{directory} lies on {kind}", hint)
    elif kind in VOLATILE:
        hint = "jobs are lost when the machine restarts; good for a trial"
        yield Finding("state directory", NOTE, f"{directory} lies on {kind}", hint)
    else:
        yield Finding("state directory", OK, f"{directory} on {kind}")
    barrier = _closed_to_others(directory) if settings.mode is ServiceMode.SYSTEM else None
    if barrier is not None:
        yield Finding(
            "state directory",
            TROUBLE,
            f"users may not enter {barrier}, so they neither reach the daemon nor see output",
            f"chmod o+x {barrier}, or choose another directory with --state",
        )


def _closed_to_others(directory: str) -> Path | None:
    for way in [*reversed(Path(directory).parents), Path(directory)]:
        try:
            if not stat.S_IMODE(way.stat().st_mode) & stat.S_IXOTH:
                return way
        except OSError:
            return way
    return None


def _space(settings: DaemonSettings) -> Iterator[Finding]:
    try:
        room = os.statvfs(settings.paths.store)
    except OSError as error:
        yield Finding("store", TROUBLE, f"{settings.paths.store}: {os.strerror(error.errno or 0)}")
        return
    free_bytes = room.f_bavail * room.f_frsize
    text = f"{format_size(free_bytes)} free under {settings.paths.store}"
    if free_bytes < SPACE_LOW_BYTES:
        yield Finding("store", TROUBLE, text, "without space no job is accepted: free some")
    else:
        yield Finding("store", OK, text)


def _people(settings: DaemonSettings) -> Iterator[Finding]:
    if settings.mode is not ServiceMode.SYSTEM:
        return
    identity = settings.configuration.identity
    if identity.minimum_uid < PEOPLE_BEGIN_UID:
        whom = "root" if identity.minimum_uid == 0 else "system users"
        text = f"tasks of {whom} are run as well (minimum_uid = {identity.minimum_uid})"
        yield Finding("users", NOTE, text, "only for machines without other users")
    if identity.name_accounts:
        hint = "shares then rely on the honesty of users"
        yield Finding("users", NOTE, "all users may name another's account (name_accounts)", hint)
    try:
        grp.getgrnam(identity.operators)
    except KeyError:
        text = f"there is no group '{identity.operators}', so root is the only operator"
        yield Finding("operators", NOTE, text, f"groupadd --system {identity.operators}")


def _trust(settings: DaemonSettings) -> Iterator[Finding]:
    cluster = settings.cluster
    if cluster is None or not settings.role.has_node:
        return
    if settings.configuration.homes:
        yield Finding("trust", OK, "tasks from elsewhere run for the users that [homes] names")
    elif cluster.home_trust.is_open:
        text = (
            "tasks submitted on any machine of the cluster run here as any user with an id "
            f"from {settings.configuration.identity.minimum_uid} on"
        )
        hint = (
            "name the trusted homes with 'iriai trust HOME --users all|ann,bob', then exclude "
            "all others: iriai trust '*' --users none"
        )
        yield Finding("trust", NOTE, text, hint)
    else:
        homes = ", ".join(each.home for each in cluster.trusted() if each.users) or "nobody"
        yield Finding("trust", OK, f"tasks from elsewhere run for trusted homes and users: {homes}")
