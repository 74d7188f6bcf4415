"""`python -m iriai.launcher`: the privileged process; started by `iriai up` or a service manager.

Exit code 0: it was shut down; 1: it cannot begin; 2: its arguments are wrong. The reason is the
last line on standard error. SIGTERM and SIGINT shut it down as `ShutDown` does: tasks cannot
outlive it, since nothing would enforce their limits, and the next launcher would end them anyway.
Their cause is `evicted`: they run again, and it counts against nobody.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from itertools import pairwise

import iriai
from iriai.launcher.containment.cgroups.choose import CgroupSupport, choose, keep_devices
from iriai.launcher.containment.container import Background
from iriai.launcher.containment.namespaces.pool import Namespaces
from iriai.launcher.containment.process_tree import ProcessTrees
from iriai.launcher.contract.messages import Enforcement
from iriai.launcher.directories.scratch import Scratch
from iriai.launcher.environment.environment import TaskUsers
from iriai.launcher.environment.processors import Processors
from iriai.launcher.gpus.gpus import Gpus
from iriai.launcher.hooks.hooks import Hooks
from iriai.launcher.journal.journal import DamagedJournal, Journal
from iriai.launcher.launcher import Launcher
from iriai.launcher.owner.owner_watch import OwnerWatch
from iriai.launcher.pmi.pmi_sockets import Watch
from iriai.launcher.probe import enforcement
from iriai.launcher.recovery.recovery import recover
from iriai.launcher.server import Server, listen
from iriai.launcher.settings import LauncherSettings, read_arguments
from iriai.launcher.slices.switcher_process import Switcher
from iriai.launcher.spawn.payloads import PayloadFiles
from iriai.launcher.spawn.spawn import Spawner, find_helper
from iriai.launcher.state_directory import StateDirectory, StateProblem
from iriai.launcher.system.log_file import set_up_logging
from iriai.launcher.system.syscalls import PrivilegedThread, become_subreaper, raise_priority
from iriai.launcher.system.timers import Timers
from iriai.launcher.tasks.admission import Authorizer
from iriai.launcher.tasks.disk_limits import DiskLimits, disk_enforcement
from iriai.launcher.tasks.freezing import TaskFreezing
from iriai.launcher.tasks.limit_monitor import LeaseTimers, LimitMonitor
from iriai.launcher.tasks.parts import Defects, LauncherParts
from iriai.launcher.tasks.start_queue import Epilogs, StartQueue
from iriai.launcher.tasks.suspended_tasks import SuspendedTasks
from iriai.launcher.tasks.tasks import Tasks
from iriai.launcher.tasks.turning import TaskTurning
from iriai.model.problem import UsageProblem
from iriai.system.procfs import boot_id
from iriai.system.standard_descriptors import keep_standard_descriptors

log = logging.getLogger("iriai.launcher")

REMOVAL_WAIT_S = 10.0
"""How long the launcher waits, before it ends, for the removal of what tasks left in their private
directories; the next one continues it."""


def main(arguments: list[str] | None = None) -> int:
    """Run the launcher; return the exit code."""
    keep_standard_descriptors()
    words = sys.argv[1:] if arguments is None else arguments
    follow = set_up_logging(_log_in(words), "launcher").follow
    try:
        settings = read_arguments(words)
    except UsageProblem as problem:
        log.error("%s", problem)  # noqa: TRY400  # the text says all; a traceback hides it
        return problem.exit_code
    try:
        return _run(settings, follow)
    except (StateProblem, DamagedJournal) as problem:
        log.error("%s", problem)  # noqa: TRY400  # the text says all; a traceback hides it
        return 1
    except OSError:
        log.exception("cannot go on")
        return 1


def _log_in(words: list[str]) -> str:
    """Return the log file of this launcher; empty if it has no state directory."""
    state = next((path for word, path in pairwise(words) if word == "--state"), "")
    return f"{state}/log/launcher.log" if state else ""


def _run(settings: LauncherSettings, follow: Callable[[], None]) -> int:
    become_subreaper()
    raise_priority()
    server = Server(settings.daemon_uid)
    state = StateDirectory(settings.state, settings.daemon_uid)
    if os.geteuid() == 0 and (closed := state.unreachable_part()):
        log.warning("scripts cannot be run: other users cannot pass %s", closed)
    journal = Journal(state.private_fd)
    choice = choose(f"iriai-{state.name}", settings.isolation)
    recover(journal, boot_id(), choice.parents, state.name)
    scratch = Scratch(state.private_path, state.private_fd, state.name)
    scratch.clean()
    own = (sys.prefix, os.path.dirname(iriai.__file__))  # which tasks call to start job steps
    namespaces = Namespaces(scratch, state.path, *own)
    launcher = _assemble(settings, state, journal, choice, server, scratch, namespaces, follow)
    listening = listen(settings.socket, settings.daemon_uid)
    log.info("ready: pid %d, state %s", os.getpid(), state.path)
    server.serve(launcher, listening)
    namespaces.close()
    scratch.close(REMOVAL_WAIT_S)
    choice.containers.close()
    os.unlink(settings.socket)
    log.info("all tasks have ended")
    return 0


def _lower_tasks(choice: CgroupSupport, name: str) -> Background:
    # Where there is no owner policy nobody pays for this module.
    from iriai.launcher.containment.cgroups.lowering import lower_tasks

    return lower_tasks(choice, name)


def _assemble(
    settings: LauncherSettings,
    state: StateDirectory,
    journal: Journal,
    choice: CgroupSupport,
    server: Server,
    scratch: Scratch,
    namespaces: Namespaces,
    follow: Callable[[], None],
) -> Launcher:
    helper = find_helper(settings.helper)
    payloads = PayloadFiles(state.run_path, state.run_fd)
    gpus = Gpus(state.path)
    unbounded = PrivilegedThread()
    spawner = Spawner(helper, payloads, state.name, state.path, gpus, unbounded)
    timers = Timers()
    hooks = Hooks(timers, state.name, follow, unbounded)
    epilogs = Epilogs(hooks, journal.known)
    readable = Watch(server.call_when_readable, server.call_no_more)
    owner = OwnerWatch(readable, timers, settings.devices, settings.state, choice.account)
    if isinstance(choice.containers, ProcessTrees):
        choice.containers.exclude_sessions(hooks.running, owner.process)
    processors = Processors()
    parts = LauncherParts(
        spawner,
        choice.containers,
        payloads,
        scratch,
        namespaces,
        timers,
        hooks,
        gpus,
        Defects(),
        readable,
        processors,
        Switcher(readable, timers, choice.freezing.version if choice.freezing else 0),
        owner,
        lambda: _lower_tasks(choice, f"iriai-{state.name}"),
    )
    tasks = Tasks(parts)
    disk = DiskLimits(tasks, timers, server.call_when_readable)
    watch = LimitMonitor(tasks, timers, server.call_when_readable, disk)
    admission = Authorizer(TaskUsers(settings.minimum_uid, settings.daemon_uid), spawner)
    leases = LeaseTimers(tasks, timers)
    freezing = TaskFreezing(parts, tasks)
    turns = TaskTurning(parts, tasks, watch, freezing)
    suspended = SuspendedTasks(parts, tasks, watch, freezing, turns)
    owner.on_change = suspended.follow_owner
    starting = StartQueue(parts, tasks, watch, leases, epilogs, suspended)
    of_groups = enforcement(choice, helper)

    def configure() -> tuple[Enforcement, ...]:
        machine = state.machine_settings()
        scratch.use(machine.tmp)
        hooks.use(machine)
        spawner.use(machine)
        namespaces.use(machine.tmp, wanted=machine.private_tmp)
        admission.users.go_by(machine.rules)
        gpus.use(machine)
        processors.use(machine)
        owner.process.use(machine.owner_users)
        kept = keep_devices(choice, tuple(card.nodes for card in gpus.cards))
        further = namespaces.enforcement(), parts.switcher.enforcement(), owner.enforcement()
        return (*of_groups, disk_enforcement(scratch), *further, Enforcement("devices", *kept))

    return Launcher(
        parts, journal, admission, starting, tasks, epilogs, leases, suspended, configure
    )


if __name__ == "__main__":
    sys.exit(main())
