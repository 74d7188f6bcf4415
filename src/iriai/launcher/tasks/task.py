"""One running task, and the report of its end."""

from __future__ import annotations

import math
import os
import resource
import signal
from collections.abc import Collection
from typing import NamedTuple

import msgspec

from iriai.launcher.containment.container import Containment, Limits, Use
from iriai.launcher.containment.namespaces.pool import Namespace
from iriai.launcher.contract.messages import Alive, Exit, StartOrder
from iriai.launcher.directories.project_quota import ProjectQuota
from iriai.launcher.directories.scratch import ScratchSpace
from iriai.launcher.spawn.spawn import Payload, Prepared, SpawnError, explain
from iriai.launcher.tasks.rank_processes import RankProcesses
from iriai.launcher.tasks.suspension import TaskSuspension
from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec, end_by_itself
from iriai.model.state import EndCause
from iriai.model.units import format_duration, format_size
from iriai.model.usage import Usage

SAMPLE_S = 0.5
"""Between two samples of what the kernel does not limit by itself. A shorter time notices sooner
and costs more: a sample reads each process of the task."""
CPU_SAMPLE_MIN_S = 0.1
"""Between two samples of processor time when the limit is close."""


class LimitExceeded(NamedTuple):
    """A limit was crossed; the task has to end."""

    cause: EndCause
    message: str
    """With the value that was reached, for people."""


MEMORY_BYTES_MAX = 1 << 62
"""The kernel takes no larger limit; as many ranks of what one may have would be more."""


def kernel_limits(spec: JobSpec) -> Limits:
    """Return the limits that the kernel enforces for a task of `spec` without cards."""
    resources = spec.resources
    memory_bytes = min(resources.memory_bytes, MEMORY_BYTES_MAX)
    return Limits(resources.cpus, memory_bytes, spec.process_limit or 0)


def spec_of_seat(spec: JobSpec, ranks: int) -> JobSpec:
    """Return `spec` with the limits of a seat: those of one rank, for each of them."""
    cpu_s, processes = spec.cpu_limit_s, spec.process_limit
    return msgspec.structs.replace(
        spec,
        resources=spec.resources.times(ranks),
        cpu_limit_s=None if cpu_s is None else cpu_s * ranks,
        process_limit=None if processes is None else processes * ranks,
    )


def next_sample_s(
    spec: JobSpec, now_s: float, cpu_s: float, machine_cpus: int, *, polled: bool
) -> float | None:
    """Return when the usage of a task must be sampled again; None: never.

    `cpu_s` is what it has used so far; it cannot use more than `machine_cpus` seconds in one.
    `polled`: the kernel does not enforce every other limit of the task.
    """
    moments = []
    if spec.cpu_limit_s is not None:
        left_s = max(0.0, spec.cpu_limit_s - cpu_s)
        moments.append(now_s + max(left_s / machine_cpus, CPU_SAMPLE_MIN_S))
    if polled:  # at the same moments for all tasks, which then share one snapshot
        moments.append((math.floor(now_s / SAMPLE_S) + 1) * SAMPLE_S)
    return min(moments) if moments else None


def is_polled(spec: JobSpec, container: Containment) -> bool:
    """Return whether a limit of `spec` is enforced by sampling alone."""
    return bool(
        (spec.resources.memory_bytes and not container.limits_memory)
        or (spec.process_limit and not container.limits_processes)
    )


def crossed(spec: JobSpec, use: Use) -> LimitExceeded | None:
    """Return the limit that `use` exceeds, if any."""
    if spec.cpu_limit_s is not None and use.cpu_s >= spec.cpu_limit_s:
        return cpu_limit(spec, use.cpu_s)
    if spec.resources.memory_bytes and use.memory_bytes > spec.resources.memory_bytes:
        return memory_limit(spec, use.memory_bytes)
    if spec.process_limit and use.processes > spec.process_limit:
        message = f"process limit of {spec.process_limit} exceeded: {use.processes} processes"
        return LimitExceeded(EndCause.FAILED, message)
    return None


def cpu_limit(spec: JobSpec, cpu_s: float) -> LimitExceeded:
    """Return that the limit of processor time was exceeded."""
    limit = format_duration(spec.cpu_limit_s or 0.0)
    return LimitExceeded(
        EndCause.CPU_LIMIT, f"CPU time limit of {limit} exceeded: {cpu_s:.1f}s used"
    )


