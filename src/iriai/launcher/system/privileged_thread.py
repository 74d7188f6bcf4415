"""What is to be started with all of root's rights: prolog and epilog, and tasks that keep theirs.

The launcher's own thread gives its bounding set of capabilities up, so that every task begins
without one: to empty it for each task would take 41 system calls, a tenth of what starting a short
task takes. A thread that began before keeps it, and starts what needs it.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from iriai.launcher.system.syscalls import empty_bounding_set, keep_capabilities_inheritable

Start = Callable[[], int]


class PrivilegedThread:
    """Calls functions in a thread that has the bounding set that the launcher was started with.

    Where the launcher is not root there is no such thread: they are called where they are.
    """

    def __init__(self) -> None:
        """From here on, what the calling thread executes can gain no capability."""
        self._waiting: queue.SimpleQueue[tuple[Start, queue.SimpleQueue[int | Exception]]] | None
        self._waiting = None
        if os.geteuid() != 0:
            return
        self._waiting = queue.SimpleQueue()
        threading.Thread(target=self._run, name="unbounded", daemon=True).start()
        with suppress(OSError):  # a container in which root may not; iriai-exec tries, too
            keep_capabilities_inheritable()
            empty_bounding_set()

    def call(self, start: Start) -> int:
        """What `start` returns, or raises."""
        if self._waiting is None:
            return start()
        answer: queue.SimpleQueue[int | Exception] = queue.SimpleQueue()
        self._waiting.put((start, answer))
        result = answer.get()
        if isinstance(result, Exception):
            raise result
        return result

    def _run(self) -> None:
        assert self._waiting is not None
        while True:
            start, answer = self._waiting.get()
            try:
                answer.put(start())
            except Exception as error:  # noqa: BLE001 - raised by `call`, where it is awaited
                answer.put(error)
