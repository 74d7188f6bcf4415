"""Starts one task: builds the input of iriai-exec, or of the helper in Python.

The launcher never forks. A helper that waits starts tasks (`TaskStarter`), or a helper is started
by `posix_spawn`, which costs the same however large the launcher is; what has to happen between
fork and exec happens in the helper.
"""

from __future__ import annotations

import errno
import os
import resource
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace as with_fields

from iriai.launcher.containment.container import Limits
from iriai.launcher.containment.namespaces.visible import EVERYTHING, Visible
from iriai.launcher.containment.stopping import HALTS, await_halt
from iriai.launcher.contract.machine_config import MachineSettings
from iriai.launcher.contract.messages import EXIT_NOT_FOUND, EXIT_NOT_RUN, StartOrder
from iriai.launcher.directories.scratch import ScratchSpace
from iriai.launcher.environment.batch_variables import (
    add_batch_variables,
    batch_rank_variables,
    packed,
)
from iriai.launcher.environment.environment import environment_of
from iriai.launcher.environment.processors import processors_of
from iriai.launcher.environment.rank_variables import pmi_variables, rank_gpus, rank_variables
from iriai.launcher.gpus.gpus import Gpus
from iriai.launcher.spawn.payloads import PayloadFiles
from iriai.launcher.spawn.streams import NO_ENDS, TaskEnds
from iriai.launcher.spawn.task_starter import TaskStarter
from iriai.launcher.system.syscalls import PrivilegedThread
from iriai.model.batch_variables import NoticeVariable
from iriai.model.ids import AttemptId
from iriai.model.job import (
    JobSpec,
    expand_pattern,
)
from iriai.model.submission import Interaction, Layout
from iriai.system.passwd_cache import Login

HELPER = os.path.join(os.path.dirname(__file__), "iriai-exec")
HELPER_IN_PYTHON = os.path.join(os.path.dirname(__file__), "iriai_exec.py")
TASK_FILES = (1024, 524_288)
"""How many files a task of root's launcher may have open, and the most to which it may raise that:
the limits of a login with systemd. Above 1,024 descriptors, programs that use select(2) fail."""
LIMITED = "n="
"""The option of tasks whose programs gain no rights."""
_CPU_LIMIT_SLACK_S = 2
"""RLIMIT_CPU counts one process and whole seconds; it takes effect after the sampled limit."""


class Prepared(NamedTuple):
    """The common part of the tasks of one template."""

    spec: JobSpec
    login: Login
    environment: dict[bytes, bytes]
    """From `SharedEnvironments`; not to be changed."""
    options: tuple[str, ...]
    """Options of the helper that all tasks share."""
    command: tuple[str, ...]
    script: bytes
    stdin: bytes
    digest: bytes
    notice: tuple[tuple[NoticeVariable, str], ...] = ()
    visible: Visible = EVERYTHING
    """What it sees of the machine's /tmp and /dev/shm."""
    limits: Limits = Limits(1, 0, 0)
    """Limits that the kernel enforces, for tasks of one rank without cards."""
    processors: tuple[int, ...] = ()
    """Of the seat whose ranks are bound to some; empty: they run on any."""
    of_seat: dict[bytes, bytes] | None = None
    """What all ranks of a seat find in their environment; None: the attempt has but one rank."""


class Payload(NamedTuple):
    """Names of the stored files that a task uses; empty for none."""

    script: str = ""
    stdin: str = ""


NO_PAYLOAD = Payload()


def output_file(pattern: str, order: StartOrder, layout: Layout, rank: int) -> str:
    """Return the file that `pattern` names for a rank."""
    has_several = bool(order.seats) and layout is Layout.RANKS
    first = order.attempt.rank if has_several else None
    return expand_pattern(pattern, order.attempt.seat(rank), first)


def find_helper(kind: str) -> tuple[str, ...]:
    """Return the command of the helper; `kind` is auto, c or python."""
    if kind != "python" and _works(HELPER):
        return (HELPER,)
    if kind == "c":
        raise FileNotFoundError(f"{HELPER} does not exist; compile it, or use the helper in Python")
    # -I -S: neither environment nor installed packages have an effect on a privileged process.
    return (sys.executable, "-I", "-S", HELPER_IN_PYTHON)


