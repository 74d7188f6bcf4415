"""Measures what an owner's busy programs keep of the processors beside lowered tasks.

In a process of its own, which does it with processes of its own: what other programs do at the same
time takes from both sides alike.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress

from iriai.launcher.containment.cgroups.controllers import make_afresh
from iriai.launcher.containment.cgroups.freezer import move_processes
from iriai.launcher.containment.container import Background
from iriai.launcher.containment.sessions import LOWEST, set_nice
from iriai.launcher.system.forked_process import fork_process

PROCESS_NAME = "iriai-lowering"
BEGIN_S, MEASURE_S = 0.2, 1.0
"""Before it is measured, and for how long: shorter is less exact, longer disturbs the owner."""
BEGUN_S = 3.0
"""How long its tasks, and then its owners, may take to begin; else nothing is measured."""
ALARM_S = 10
"""After that each of its processes ends by itself, whatever becomes of the others."""
TASKS_PER_CPU = 2
ANSWER_BYTES = 8
"""The permille that the owner keeps, as text."""


def fork_probe(background: Background) -> tuple[int, socket.socket]:
    """Start the process; its answer is read by `kept_of`. Raises OSError."""
    return fork_process(PROCESS_NAME, lambda launcher: _serve(background, launcher))


def kept_of(answer: bytes) -> float | None:
    """Return the percent that the owner keeps; None: it was not measured."""
    text = answer.decode("ascii", errors="replace")
    return int(text) / 10 if text.isdecimal() and int(text) <= 1000 else None


def _serve(background: Background, launcher: socket.socket) -> None:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    launcher.send(f"{_kept_permille(background)}".encode())


def _kept_permille(background: Background) -> int:
    cpus = sorted(os.sched_getaffinity(0))
    groups = [f"{each}/measure-{os.getpid()}" for each in (background.idle, background.usual)]
    pids: list[int] = []
    begun, beginning = os.pipe()
    try:
        for group in groups if background.idle else ():
            make_afresh(group)
        tasks = [_busy(cpu, pids, beginning) for cpu in cpus for _ in range(TASKS_PER_CPU)]
        _await_begun(begun, len(tasks))
        if background.idle:
            move_processes(tasks, groups[0])
        elif background.by_session:
            _lower_sessions(tasks)
        owners = [_busy(cpu, pids, beginning) for cpu in cpus]
        _await_begun(begun, len(owners))
        time.sleep(BEGIN_S)
        own_ns, theirs_ns = -_ran_ns(owners), -_ran_ns(tasks)
        time.sleep(MEASURE_S)
        own_ns, theirs_ns = own_ns + _ran_ns(owners), theirs_ns + _ran_ns(tasks)
        if background.idle:  # where they end at once
            move_processes(tasks, groups[1])
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)
        for group in groups if background.idle else ():
            with suppress(OSError):
                os.rmdir(group)
    return round(1000 * own_ns / max(1, own_ns + theirs_ns))


def _busy(cpu: int, pids: list[int], beginning: int) -> int:
    """Start a process that is busy on one processor, in a session of its own.

    It writes a byte to `beginning` when it is there: who lowers its session before lowers another.
    """
    pid = os.fork()
    if pid == 0:
        _work(cpu, beginning)
    pids.append(pid)
    return pid


def _await_begun(begun: int, count: int) -> None:
    """Wait until so many processes are there; raise TimeoutError if that takes too long."""
    end_s = time.monotonic() + BEGUN_S
    while count:
        if not select.select([begun], [], [], max(0.0, end_s - time.monotonic()))[0]:
            raise TimeoutError(f"{count} processes have not begun")
        count -= len(os.read(begun, count))


def _work(cpu: int, beginning: int) -> None:
    try:
        signal.alarm(ALARM_S)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.setsid()
        os.sched_setaffinity(0, [cpu])
        os.write(beginning, b".")
        while True:
            pass
    finally:
        os._exit(0)


def _lower_sessions(pids: list[int]) -> None:
    """Give the session of each the lowest nice value; ordinary users may do ten a second."""
    end_s = time.monotonic() + BEGUN_S
    left = pids
    while left and time.monotonic() < end_s:
        left = [pid for pid in left if not set_nice(pid, LOWEST)]
        time.sleep(0.02 if left else 0.0)


def _ran_ns(pids: list[int]) -> int:
    total_ns = 0
    for pid in pids:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            total_ns += int(file.read().split()[0])
    return total_ns
