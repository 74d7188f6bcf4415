"""What `iriai doctor` finds out about this machine: space, rights, file systems, users."""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from iriai.config.reader import Configuration
from iriai.config.sections import IdentitySection, MachineSection
from iriai.host.hardware import MachineFacts
from iriai.host.mounts import NETWORKED, VOLATILE, mount_of
from iriai.model.home_trust import HomeTrust
from iriai.model.paths import StatePaths
from iriai.model.resources import Resources, describe_amount
from iriai.model.units import format_size
from iriai.wire.reports import Finding

OK = "ok"
NOTE = "note"
"""Works, but not as well as it could, or not as one might expect."""
TROUBLE = "trouble"
"""Something does not work, or will not for long."""
SPACE_LOW_BYTES = 1 << 30
"""The database of a hundred thousand jobs with their history is a tenth of this."""
PEOPLE_BEGIN_UID = 1000
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
DEAF_SCHEDULERS = "none", "kyber"
"""Of disks: they know neither weights of groups nor the idle class."""
NO_DISKS = "loop", "ram", "zram", "nbd", "dm-", "md"
"""How the names of block devices begin that are no disks, or lie on others."""


def of_tasks(machine: MachineSection, *, is_system: bool) -> Iterator[Finding]:
    """Yield findings about what tasks need; with `is_system` they are those of all users."""
    if not Path(machine.tmp).is_dir():
        hint = "create it, or set tmp in [machine] to another: no task starts without"
        yield Finding("tmp", TROUBLE, f"there is no directory {machine.tmp}", hint)
    mount = mount_of(machine.tmp)
    if mount is not None and mount.kind in NETWORKED:
        text = f"private directories of tasks are on a network ({mount.kind})"
        yield Finding("tmp", NOTE, text, "set tmp in [machine] to a disk of this machine")
    wanted = machine.no_new_privileges
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
    places = (Path(root, place, name) for place in _PROGRAM_PLACES for name in _PROGRAMS)
    starters = (path for pattern in _STARTERS for path in Path(root).glob(pattern))
    return [path for path in (*places, *starters) if _gives_rights(path)]


def _gives_rights(program: Path) -> bool:
    try:
        if program.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
            return True
        return bool(os.getxattr(program, "security.capability"))
    except OSError:  # not there, not to be read, or without such attributes
        return False


def of_capacity(facts: MachineFacts, given: Resources, gpu_devices: int) -> list[Finding]:
    """Return findings about what is given away and not there; `gpu_devices` are configured."""
    found, cards = [], gpu_devices or facts.gpus
    if given.cpus > facts.cpus:
        text = f"{given.cpus} cpus are given away, there are {facts.cpus}"
        found.append(Finding("cpus", NOTE, text, "tasks share them and run slower"))
    if given.memory_bytes > facts.memory_bytes:
        more, there = format_size(given.memory_bytes), format_size(facts.memory_bytes)
        text = f"{more} of memory are given away, there are {there}"
        hint = "the kernel may kill tasks: lower machine.memory"
        found.append(Finding("memory", TROUBLE, text, hint))
    if given.gpus > cards:
        text = f"{given.gpus} GPUs are given away, {cards} were found"
        found.append(Finding("gpus", TROUBLE, text, "check the driver, or lower machine.gpus"))
    amounts = ", ".join(describe_amount(name, amount) for name, amount in given.amounts())
    return found or [Finding("machine", OK, amounts)]


def of_state_directory(paths: StatePaths, *, is_system: bool) -> Iterator[Finding]:
    """Yield findings about where the state directory lies, and how much room is there."""
    directory = paths.directory
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
    barrier = _closed_to_others(directory) if is_system else None
    if barrier is not None:
        text = f"users may not enter {barrier}, so they neither reach the daemon nor see output"
        hint = f"chmod o+x {barrier}, or choose another directory with --state"
        yield Finding("state directory", TROUBLE, text, hint)
    try:
        room = os.statvfs(paths.store)
    except OSError as error:
        yield Finding("store", TROUBLE, f"{paths.store}: {os.strerror(error.errno or 0)}")
        return
    free_bytes = room.f_bavail * room.f_frsize
    text = f"{format_size(free_bytes)} free under {paths.store}"
    if free_bytes < SPACE_LOW_BYTES:
        yield Finding("store", TROUBLE, text, "without space no job is accepted: free some")
    else:
        yield Finding("store", OK, text)