def _works(program: str) -> bool:
    """Return whether `program` can be executed here: it may be missing, or for another machine.

    Without arguments it exits with EXIT_NOT_RUN.
    """
    try:
        pid = os.posix_spawn(program, [program], {})
    except OSError:
        return False
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == EXIT_NOT_RUN


def helper_is_compiled(helper: tuple[str, ...]) -> bool:
    """Return whether `helper`, from `find_helper`, is the C program."""
    return len(helper) == 1


class ReadyHelper(NamedTuple):
    """A helper that has not been started yet."""

    arguments: list[str]
    environment: dict[bytes, bytes]
    redirects: list[tuple[int, int, int]]
    """Which descriptors become which, as actions of `posix_spawn`."""
    namespace_fd: int
    """The task's mount namespace; -1: none."""
    stdin_fd: int
    """Opened for it, and closed with it; -1: none."""
    is_limited: bool
    """Whether its task gains no rights."""
    is_grouped: bool
    """Whether its task enters control groups."""
    is_halting: bool
    """Whether it stops itself before it becomes the task."""

    def close(self) -> None:
        """Close what was opened for it."""
        if self.stdin_fd >= 0:
            os.close(self.stdin_fd)


class Spawner:
    """Starts tasks."""

    def __init__(
        self,
        helper: tuple[str, ...],
        payloads: PayloadFiles,
        launcher_mark: str,
        state_path: str,
        gpus: Gpus,
        unbounded: PrivilegedThread,
    ) -> None:
        """`launcher_mark` names this launcher's state in the mark of each task.

        `state_path` is the state directory, so that `iriai` in a task finds its machine's daemon.
        """
        self._unbounded = unbounded
        self._state = os.fsencode(state_path)
        self._gpus = gpus
        self._helper = helper
        self._starter = TaskStarter(helper[0]) if helper_is_compiled(helper) else None
        self._payloads = payloads
        self._launcher_mark = launcher_mark
        self._is_root = os.geteuid() == 0
        self._takes_privileges = self._is_root
        self.failures_fd, report_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(report_fd, True)
        os.set_inheritable(report_fd, True)  # helpers are the only children
        self._namespace_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        """The number that a task's mount namespace has in the helper."""
        self._pmi_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        """The number that the connection to the process manager has in a rank."""
        self._fixed_options = (f"p={os.getpid()}", f"r={report_fd}", *_raise_file_limit())

    def use(self, settings: MachineSettings) -> None:
        """Apply the configuration to tasks that start from now on."""
        wanted = settings.no_new_privileges
        self._takes_privileges = self._is_root if wanted is None else wanted

    def options(self, spec: JobSpec, login: Login) -> tuple[str, ...]:
        """Return the helper's options for every task of `spec`."""
        result = [*self._fixed_options, f"d={spec.working_directory}"]
        if self._is_root:
            groups = ",".join(map(str, login.groups))
            result.append(f"u={login.uid}:{login.gid}:{groups}")
        if self._takes_privileges and login.uid != 0:
            result.append(LIMITED)
        if spec.cpu_limit_s is not None:
            soft = int(spec.cpu_limit_s) + _CPU_LIMIT_SLACK_S
            hard = soft + int(spec.kill_grace_s) + 1
            result.append(f"l={resource.RLIMIT_CPU}:{soft}:{hard}")
        if spec.interaction is Interaction.TERMINAL:
            result += ["t=", "k="]
        elif spec.interaction is Interaction.STREAM:
            result.append("k=")
        return tuple(result)

    def mark_of(self, attempt: AttemptId) -> str:
        """Return the value of the mark that every process of `attempt` begins with."""
        return f"{self._launcher_mark}/{attempt}"

    def ready(
        self,
        task: Prepared,
        order: StartOrder,
        mark: str,
        joins: tuple[str, ...],
        payload: Payload,
        scratch: ScratchSpace,
        namespace_fd: int,
        ends: TaskEnds,
        rank: int,
    ) -> ReadyHelper:
        """Return the helper that becomes a rank of the task, ready to be started.

        `mark` is from `mark_of`, `joins` are the options by which it enters its container.
        `scratch` is the task's private directory, `namespace_fd` its mount namespace, -1 if there
        is none; `ends` are its streams, which the caller closes once it has started. Raises OSError
        or ValueError.
        """
        spec = task.spec
        environment = environment_of(order, task.environment, mark, scratch.path)
        environment[b":IRIAI_STATE"] = self._state
        if order.gpu_ids:
            cards = rank_gpus(order, spec.layout, rank)
            environment.update(packed(self._gpus.variables(cards).items()))
        if (batch := spec.batch) is not None:
            is_array = spec.is_array
            add_batch_variables(environment, batch, order, scratch.path, is_array=is_array)
        if task.notice:
            environment.update(packed(task.notice))
        dup = os.POSIX_SPAWN_DUP2
        redirects: list[tuple[int, int, int]] = []
        if ends is not NO_ENDS:
            targets = zip(ends, (0, 1, 2, self._pmi_fd), strict=True)
            redirects += [(dup, fd, target) for fd, target in targets if fd >= 0]
        arguments = [*self._helper, *task.options, *joins]
        if task.of_seat is not None:
            environment.update(task.of_seat)
            arguments += self._rank_options(environment, task, order, rank, ends)
        if not payload.stdin and (not redirects or redirects[0][2] != 0):
            arguments.append("i=/dev/null")
        if spec.interaction is Interaction.BATCH:
            for letter, pattern in (("o", spec.output), ("e", spec.error)):
                if pattern and order.parallel is None:
                    arguments.append(f"{letter}={expand_pattern(pattern, order.attempt)}")
                elif pattern:
                    arguments.append(f"{letter}={output_file(pattern, order, spec.layout, rank)}")
        if namespace_fd >= 0:
            arguments.append(f"m={self._namespace_fd}")
        arguments.append("--")
        if payload.script:
            arguments.append(self._payloads.path(payload.script))
        arguments += task.command
        stdin_fd = -1
        if payload.stdin:
            stdin_fd = self._payloads.open(payload.stdin)
            redirects.insert(0, (dup, stdin_fd, 0))
        is_limited, is_halting = LIMITED in task.options, HALTS in joins
        return ReadyHelper(
            arguments,
            environment,
            redirects,
            namespace_fd,
            stdin_fd,
            is_limited,
            bool(joins and joins[0][0] == "g"),
            is_halting,
        )

    def _rank_options(
        self,
        environment: dict[bytes, bytes],
        task: Prepared,
        order: StartOrder,
        rank: int,
        ends: TaskEnds,
    ) -> tuple[str, ...]:
        """Add what a rank of a parallel attempt finds; return its options of the helper."""
        environment.update(rank_variables(order, task.spec.layout, rank))
        if task.spec.batch is not None:
            environment.update(batch_rank_variables(task.spec.batch, order, rank))
        options: tuple[str, ...] = ()
        if task.processors:
            own = processors_of(task.processors, order, task.spec.layout, rank)
            options = (f"a={','.join(map(str, own))}",)
        if ends.pmi < 0:
            return options
        environment.update(pmi_variables(order, rank, self._pmi_fd))
        return (*options, f"f={self._pmi_fd}")

    def ask(self, ready: ReadyHelper) -> bool:
        """Ask the helper that waits for a task; False: `start` does everything.

        `start` has to follow for each, in this order. Raises ValueError as `start` does.
        """
        if not (self._starter and ready.is_limited and ready.is_grouped) or ready.redirects:
            return False
        if ready.is_halting:
            return False
        return self._starter.ask(ready.arguments, ready.environment, ready.namespace_fd)

    def start(self, ready: ReadyHelper, *, asked: bool) -> int:
        """Start a helper, or see that one was; return its pid. `asked` is the answer of `ask`.

        Raises OSError or ValueError if the system refuses the arguments; nothing was started then.
        """
        if asked and self._starter and (pid := self._starter.answer()) is not None:
            return pid
        arguments, environment, redirects, namespace_fd, stdin_fd, is_limited, *_ = ready
        if namespace_fd >= 0:
            redirects.append((os.POSIX_SPAWN_DUP2, namespace_fd, self._namespace_fd))
        spawn = partial(
            os.posix_spawn, arguments[0], arguments, environment, file_actions=redirects
        )
        try:
            pid = spawn() if is_limited else self._unbounded.call(spawn)
        finally:
            if stdin_fd >= 0:
                os.close(stdin_fd)
        if ready.is_halting:
            await_halt(pid)
        return pid


