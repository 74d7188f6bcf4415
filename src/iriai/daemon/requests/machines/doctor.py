"""Findings of `iriai doctor`: how each limit is enforced here, and what is missing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence

from iriai.config.reader import Configuration
from iriai.daemon.net.descriptor_limit import descriptors_allowed, descriptors_needed
from iriai.daemon.startup.rc_run import IN_CLUSTER, RcRun
from iriai.daemon.startup.settings import DaemonSettings, ServiceMode
from iriai.daemon.tasks.notifications import find_sendmail
from iriai.host import checks
from iriai.host.checks import NOTE, OK, TROUBLE
from iriai.launcher.contract.machine_config import EPILOG, PROLOG
from iriai.launcher.contract.messages import LOWERING, OWNER_SIGNS, Enforcement
from iriai.launcher.hooks.trusted_program import NotTrusted, check_program
from iriai.machine.owner_section import owner_policy
from iriai.wire.reports import Finding, LimitedRow

_EXACT = (
    *("cgroup", "device program", "iriai-exec", "mount namespaces", "no paths are kept"),
    *("the launcher", "sensors"),
)
"""How the words begin that say a limit is kept exactly."""


def findings(
    settings: DaemonSettings,
    configuration: Configuration,
    enforcement: Iterable[Enforcement],
    trouble: Sequence[str],
    rc: RcRun,
    limited: Iterable[LimitedRow] = (),
    sleep: str | None = None,
) -> list[Finding]:
    """Return trouble first, then notes, then what works; each in the order of the checks.

    `configuration` is in force, `enforcement` is the launcher's report, `trouble` the daemon's,
    `rc` the rc file of this start, and `limited` the users who were refused or slowed, as far as
    the caller may see them. `sleep` says why it is not known before the machine sleeps; empty: it
    is, None: it need not be.
    """
    is_system = settings.mode is ServiceMode.SYSTEM
    machine, identity, cluster = configuration.machine, configuration.identity, settings.cluster
    found = [Finding("daemon", TROUBLE, text) for text in trouble]
    has_owner = owner_policy(configuration.owner) is not None
    for row in enforcement:
        if row.limit in (OWNER_SIGNS, LOWERING) and not has_owner:
            continue  # nobody needs them
        if row.by.startswith(_EXACT):
            words = f"{row.by}: {row.note}" if row.note else row.by
            found.append(Finding(row.limit, OK, words))
        else:
            found.append(Finding(row.limit, NOTE, row.by, row.note))
    for who in limited:
        text = f"{who.user or 'an unknown user'} was refused or slowed {who.times} times"
        hint = f"raise {who.limit} in [limits] if that was honest use"
        found.append(Finding("limits", NOTE, f"{text} by {who.limit}", hint))
    if settings.role.has_node:
        found += checks.of_tasks(machine, is_system=is_system)
        found += checks.of_disks() if has_owner else checks.of_owner()
        found += [] if sleep is None else [checks.of_sleep(sleep)]
    found += [*_programs(settings), *_processes(settings, is_system=is_system)]
    if settings.role.has_node:
        found += checks.of_capacity(settings.facts, settings.capacity, len(machine.gpu_devices))
    else:
        found.append(Finding("machine", OK, "runs no tasks itself: its back ends do"))
    found += checks.of_state_directory(settings.paths, is_system=is_system)
    if settings.role.has_home:
        found += checks.of_queues(configuration)
    found += _rc_file(rc)
    if is_system:
        found += checks.of_people(identity)
    if cluster is not None and settings.role.has_node:
        homes = [each.home for each in cluster.trusted() if each.users]
        has_rules = bool(configuration.homes)
        trust = cluster.home_trust
        found.append(checks.of_trust(trust, homes, identity.minimum_uid, has_rules=has_rules))
    return sorted(found, key=lambda finding: (TROUBLE, NOTE, OK).index(finding.level))


def _rc_file(rc: RcRun) -> Iterator[Finding]:
    """Yield what became of the rc file; a wrong one is among the troubles."""
    if rc.path and rc.is_skipped:
        hint = f"'iriai console {rc.path}' runs it once"
        yield Finding("rc file", NOTE, f"{rc.path} is not run: {IN_CLUSTER}", hint)
    elif rc.path and rc.problem is None:
        which = f"1 line of {rc.path} was" if rc.done == 1 else f"{rc.done} lines of {rc.path} were"
        yield Finding("rc file", OK, f"{which} run at the start")


def _programs(settings: DaemonSettings) -> Iterator[Finding]:
    """Yield findings about programs of the owner that are to be run."""
    machine, jobs = settings.configuration.machine, settings.configuration.jobs
    if settings.role.has_node:
        for name, program in ((PROLOG, machine.prolog), (EPILOG, machine.epilog)):
            if program and (why := _why_not_run(program, settings.owner_uid)):
                hint = "the machine is drained at the first task"
                yield Finding(name, TROUBLE, f"{program} {why}", hint)
    if settings.role.has_home and jobs.sendmail and not find_sendmail(jobs.sendmail):
        hint = "jobs with --notify mailto: are refused"
        yield Finding("mail", TROUBLE, f"there is no {jobs.sendmail}", hint)


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


def _processes(settings: DaemonSettings, *, is_system: bool) -> Iterator[Finding]:
    whom = "every user" if is_system else f"{settings.daemon_user} alone"
    yield Finding("daemon", OK, f"runs as {settings.daemon_user}, works for {whom}")
    if settings.supervisor_pid is None:
        hint = "'iriai up' starts a supervisor"
        yield Finding("supervisor", NOTE, "no supervisor restarts launcher and daemon", hint)
    limits = settings.configuration.limits
    allowed, needed = descriptors_allowed(limits), descriptors_needed(limits)
    if allowed >= needed:
        yield Finding("descriptors", OK, f"{allowed} may be open")
        return
    text = f"{allowed} may be open; with all clients and links it takes {needed}"
    hint = "raise the hard limit of the daemon's supervisor (LimitNOFILE= in a unit, ulimit -Hn)"
    yield Finding("descriptors", NOTE, text, hint)