def _closed_to_others(directory: str) -> Path | None:
    for way in [*reversed(Path(directory).parents), Path(directory)]:
        try:
            if not stat.S_IMODE(way.stat().st_mode) & stat.S_IXOTH:
                return way
        except OSError:
            return way
    return None


def of_people(identity: IdentitySection) -> Iterator[Finding]:
    """Yield findings about whose tasks run, and who are the operators."""
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


def of_owner(root: str = "/") -> Iterator[Finding]:
    """Yield which profile suits a machine without an owner policy that looks like a person's."""
    if _has_battery(root):
        what, profile = "there is a battery", "laptop"
    elif _has_graphical_session(root):
        what, profile = "there is a graphical session", "desk"
    else:
        return
    text = f"tasks do not give way to whoever uses this machine, and {what}"
    yield Finding("owner", NOTE, text, f'set profile = "{profile}" in [owner]')


def of_disks(root: str = "/") -> Iterator[Finding]:
    """Yield the disks that serve background tasks as they do the owner's programs."""
    found: dict[str, list[str]] = {}
    for path in sorted(Path(root, "sys/block").glob("*/queue/scheduler")):
        disk, text = path.parts[-3], _text_of(path)
        scheduler = text.partition("[")[2].partition("]")[0] or text.strip()
        if not disk.startswith(NO_DISKS) and scheduler in DEAF_SCHEDULERS:
            found.setdefault(scheduler, []).append(disk)
    for scheduler, disks in found.items():
        names = ", ".join(disks)
        text = f"{names}: scheduler {scheduler} serves tasks as it does the owner's programs"
        yield Finding("disks", NOTE, text, "choose bfq in /sys/block/DISK/queue/scheduler")


def of_sleep(problem: str) -> Finding:
    """Return whether tasks leave before the machine sleeps; `problem` says why not."""
    if not problem:
        return Finding("sleep", OK, "tasks leave before the machine sleeps or is shut down")
    text = f"tasks sleep with the machine, and run again elsewhere once leases are over: {problem}"
    return Finding("sleep", NOTE, text)


def _has_battery(root: str) -> bool:
    kinds = Path(root, "sys/class/power_supply").glob("*/type")
    return any(_text_of(path).strip() == "Battery" for path in kinds)


def _has_graphical_session(root: str) -> bool:
    """Return whether logind knows of one."""
    sessions = Path(root, "run/systemd/sessions").glob("*")
    lines = (line for path in sessions for line in _text_of(path).splitlines())
    return any(line in ("TYPE=x11", "TYPE=wayland", "TYPE=mir") for line in lines)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def of_queues(configuration: Configuration) -> Iterator[Finding]:
    """Yield what an operator who has set up queues may have forgotten."""
    if not configuration.queues:
        return
    unbounded = [
        str(number)
        for number in sorted(configuration.starting_queues)
        if (queue := configuration.queue(number)) and queue.time_limit_max_s is None
    ]
    if unbounded:
        which = (
            f"queue {unbounded[0]} has"
            if len(unbounded) == 1
            else (f"queues {', '.join(unbounded)} have")
        )
        text = f"{which} no longest time: what waits behind a job there may wait for ever"
        yield Finding("queues", NOTE, text, "set time_limit_max_s in [queues.N]")
    if configuration.order.age_s is None:
        text = "lower queues may wait for ever (age_s is none)"
        yield Finding("queues", NOTE, text, "set age_s in [order]")


def of_trust(
    trust: HomeTrust, trusted: Iterable[str], minimum_uid: int, *, has_rules: bool
) -> Finding:
    """Return whose tasks from other homes run here; with `has_rules` the owner decides that.

    `trusted` are the homes for whose users operators let tasks run.
    """
    if has_rules:
        return Finding("trust", OK, "tasks from elsewhere run for the users that [homes] names")
    if not trust.is_open:
        homes = ", ".join(trusted) or "nobody"
        text = f"tasks from elsewhere run for trusted homes and users: {homes}"
        return Finding("trust", OK, text)
    text = (
        "tasks submitted on any machine of the cluster run here as any user with an id "
        f"from {minimum_uid} on"
    )
    hint = (
        "name the trusted homes with 'iriai trust HOME --users all|ann,bob', then exclude "
        "all others: iriai trust '*' --users none"
    )
    return Finding("trust", NOTE, text, hint)