def memory_limit(spec: JobSpec, peak_bytes: int) -> LimitExceeded:
    """Return that the limit of memory was exceeded."""
    limit = format_size(spec.resources.memory_bytes)
    message = f"memory limit of {limit} exceeded: peak {format_size(peak_bytes)}"
    return LimitExceeded(EndCause.MEMORY_LIMIT, message)


def disk_limit(spec: JobSpec, peak_bytes: int) -> LimitExceeded:
    """Return that the limit of disk was exceeded."""
    limit = format_size(spec.resources.disk_bytes)
    message = f"disk limit of {limit} exceeded: peak {format_size(peak_bytes)}"
    return LimitExceeded(EndCause.DISK_LIMIT, message)


def time_limit(spec: JobSpec) -> LimitExceeded:
    """Return that the limit of wall time was reached."""
    limit = format_duration(spec.time_limit_s or 0.0)
    return LimitExceeded(EndCause.TIME_LIMIT, f"time limit of {limit} reached")


BLOCK_BYTES = 512
"""The unit in which the kernel counts block input and output of a process."""
_NEAR_LIMIT_BYTES = 1 << 20
"""A peak this close to the limit may have been cut off by it."""


class RunningTask(msgspec.Struct, eq=False):
    """A task between its spawn and the end of its last process."""

    attempt: AttemptId
    spec: JobSpec
    """With the limits of all its ranks."""
    container: Containment
    payload: Payload
    scratch: ScratchSpace
    namespace: Namespace | None
    prepared: Prepared
    """What its steps share with it, without script and standard input."""
    order: StartOrder
    ranks: RankProcesses | None = None
    """Its processes, where there are several; else it is the one that `pid` names."""
    pid: int = 0
    """Of the main process, or of the first rank."""
    started_s: float = 0.0
    started_wall_s: float = 0.0
    is_over: bool = False
    status: int | None = None
    """Wait status of the main process, or of the rank that decides, once all have ended."""
    failure: SpawnError | None = None
    cause: EndCause | None = None
    """Why it is being ended, where it did not end by itself."""
    message: str = ""
    kill_at_s: float | None = None
    """When SIGKILL follows; None until the end is requested."""
    suspension: TaskSuspension | None = None
    """None: it was never ordered to freeze, nor to take turns."""
    cpu_s: float = 0.0
    maximum_rss_bytes: int = 0
    sampled_peak_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    script_bytes: int = 0
    """Of its script, which counts as its disk."""
    disk_peak_bytes: int = 0
    """Of disk, as far as it was looked at, with the script."""
    quota: ProjectQuota | None = None
    """Of its directory; None: it has no limit of disk, or the file system no quotas."""

    @property
    def is_ending(self) -> bool:
        """Whether it is being ended, or its main process has ended: no step may begin."""
        return self.kill_at_s is not None or self.status is not None

    @property
    def is_frozen(self) -> bool:
        """Whether it is frozen at present, as its time is counted."""
        return self.suspension is not None and self.suspension.is_frozen

    def unfrozen_s(self, now_s: float) -> float:
        """Return how long it has run until `now_s`: not frozen, and in its turn."""
        stood_s = 0.0 if self.suspension is None else self.suspension.stood_s(now_s)
        return max(0.0, now_s - self.started_s - stood_s)

    @property
    def unreaped(self) -> Collection[int]:
        """Its own processes that were not reaped: their numbers are given to no others."""
        if self.ranks is not None:
            return self.ranks.live
        return () if self.status is not None else (self.pid,)

    def settle(self) -> None:
        """Take over how its ranks ended, none of which is left."""
        failed = None if self.ranks is None else self.ranks.failed
        self.status = 0 if failed is None else failed.status
        self.failure = None if failed is None else failed.failure

    @property
    def alive(self) -> Alive:
        """The task as the daemon knows it."""
        return Alive(self.attempt, self.pid, self.started_wall_s)

    def count(self, usage: resource.struct_rusage) -> None:
        """Add the usage of a process of the task that was reaped just now."""
        self.cpu_s += usage.ru_utime + usage.ru_stime
        self.maximum_rss_bytes = max(self.maximum_rss_bytes, usage.ru_maxrss * 1024)
        self.read_bytes += usage.ru_inblock * BLOCK_BYTES
        self.written_bytes += usage.ru_oublock * BLOCK_BYTES

    def usage(self) -> Usage:
        """Return what was counted so far: by control groups, else by `wait`."""
        cpu_s = self.container.cpu_s()
        peak_bytes = self.container.memory_peak_bytes()
        if peak_bytes is None:
            peak_bytes = max(self.maximum_rss_bytes, self.sampled_peak_bytes)
        return Usage(
            self.cpu_s if cpu_s is None else cpu_s, peak_bytes, self.read_bytes, self.written_bytes
        )

    def usage_now(self) -> Usage:
        """Return the usage so far, with that of live processes where nothing else counts it."""
        usage = self.usage()
        if self.container.cpu_s() is not None and self.container.limits_memory:
            return usage
        use = self.container.sample()
        self.sampled_peak_bytes = max(self.sampled_peak_bytes, use.memory_bytes)
        cpu_s = usage.cpu_s if self.container.cpu_s() is not None else usage.cpu_s + use.cpu_s
        peak_bytes = max(usage.memory_peak_bytes, self.sampled_peak_bytes)
        return Usage(cpu_s, peak_bytes, usage.read_bytes, usage.written_bytes)

    def exit(self, now_s: float, now_wall_s: float) -> Exit:
        """Return the end, when no process is left."""
        if self.status is None:
            raise RuntimeError(f"the main process of {self.attempt} has not ended")
        code = os.waitstatus_to_exitcode(self.status)
        exit_code, signal_number = (code, None) if code >= 0 else (None, -code)
        usage = self.usage()
        cause, message = self.cause, self.message
        if self.failure is not None and cause is None:
            cause = EndCause.FAILED
            exit_code, message = self._explained(self.failure)
        elif cause is None and (limit := self._limit(usage, signal_number)):
            cause, message = limit
        elif cause is None and self.spec.checkpoint_exit is not None:
            cause, message = end_by_itself(self.spec, exit_code, self.unfrozen_s(now_s))
        elif cause is None:
            cause = EndCause.FAILED if self.status else EndCause.COMPLETED
        return Exit(
            self.attempt,
            cause,
            exit_code,
            signal_number,
            usage,
            self.started_wall_s,
            now_wall_s,
            self.unfrozen_s(now_s),
            message or self._remarks(),
        )

    def _explained(self, failure: SpawnError) -> tuple[int, str]:
        """Return the exit code of a rank whose helper failed, and why."""
        if self.ranks is None or self.ranks.failed is None:
            return explain(failure, self.prepared.spec, self.order, self.attempt.rank)
        rank, stage = self.ranks.failed.place
        spec = self.prepared.spec
        if spec.pipes:
            spec = msgspec.structs.replace(spec, command=spec.pipes[stage])
        exit_code, words = explain(failure, spec, self.order, rank)
        return exit_code, f"{self.ranks.words(self.ranks.failed)}: {words}"

    def _limit(self, usage: Usage, signal_number: int | None) -> LimitExceeded | None:
        """Return the limit by which the kernel ended the task, if any."""
        limit_bytes = self.spec.resources.memory_bytes
        is_near = usage.memory_peak_bytes + _NEAR_LIMIT_BYTES >= limit_bytes
        if limit_bytes and (self.status or is_near) and self.container.memory_kills():
            return memory_limit(self.spec, usage.memory_peak_bytes)
        if (
            self.spec.cpu_limit_s is not None
            and signal_number in (signal.SIGXCPU, signal.SIGKILL)
            and usage.cpu_s >= self.spec.cpu_limit_s
        ):
            return cpu_limit(self.spec, usage.cpu_s)
        if self.status and self.quota is not None:
            used_bytes = self.quota.used_bytes() + self.script_bytes
            if used_bytes > self.spec.resources.disk_bytes:
                return disk_limit(self.spec, used_bytes)
        return None

    def _remarks(self) -> str:
        """Return what explains a failure that no limit caused."""
        if self.status and self.spec.process_limit and self.container.process_refusals():
            return f"the process limit of {self.spec.process_limit} was reached"
        if self.ranks is not None and self.ranks.failed is not None:
            return f"{self.ranks.words(self.ranks.failed)} {self.ranks.failed.words}"
        return ""
