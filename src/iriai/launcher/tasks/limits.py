"""When a task has to be looked at, and whether it crossed a limit. Decisions only."""

from __future__ import annotations

import math
from typing import NamedTuple

from iriai.launcher.containment.container import Limits, Use
from iriai.launcher.directories.spool import SPOOL_BYTES_MAX
from iriai.model.job import JobSpec
from iriai.model.state import EndCause
from iriai.model.units import format_duration, format_size

SAMPLE_S = 0.5
"""Between two looks at what the kernel does not limit by itself. Less notices sooner and costs
more: a look reads each process of the task."""
CPU_SAMPLE_MIN_S = 0.1
"""Between two looks at processor time when the limit is close."""


class LimitExceeded(NamedTuple):
    """A limit was crossed; the task has to end."""

    cause: EndCause
    message: str
    """With the value that was reached, for people."""


def kernel_limits(spec: JobSpec) -> Limits:
    """What the kernel is asked to keep for a task of `spec` that has no cards."""
    resources = spec.resources
    return Limits(resources.cpus, resources.memory_bytes, spec.process_limit or 0)


def next_sample_s(
    spec: JobSpec, now_s: float, cpu_s: float, machine_cpus: int, *, polled: bool
) -> float | None:
    """When the use of a task must be looked at again; None: never.

    `cpu_s` is what it has used so far; it cannot use more than `machine_cpus` seconds in one.
    `polled`: the kernel keeps not every other limit of the task.
    """
    moments = []
    if spec.cpu_limit_s is not None:
        left_s = max(0.0, spec.cpu_limit_s - cpu_s)
        moments.append(now_s + max(left_s / machine_cpus, CPU_SAMPLE_MIN_S))
    if polled:  # at the same moments for all tasks, which then share one look at all processes
        moments.append((math.floor(now_s / SAMPLE_S) + 1) * SAMPLE_S)
    return min(moments) if moments else None


def is_polled(spec: JobSpec, *, limits_memory: bool, limits_processes: bool) -> bool:
    """Whether a limit of `spec` is kept by nothing but looking."""
    return bool(
        (spec.resources.memory_bytes and not limits_memory)
        or (spec.process_limit and not limits_processes)
    )


def crossed(spec: JobSpec, use: Use) -> LimitExceeded | None:
    """The limit that `use` is over, if any."""
    if spec.cpu_limit_s is not None and use.cpu_s >= spec.cpu_limit_s:
        return cpu_limit(spec, use.cpu_s)
    if spec.resources.memory_bytes and use.memory_bytes > spec.resources.memory_bytes:
        return memory_limit(spec, use.memory_bytes)
    if spec.process_limit and use.processes > spec.process_limit:
        message = f"process limit of {spec.process_limit} crossed: {use.processes} processes"
        return LimitExceeded(EndCause.FAILED, message)
    return None


def cpu_limit(spec: JobSpec, cpu_s: float) -> LimitExceeded:
    """The limit of processor time was crossed."""
    limit = format_duration(spec.cpu_limit_s or 0.0)
    return LimitExceeded(
        EndCause.CPU_LIMIT, f"CPU time limit of {limit} crossed: {cpu_s:.1f}s used"
    )


def memory_limit(spec: JobSpec, peak_bytes: int) -> LimitExceeded:
    """The limit of memory was crossed."""
    limit = format_size(spec.resources.memory_bytes)
    message = f"memory limit of {limit} crossed: peak {format_size(peak_bytes)}"
    return LimitExceeded(EndCause.MEMORY_LIMIT, message)


def output_limit(printed_bytes: int) -> LimitExceeded:
    """More was printed than is kept for whoever follows it."""
    message = (
        f"printed {format_size(printed_bytes)}, and at most SPOOL_BYTES_MAX ="
        f" {format_size(SPOOL_BYTES_MAX)} is kept for whoever follows it: write to a file instead"
    )
    return LimitExceeded(EndCause.FAILED, message)


def time_limit(spec: JobSpec) -> LimitExceeded:
    """The limit of wall time was reached."""
    limit = format_duration(spec.time_limit_s or 0.0)
    return LimitExceeded(EndCause.TIME_LIMIT, f"time limit of {limit} reached")
