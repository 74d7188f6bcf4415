"""Prolog and epilog: the machine's own programs before and after each attempt.

They are run as the launcher's user, which is root where it serves everybody, and never as the
task's; what they say goes into the launcher's log. Each has a session of its own, which is killed
when its time is over, and what is left of it when it has ended.

They get no text that a user chose: neither variables nor the names of jobs and directories, but
numbers and the names of people and groups, which are short and clean, or nothing is run.
"""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from iriai.launcher.contract.machine_config import EPILOG, PROLOG, MachineSettings
from iriai.launcher.contract.messages import HookFailed, StartOrder
from iriai.launcher.environment.environment import PATH_DEFAULT
from iriai.launcher.hooks.trusted_program import check_program
from iriai.launcher.spawn.spawn import Prepared
from iriai.launcher.system.syscalls import PrivilegedThread
from iriai.launcher.system.timers import Timers
from iriai.model.ids import NOTICE_ATTEMPT, AttemptId
from iriai.system.clock import steady_s

log = logging.getLogger(__name__)

HOOK = "IRIAI_HOOK"
"""`LAUNCHER/hook`: by it a later launcher finds what an earlier one left running."""

_CLEAN = re.compile(r"[\w.,:/@+\\$-]{0,256}")
"""Values that a hook may get: no blank or newline, nothing that a shell interprets inside quotes,
except what names of people may contain in some directories."""

OnEnd = Callable[[str], None]
"""Called with what was wrong; empty where nothing was."""


class Hook(msgspec.Struct, eq=False):
    """A prolog or epilog that runs."""

    kind: str
    program: str
    attempt: AttemptId
    timeout_s: float
    on_end: OnEnd | None
    """None: nobody waits for it any more."""
    pid: int = 0
    is_over: bool = False
    is_late: bool = False
    """Whether it was killed because its time was over."""


class Hooks:
    """Starts and ends prologs and epilogs."""

    def __init__(
        self,
        timers: Timers,
        launcher_mark: str,
        on_start: Callable[[], None],
        unbounded: PrivilegedThread,
    ) -> None:
        """`on_start` is called before each start, so that output goes into the current log."""
        self._unbounded = unbounded
        self._on_start = on_start
        self._timers = timers
        self._mark = f"{launcher_mark}/hook"
        self.use(MachineSettings())
        self.running: dict[int, Hook] = {}
        """By process id, which is the id of the session too."""
        self.unfit: dict[AttemptId, HookFailed] = {}
        """Failures, until the daemon has stored the end of the attempt."""

    def use(self, settings: MachineSettings) -> None:
        """Run what is configured now."""
        self._programs = {
            PROLOG: (settings.prolog, settings.prolog_timeout_s),
            EPILOG: (settings.epilog, settings.epilog_timeout_s),
        }

    def wants(self, kind: str, attempt: AttemptId) -> bool:
        """Return whether a program of this kind is to be run for `attempt`."""
        return bool(self._programs[kind][0]) and attempt.attempt != NOTICE_ATTEMPT

    def give_up(self, attempt: AttemptId) -> None:
        """Kill what runs for `attempt`; `on_end` is not called."""
        for hook in self.running.values():
            if hook.attempt == attempt:
                hook.on_end = None
                _kill(hook.pid)

    def ended(self, pid: int, status: int) -> bool:
        """Handle the end of a child; return False if it was no hook."""
        hook = self.running.pop(pid, None)
        if hook is None:
            return False
        _kill(pid)  # what it left in its session
        code = os.waitstatus_to_exitcode(status)
        if hook.is_late:
            self._finish(hook, f"took longer than {hook.timeout_s:g} s")
        elif code < 0:
            self._finish(hook, f"ended by {signal.Signals(-code).name}")
        else:
            self._finish(hook, f"ended with exit code {code}" if code else "")
        return True

    def start(
        self, kind: str, attempt: AttemptId, environment: Mapping[str, str], on_end: OnEnd
    ) -> None:
        """Run the program of this kind; `on_end` is called once, perhaps before this returns."""
        program, timeout_s = self._programs[kind]
        hook = Hook(kind, program, attempt, timeout_s, on_end)
        self._on_start()
        try:
            check_program(hook.program, os.geteuid())
            hook.pid = self._unbounded.call(lambda: self._spawn(hook.program, environment))
        except (OSError, ValueError) as error:
            self._finish(hook, f"cannot be run: {getattr(error, 'strerror', None) or error}")
            return
        self.running[hook.pid] = hook
        self._timers.add(steady_s() + hook.timeout_s, hook, lambda _now_s: self._too_late(hook))

    def _spawn(self, program: str, environment: Mapping[str, str]) -> int:
        return os.posix_spawn(
            program,
            [program],
            {**environment, HOOK: self._mark},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, 2, 1),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP],
        )

    def _too_late(self, hook: Hook) -> None:
        hook.is_late = True
        _kill(hook.pid)

    def _finish(self, hook: Hook, problem: str) -> None:
        hook.is_over = True
        if hook.on_end is None:
            return
        if problem:
            problem = f"{hook.kind} {hook.program} {problem}"
            log.error("%s: %s", hook.attempt, problem)
            self.unfit[hook.attempt] = HookFailed(hook.attempt, hook.kind, problem)
        hook.on_end(problem)


def _kill(session: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGKILL)


def uncleanness(environment: Mapping[str, str]) -> str:
    """Return which variable has characters that no hook may get, for people, or ""."""
    for name, value in environment.items():
        if not _CLEAN.fullmatch(value):
            return (
                f"{name} would be {value[:64]!r}, which is not passed to programs that run as root"
            )
    return ""


def cleaned(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what an earlier version left for an epilog, without values no longer permitted."""
    return {name: value for name, value in environment.items() if _CLEAN.fullmatch(value)}


def hook_environment(order: StartOrder, prepared: Prepared) -> dict[str, str]:
    """Return the variables of prolog and epilog; check them with `uncleanness`."""
    spec, login, attempt = prepared.spec, prepared.login, order.attempt
    result = {
        "PATH": PATH_DEFAULT,
        "IRIAI_JOB_ID": f"{attempt.home}-{attempt.number}",
        "IRIAI_TASK_ID": str(attempt.index),
        "IRIAI_ATTEMPT": str(attempt.attempt),
        "IRIAI_USER": login.name,
        "IRIAI_UID": str(login.uid),
        "IRIAI_GID": str(login.gid),
        "IRIAI_GROUP": spec.account.group,
        "IRIAI_CPUS": str(spec.resources.cpus * order.ranks),
    }
    if order.gpu_ids:
        result["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, order.gpu_ids))
    return result
