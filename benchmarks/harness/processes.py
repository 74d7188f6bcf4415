"""How many processes there are at a time, and what they use, as the kernel counts it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

AT_A_TIME = 64
"""Tasks of a benchmark: enough that neither the loop nor a processor ever waits."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pids: Sequence[int]) -> float:
    """Return the processor time that processes have used, in seconds; in steps of 10 ms each."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S


def rss_mb(pids: Sequence[int]) -> float:
    """Return the resident memory of processes, in megabytes of 2^20 bytes."""
    return _summed_kib(pids, "status", "VmRSS:") / 1024


def pss_mb(pids: Sequence[int]) -> float:
    """Return the same with shared pages divided among those that share them."""
    return _summed_kib(pids, "smaps_rollup", "Pss:") / 1024


def _summed_kib(pids: Sequence[int], file: str, name: str) -> int:
    kib = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(name):
                kib += int(line.split()[1])
    return kib
