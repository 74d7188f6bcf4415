"""`iriai up`: check everything that can be checked, then start supervisor, launcher and daemon.

Safe to repeat: what runs already is left alone, what is missing is brought back.
"""

from __future__ import annotations

import os
import pwd
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from iriai.host.hardware import measure
from iriai.model.paths import StatePaths
from iriai.model.problem import Problem, Unreachable
from iriai.state.configuration import read_configuration, settle_directory
from iriai.state.rc_file import read_rc
from iriai.state.role import AS_BEFORE, RequestedRole
from iriai.state.state_directory import absolute_paths, check_space
from iriai.supervisor.daemon_probe import DaemonProbe, probe
from iriai.supervisor.supervisor import retry_now
from iriai.system.exit_report import read_ending
from iriai.system.lock_file import lock_holder
from iriai.system.process_handle import ProcessHandle, adopt, spawn

START_WAIT_S = 60.0
"""How long a daemon may take to answer: a hundred thousand jobs load in less than a minute."""
END_WAIT_S = 60.0
"""How long a daemon may take to end; its tasks get their grace first."""
_PAUSE_S = 0.02
_CLOCK_COARSENESS_S = 0.05
"""The clock that stamps files lags behind the system clock by a tick or a few."""


def bring_up(
    directory: str, user: str | None = None, wanted: RequestedRole = AS_BEFORE, rc: str = ""
) -> DaemonProbe:
    """Start the daemon of a state directory, detached; return once all its parts run.

    `user` is the user that root wants the daemon to run as (None: as before, or `iriai`), `wanted`
    the other settings that a new directory keeps, `rc` the rc file that is run if it starts the
    daemon; empty: that of the state directory.

    Raises:
        Problem: why it cannot, from whichever of the processes knew. Nothing is left running that
            was not before, but for a start that is only slow and goes on.
    """
    paths, command, daemon = _prepare(directory, user, wanted, rc)
    if daemon is not None:
        return daemon
    since_s, child = time.time(), None
    if not retry_now(paths):
        child = spawn([*command, "detached", rc], paths.log_of("supervisor"))
    return _await_answer(paths, since_s, child)


def stay_up(  # noqa: RET503 - where it does not return it has become the supervisor
    directory: str,
    user: str | None,
    announce: Callable[[DaemonProbe], None],
    wanted: RequestedRole = AS_BEFORE,
    rc: str = "",
) -> DaemonProbe:
    """Start the daemon and become its supervisor.

    `announce` is called once the daemon answers, in a process of its own that ends right after: it
    has to flush its output, and so has the caller before this call.

    Returns only if the daemon was up already. A failed start ends this process with the exit code
    of the problem and its message on standard error.

    Raises:
        Problem: as `bring_up`, before anything started.
    """
    paths, command, daemon = _prepare(directory, user, wanted, rc)
    if daemon is not None:
        return daemon
    if retry_now(paths):
        return _await_answer(paths, time.time(), None)
    _announce_later(paths, announce)
    os.execv(command[0], [*command, "foreground", rc])  # noqa: S606 - no shell is wanted


def _prepare(
    directory: str, user: str | None, wanted: RequestedRole, rc: str
) -> tuple[StatePaths, list[str], DaemonProbe | None]:
    """Check what can be checked before anything starts.

    Returns the paths, the supervisor's command without mode and rc file, and the daemon if all its
    parts run.
    """
    paths = absolute_paths(directory)
    if rc and (found := read_rc(paths, rc)) and found.problem:
        raise found.problem
    configuration = read_configuration(paths)
    identity = settle_directory(paths, configuration, measure(), user, wanted)
    # A running daemon waits for space, and `status` reports it.
    if lock_holder(paths.lock("daemon")) is None:
        check_space(paths)
    uid = pwd.getpwnam(identity.daemon_user).pw_uid if os.geteuid() == 0 else os.geteuid()
    _let_it_end(paths)
    daemon = probe(paths)
    is_complete = daemon is not None and daemon.is_complete
    runs = "launcher" if identity.role.has_launcher else "no-launcher"
    words = [paths.directory, str(uid), str(configuration.identity.minimum_uid), runs]
    command = [sys.executable, "-P", "-m", "iriai.supervisor.supervisor", *words]
    return paths, command, daemon if is_complete else None


def _let_it_end(paths: StatePaths) -> None:
    """Wait for an `iriai down` in progress: a daemon that answers now is about to end."""
    deadline_s = time.monotonic() + END_WAIT_S
    for part in ("daemon", "supervisor"):
        while (pid := lock_holder(paths.lock(part))) is not None and _is_ending(paths):
            if time.monotonic() > deadline_s:
                raise Unreachable(
                    "still-ending",
                    f"the {part}, process {pid}, was asked to end and has not for "
                    f"{END_WAIT_S:.0f} s",
                    "see why with 'iriai status', or end that process",
                )
            time.sleep(_PAUSE_S)


def _is_ending(paths: StatePaths) -> bool:
    endings = [read_ending(paths.end(part)) for part in ("daemon", "supervisor")]
    return any(each is not None and each.exit_code == 0 and not each.again for each in endings)


def _await_answer(
    paths: StatePaths, since_s: float, supervisor: ProcessHandle | None
) -> DaemonProbe:
    """Return the daemon once it answers; `supervisor` is the process that was started for it."""
    deadline_s = time.monotonic() + START_WAIT_S
    daemon = None
    while time.monotonic() < deadline_s:
        daemon = probe(paths)
        if daemon is not None and daemon.is_complete:
            return daemon._replace(started=True)
        # Our own supervisor reports when it ends; with another one the daemon is asked.
        if supervisor is not None and supervisor.ended():
            if not supervisor.child:  # its own parent gets its report
                raise Unreachable("supervisor-ended", "the supervisor has ended")
            supervisor.exit_code()
            supervisor = None
        parts = ("supervisor", "daemon") if supervisor is None else ()
        for problem in (_why_not(paths, part, since_s) for part in parts):
            if problem is not None:
                raise problem
        time.sleep(_PAUSE_S)
    what = "the daemon has not answered" if daemon is None else "the launcher has not come up"
    raise Unreachable(
        "daemon-silent" if daemon is None else "launcher-missing",
        f"{what} for {START_WAIT_S:.0f} s",
        f"see the files in {paths.log}",
    )


def _why_not(paths: StatePaths, part: str, since_s: float) -> Problem | None:
    """Return the problem that `part` has reported since then, if any."""
    with suppress(OSError):
        if Path(paths.end(part)).stat().st_mtime < since_s - _CLOCK_COARSENESS_S:
            return None
    ending = read_ending(paths.end(part))
    return ending.problem() if ending is not None and ending.exit_code != 0 else None


def _announce_later(paths: StatePaths, announce: Callable[[DaemonProbe], None]) -> None:
    """Wait for the daemon in a process of its own, since this one becomes the supervisor."""
    supervisor = os.getpid()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        # Twice, so that init reaps the process that waits.
        if os.fork() == 0:
            with suppress(Problem):
                announce(_await_answer(paths, time.time(), adopt(supervisor)))
    finally:
        os._exit(0)
