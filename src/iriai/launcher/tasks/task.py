"""One running task, and how its end is told."""

from __future__ import annotations

import os
import resource
import signal

from iriai.launcher.containment.container import Containment
from iriai.launcher.containment.namespaces.pool import Namespace
from iriai.launcher.contract.messages import Alive, Exit
from iriai.launcher.directories.scratch import ScratchSpace
from iriai.launcher.spawn.spawn import Payload
from iriai.launcher.spawn.spawn_failures import SpawnError, explain
from iriai.launcher.tasks.limits import LimitExceeded, cpu_limit, memory_limit
from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec
from iriai.model.state import EndCause
from iriai.model.usage import Usage

BLOCK_BYTES = 512
"""The unit in which the kernel counts block input and output of a process."""
_NEAR_LIMIT_BYTES = 1 << 20
"""A peak this close to the limit, and closer, may have been cut off by it."""


class RunningTask:
    """A task between its spawn and the end of its last process."""

    __slots__ = (
        "attempt",
        "cause",
        "cpu_s",
        "enclosure",
        "failure",
        "is_over",
        "kill_at_s",
        "maximum_rss_bytes",
        "message",
        "namespace",
        "payload",
        "pid",
        "read_bytes",
        "sampled_peak_bytes",
        "scratch",
        "spec",
        "started_s",
        "started_wall_s",
        "status",
        "written_bytes",
    )

    def __init__(
        self,
        attempt: AttemptId,
        spec: JobSpec,
        enclosure: Containment,
        payload: Payload,
        scratch: ScratchSpace,
        namespace: Namespace | None,
    ) -> None:
        self.attempt = attempt
        self.spec = spec
        self.enclosure = enclosure
        self.payload = payload
        self.scratch = scratch
        self.namespace = namespace
        self.pid = 0
        self.started_s = 0.0
        self.started_wall_s = 0.0
        self.is_over = False
        self.status: int | None = None
        """Wait status of the main process, once it ended."""
        self.failure: SpawnError | None = None
        self.cause: EndCause | None = None
        """Why it is being ended, where it did not end by itself."""
        self.message = ""
        self.kill_at_s: float | None = None
        """When SIGKILL follows; None as long as nobody asked for the end."""
        self.cpu_s = 0.0
        self.maximum_rss_bytes = 0
        self.sampled_peak_bytes = 0
        self.read_bytes = 0
        self.written_bytes = 0

    @property
    def alive(self) -> Alive:
        """The task as the daemon is told of it."""
        return Alive(self.attempt, self.pid, self.started_wall_s)

    def count(self, usage: resource.struct_rusage) -> None:
        """Add what a process of the task, reaped just now, had used."""
        self.cpu_s += usage.ru_utime + usage.ru_stime
        self.maximum_rss_bytes = max(self.maximum_rss_bytes, usage.ru_maxrss * 1024)
        self.read_bytes += usage.ru_inblock * BLOCK_BYTES
        self.written_bytes += usage.ru_oublock * BLOCK_BYTES

    def usage(self) -> Usage:
        """What was used so far, as far as it was counted; control groups before `wait`."""
        cpu_s = self.enclosure.cpu_s()
        peak_bytes = self.enclosure.memory_peak_bytes()
        if peak_bytes is None:
            peak_bytes = max(self.maximum_rss_bytes, self.sampled_peak_bytes)
        return Usage(
            self.cpu_s if cpu_s is None else cpu_s, peak_bytes, self.read_bytes, self.written_bytes
        )

    def usage_now(self) -> Usage:
        """What was used so far, read from its live processes where nothing else counts it."""
        usage = self.usage()
        if self.enclosure.cpu_s() is not None and self.enclosure.limits_memory:
            return usage
        use = self.enclosure.sample()
        self.sampled_peak_bytes = max(self.sampled_peak_bytes, use.memory_bytes)
        cpu_s = usage.cpu_s if self.enclosure.cpu_s() is not None else usage.cpu_s + use.cpu_s
        peak_bytes = max(usage.memory_peak_bytes, self.sampled_peak_bytes)
        return Usage(cpu_s, peak_bytes, usage.read_bytes, usage.written_bytes)

    def exit(self, now_s: float, now_wall_s: float) -> Exit:
        """The end, when no process is left."""
        assert self.status is not None
        code = os.waitstatus_to_exitcode(self.status)
        exit_code, signal_number = (code, None) if code >= 0 else (None, -code)
        usage = self.usage()
        cause, message = self.cause, self.message
        if self.failure is not None and cause is None:
            cause = EndCause.FAILED
            exit_code, message = explain(self.failure, self.spec, self.attempt)
        elif cause is None and (limit := self._limit(usage, signal_number)):
            cause, message = limit
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
            now_s - self.started_s,
            message or self._remarks(),
        )

    def _limit(self, usage: Usage, signal_number: int | None) -> LimitExceeded | None:
        """The limit by which the kernel ended the task, if it did."""
        limit_bytes = self.spec.resources.memory_bytes
        is_near = usage.memory_peak_bytes + _NEAR_LIMIT_BYTES >= limit_bytes
        if limit_bytes and (self.status or is_near) and self.enclosure.memory_kills():
            return memory_limit(self.spec, usage.memory_peak_bytes)
        if (
            self.spec.cpu_limit_s is not None
            and signal_number in (signal.SIGXCPU, signal.SIGKILL)
            and usage.cpu_s >= self.spec.cpu_limit_s
        ):
            return cpu_limit(self.spec, usage.cpu_s)
        return None

    def _remarks(self) -> str:
        """What the user should know about a failure that no limit caused."""
        if self.status and self.spec.process_limit and self.enclosure.process_refusals():
            return f"the process limit of {self.spec.process_limit} was reached"
        return ""
