"""Gives the memory of suspended tasks back to the owner of the machine (docs/spec/016, section 3).

Writing to swap takes seconds for a GiB, so a thread does it, for one task after the other.
"""

from __future__ import annotations

import logging
import threading
from collections import deque

from iriai.launcher.containment.container import Containment
from iriai.model.ids import AttemptId

log = logging.getLogger(__name__)


class Reclaim:
    """The memory of one task, until it is wanted again."""

    def __init__(self, attempt: AttemptId, container: Containment) -> None:
        self._attempt = attempt
        self._container = container
        self._memory = container.paged_memory()
        self._is_wanted = True

    def stop(self) -> None:
        """Let the task have its memory again; what is under way ends soon."""
        self._is_wanted = False
        self._container.forbid_swap()

    def go_on(self) -> None:
        """Write its memory to swap, as far as there is some and the kernel allows it."""
        try:
            self._memory.write_out(lambda: self._is_wanted)
        except OSError as error:
            log.warning("the memory of %s stays with it: %s", self._attempt, error)
        except Exception:
            log.exception("the memory of %s stays with it", self._attempt)


class MemoryReclaim:
    """What is to be written out; the thread is there while there is something."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Reclaim] = deque()
        self._is_running = False

    def start(self, attempt: AttemptId, container: Containment) -> Reclaim:
        """Begin to give back the memory of a task that stands."""
        reclaim = Reclaim(attempt, container)
        with self._lock:
            self._waiting.append(reclaim)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="reclaim", daemon=True).start()
        return reclaim

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
                    return
                reclaim = self._waiting.popleft()
            reclaim.go_on()
