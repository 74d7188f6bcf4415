"""Looks at a daemon from outside while hostile input comes: does it end, stand still, or grow?"""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

from iriai.client import Client
from iriai.model.problem import Problem
from tests.endtoend.installation import Installation

LOOK_S = 0.1
SLOW_S = 0.05
"""Of the daemon's processor time between a question and its answer; a turn has 30 ms at most."""
SETTLE_S = 10.0
"""After which memory has to be back."""
IDENTITY = threading.Lock()
"""Held by whoever becomes another user for a moment, which the whole process then is."""
PARTS = ("supervisor", "daemon", "launcher")


class Watcher:
    """From `begin` to `end`."""

    def __init__(self, installation: Installation, settle_s: float = SETTLE_S) -> None:
        self._installation = installation
        self.settle_s = settle_s
        self._pids = {part: installation.pid(part) for part in PARTS}
        self._memory_kib = self._memory()
        self._tracebacks = self._counted_tracebacks()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._client: Client | None = None
        """Kept, since to connect and to say Hello takes several turns."""
        self.ends = 0
        """Of any part that nobody asked for."""
        self.slow_turns = 0
        self.slowest_s = 0.0
        self.unanswered = 0

    def begin(self) -> None:
        """Look from here on."""
        self._thread.start()

    def end(self) -> dict[str, float]:
        """What was seen."""
        self._is_over.set()
        self._thread.join()
        self._forget_client()
        time.sleep(self.settle_s)
        return {
            "ends": self.ends,
            "tracebacks": self.tracebacks(),
            "slow_turns": self.slow_turns,
            "slowest_turn_s": round(self.slowest_s, 3),
            "unanswered": self.unanswered,
            "memory_left_mb": self.memory_left_mb(),
        }

    def memory_left_mb(self) -> float:
        """What daemon and launcher have more than in the beginning."""
        return round((self._memory() - self._memory_kib) / 1024, 1)

    def tracebacks(self) -> int:
        """In what all parts have written since."""
        return self._counted_tracebacks() - self._tracebacks

    def new_tracebacks(self) -> set[str]:
        """Their texts, to the line that names the error."""
        found = re.findall(r"Traceback(?:\n .*|.*)+?\n\S.*", self._installation.words())
        return set(found[self._tracebacks :])

    def _counted_tracebacks(self) -> int:
        return self._installation.words().count("Traceback")

    def _look(self) -> None:
        while not self._is_over.wait(LOOK_S):
            with IDENTITY:
                self._count_ends()
                self._ask()

    def _count_ends(self) -> None:
        for part, before in self._pids.items():
            now = self._installation.pid(part)
            if now is not None and now != before:
                self.ends += before is not None
                self._pids[part] = now

    def _ask(self) -> None:
        pid = self._pids["daemon"]
        try:
            if self._client is None:
                self._client = Client.connect(self._installation.state, follow=False)
            before_s = processor_s(pid)
            self._client.jobs()
        except Problem:
            self.unanswered += 1
            self._forget_client()
            return
        took_s = processor_s(pid) - before_s
        self.slowest_s = max(self.slowest_s, took_s)
        self.slow_turns += took_s > SLOW_S

    def _forget_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _memory(self) -> int:
        """Resident memory of daemon and launcher, in KiB."""
        return sum(resident_kib(self._pids[part]) for part in ("daemon", "launcher"))


def processor_s(pid: int | None) -> float:
    """What the main thread of a process has used so far; 0 where it is gone."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        return 0.0


def resident_kib(pid: int | None) -> int:
    """Its memory now; 0 where it is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
