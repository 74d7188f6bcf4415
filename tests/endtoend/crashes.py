"""Kills parts of an installation while it works, at random moments and at named steps."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

from iriai.client import Client
from tests.endtoend.installation import Installation
from tests.endtoend.judge import Judge
from tests.support.waiting import until

RUNNING = 200
MOMENTS = {"daemon": ("daemon",), "launcher": ("launcher",), "both": ("daemon", "launcher")}
"""Who is killed from outside, at a random moment."""
STEPS = (
    *("before-commit", "after-commit", "after-launch-sent"),
    *("after-intent", "after-spawn", "before-exit-journal", "after-exit-journal"),
)
"""Where daemon and launcher kill themselves when told to; see launcher.system.crash_points."""
PAUSE_S_MAX = 1.2
"""Longer than a restart takes, so that kills fall into it as well as into ordinary work."""
AFTER_RETURN = 0.7
"""The part of the crashes that hits an installation which is whole again."""

CONFIGURATION = f"""
[machine]
cpus = {RUNNING}
[jobs]
kill_grace_s = 1
"""


class CrashLoop:
    """One installation that is crashed, and the jobs that have to survive it."""

    def __init__(self, installation: Installation, seed: int, sleep_s: float) -> None:
        self._installation = installation
        self._random = Random(seed)
        self._sleep_s = sleep_s
        self._orders = installation.directory / "crash-orders"
        self._orders.mkdir()
        self._orders.chmod(0o777)
        self.judge = Judge(installation)
        self.jobs: list[str] = []
        installation.configure(CONFIGURATION)
        installation.start({"IRIAI_CRASH_AT": f"{self._orders}/"})

    def load(self, tasks: int) -> None:
        """Hand in so many tasks, and have as many running as fit."""
        self._submit(tasks)
        until(lambda: self.judge.begun() >= min(tasks, RUNNING), "the first tasks")

    def crash(self, victim: str, *, queued: int = 0) -> None:
        """One crash; before it about `queued` tasks wait, where that many are wanted."""
        # Else this crash may fall into the restart after the one before.
        if self._random.random() < AFTER_RETURN:
            until(self._installation.runs_tasks, "the return of the daemon")
            self._top_up(queued)
        time.sleep(self._random.uniform(0.0, PAUSE_S_MAX))
        if victim in MOMENTS:
            for part in MOMENTS[victim]:
                self._installation.kill(part)
        else:
            order = Path(self._orders, victim)
            order.touch()
            until(lambda: not order.exists(), f"the crash at {victim}")

    def finish(self) -> dict[str, int]:
        """Wait until everything has ended; returns what the judge has counted."""
        until(self._installation.runs_tasks, "the return of the daemon")
        with self._installation.client() as client:
            client.wait(self.jobs)
            return self.judge.decide(client, self.jobs)

    def _top_up(self, queued: int) -> None:
        """Hand in more where fewer than `queued` wait."""
        with Client.connect(self._installation.state) as client:
            waiting = client.status().waiting
        if waiting < queued:
            self._submit(queued - waiting)

    def _submit(self, tasks: int) -> None:
        draft = self._installation.draft(
            *self.judge.command(self._sleep_s), array=((1, tasks, 1),), output=os.devnull
        )
        with self._installation.client() as client:
            self.jobs.append(client.submit(draft).id)