def piped(task: Prepared, order: StartOrder, rank: int) -> Prepared:
    """Return what becomes a stage whose output another one reads; errors go to the rank's file."""
    spec = task.spec
    if spec.interaction is not Interaction.BATCH:
        return task
    errors = spec.error or spec.output
    path = output_file(errors, order, spec.layout, rank) if errors else os.devnull
    kept = with_fields(spec, output="", error="")
    return task._replace(spec=kept, options=(*task.options, "k=", f"e={path}"))


def _raise_file_limit() -> tuple[str, ...]:
    """Raise the launcher's limit of descriptors; return the option that limits tasks.

    Tasks of root's launcher get the limit of a login, those of an ordinary user's the one that the
    launcher was started with.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_root = os.geteuid() == 0
    if is_root:
        with suppress(OSError, ValueError):  # beyond what the kernel, or a container, allows
            wanted = max(hard, TASK_FILES[1])
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
            hard = wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if is_root:
        soft, hard = (min(each, hard) for each in TASK_FILES)
    elif soft == hard:
        return ()
    return (f"l={resource.RLIMIT_NOFILE}:{soft}:{hard}",)


# --- what the helper reports when it cannot become the task --------------------------------------

_REPORT = struct.Struct("=iii")
_READ_BYTES = _REPORT.size * 4096


class Stage(IntEnum):
    """The step that failed; the numbers are those of iriai-exec.c and iriai_exec.py."""

    ARGUMENTS = 1
    SESSION = 2
    GROUP = 3
    PARENT = 4
    TERMINAL = 5
    LIMIT = 6
    USER = 7
    DIRECTORY = 8
    STDIN = 9
    STDOUT = 10
    STDERR = 11
    EXEC = 12
    NAMESPACE = 13


_STAGES = frozenset(Stage)


class SpawnError(NamedTuple):
    """One report."""

    pid: int
    stage: Stage
    error: int


def read_failures(fd: int) -> Iterator[SpawnError]:
    """Yield all reports in the pipe `fd`, which does not block."""
    size = _REPORT.size
    while True:
        try:
            content = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        if not content:
            return
        for pid, stage, error in _REPORT.iter_unpack(content[: len(content) // size * size]):
            if stage in _STAGES:
                yield SpawnError(pid, Stage(stage), error)
        if len(content) < _READ_BYTES:
            return


def explain(failure: SpawnError, spec: JobSpec, order: StartOrder, rank: int) -> tuple[int, str]:
    """Return the exit code for `failure` of a rank, and a message for people."""
    why = os.strerror(failure.error)
    command = spec.command[0] if spec.command and not spec.script else "the script"
    match failure.stage:
        case Stage.EXEC if failure.error == errno.ENOENT:
            return EXIT_NOT_FOUND, f"{command}: command not found, or its interpreter is missing"
        case Stage.EXEC:
            return EXIT_NOT_RUN, f"{command} could not be executed: {why}"
        case Stage.DIRECTORY:
            what = f"working directory {spec.working_directory} cannot be entered"
        case Stage.STDIN:
            what = "standard input cannot be opened"
        case Stage.STDOUT:
            named = output_file(spec.output, order, spec.layout, rank)
            what = f"output file {named} cannot be opened"
        case Stage.STDERR:
            named = output_file(spec.error, order, spec.layout, rank)
            what = f"error file {named} cannot be opened"
        case Stage.USER:
            what = f"the launcher could not become user {spec.user}"
        case Stage.GROUP:
            what = "the task's control group could not be joined"
        case Stage.NAMESPACE:
            what = "the task's private /tmp could not be entered"
        case stage:
            what = f"the task could not be prepared ({stage.name.lower()})"
    return EXIT_NOT_RUN, f"{what}: {why}"
