"""Daemon or launcher are killed at each step of a suspension: nothing is lost, nothing hangs.

IRIAI_KILLS makes the long loop shorter.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from iriai.model.problem import Problem
from tests.endtoend.installation import PYTHON
from tests.endtoend.test_suspend import COUNT
from tests.support.waiting import until

STEPS = (
    *("before-commit", "after-commit"),
    *("before-freeze", "after-freeze", "before-frozen-told"),
)
"""Of the daemon, then of its launcher."""
KILLS = int(os.environ.get("IRIAI_KILLS") or 100)
NOTICED_S = 60.0


@pytest.fixture
def orders(monkeypatch) -> Iterator[Path]:
    """Where a file orders a crash at the step of its name; whoever comes to it first takes it."""
    with TemporaryDirectory(prefix="iriai-orders-") as name:
        place = Path(name)
        place.chmod(0o777)
        monkeypatch.setenv("IRIAI_CRASH_AT", f"{place}/")
        yield place


@pytest.mark.parametrize("kills", [len(STEPS), pytest.param(KILLS, marks=pytest.mark.soak)])
def test_a_suspended_task_ends_once_whoever_dies(iriai, orders, kills):
    iriai.configure("[machine]\ncpus = 2\n")
    iriai.start()
    for number, step in enumerate(islice(cycle(STEPS), kills)):
        job, place = _begin(iriai, number)
        order = orders / step
        order.touch()
        _until_done(iriai, lambda job=job: _suspend(iriai, job))
        until(lambda order=order: not order.exists(), f"the crash at {step}", wait_s=NOTICED_S)
        until(iriai.runs_tasks, "the return of all", wait_s=NOTICED_S)
        _until_done(iriai, lambda job=job: _unsuspend(iriai, job))
        with iriai.client() as client:
            assert client.wait([job])[0].exit_code == 0, f"after a crash at {step}"
            causes = [attempt.cause for attempt in client.show(job).attempts]
        assert causes[0] == "completed", causes
        assert set(causes[1:]) <= {"lost"}, causes
        assert place.read_text() == "done"


def _begin(iriai, number: int) -> tuple[str, Path]:
    place = iriai.work / f"counted-{number}"
    draft = iriai.draft(PYTHON, "-c", COUNT, str(place), "0.3", cpus=2, output=os.devnull)
    with iriai.client() as client:
        job = client.submit(draft).id
        until(
            lambda: place.exists() and client.show(job).row.state == "running", "the count to begin"
        )
    return job, place


def _suspend(iriai, job: str) -> bool:
    """Suspend the job; return whether that is how it is, or it has ended."""
    with iriai.client() as client:
        if client.show(job).row.state == "running":
            with suppress(Problem):
                client.suspend([job])
        return client.show(job).row.state in ("suspended", "finished")


def _unsuspend(iriai, job: str) -> bool:
    """Let the job go on, whichever attempt it is at; return whether it does or has ended."""
    with iriai.client() as client:
        with suppress(Problem):
            client.unsuspend([job])
        return client.show(job).row.state in ("running", "finished", "claimed", "queued")


def _until_done(iriai, act) -> None:
    """Do it until it is done, whoever dies meanwhile."""

    def try_it() -> bool:
        try:
            return act()
        except Problem:
            time.sleep(0.1)
            return False

    until(try_it, "somebody who answers", wait_s=NOTICED_S)
