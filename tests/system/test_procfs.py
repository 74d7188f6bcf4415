"""What /proc shows of processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from iriai.system.procfs import active_threads_below
from tests.support.waiting import until

LONG_S = 60.0
IDLE = "import time; time.sleep(60)"
THREADS = """
import os, signal, threading, time
def spin():
    while os.getppid() == parent: pass
parent = os.getpid()
if os.fork() == 0:
    for _ in range(3): threading.Thread(target=spin).start()
    spin()
else:
    time.sleep(60)
"""
"""A process below it with four threads; it ends when that has ended."""


@contextmanager
def running(text: str) -> Iterator[subprocess.Popen]:
    process = subprocess.Popen([sys.executable, "-c", text])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_what_computes_counts_and_what_sleeps_does_not():
    """Its own threads do not: those below it do."""
    with running(THREADS) as busy, running(IDLE) as idle:
        until(lambda: active_threads_below(busy.pid, LONG_S) >= 1, "the threads below it")
        until(lambda: active_threads_below(os.getpid(), LONG_S) >= 1, "the same from here")
        assert active_threads_below(idle.pid, LONG_S) == 0


def test_a_look_that_takes_too_long_ends_with_what_it_has():
    assert active_threads_below(1, -1.0) == 0


def test_there_is_nothing_below_a_process_that_is_gone():
    assert active_threads_below(1 << 30, LONG_S) == 0
