"""A policy of one's own decides what a real daemon starts, and its mistakes are told."""

from __future__ import annotations

import os
import shutil

import pytest

from iriai.model.problem import ExitCode
from tests.endtoend.test_bad_input import complaint, up
from tests.support.shared import ROOT
from tests.support.waiting import until

CONFIGURATION = """
[machine]
cpus = 4
memory = "1G"
[jobs]
kill_grace_s = 0.5
[order]
name = "fifo"
policy = "{path}:{name}"
"""
OVERBOOKS = """
from iriai.policy.placement.policy_api import Start


class Hopeful:
    def plan(self, view, now):
        for job in view.queue():
            yield Start(job.id, view.machines[0].name)
"""


@pytest.fixture
def start(iriai):
    def start(name, text=None):
        path = iriai.directory / "policy.py"
        if text is None:
            shutil.copy(ROOT / "examples" / "fifo.py", path)
        else:
            path.write_text(text)
        path.chmod(0o644)
        iriai.directory.chmod(0o755)
        iriai.configure(CONFIGURATION.format(path=path, name=name))
        iriai.start()
        return iriai

    return start


def sleep(installation, client, seconds, **fields):
    draft = installation.draft("sleep", str(seconds), output=os.devnull, **fields)
    return client.submit(draft).id


def state(client, job):
    return client.show(job).row.state


def test_the_example_runs_jobs_in_order_and_lets_nothing_pass(start):
    installation = start("Fifo")
    with installation.client() as client:
        first = sleep(installation, client, 60, cpus=3)
        until(lambda: state(client, first) == "running", "the start")
        wide = sleep(installation, client, 0, cpus=2)
        small = sleep(installation, client, 0, cpus=1)
        assert client.why(small).reasons[0].rule == "policy"
        rows = {row.id: row for row in client.jobs()}
        assert rows[wide].start_wall_s is not None
        assert not rows[wide].promised
        client.cancel([first])
        client.wait([first, wide, small])
        assert [client.show(job).row.cause for job in (wide, small)] == ["completed", "completed"]


def test_a_policy_that_overbooks_is_refused_with_its_line(start):
    installation = start("Hopeful", OVERBOOKS)
    with installation.client() as client:
        first = sleep(installation, client, 60, cpus=3)
        until(lambda: state(client, first) == "running", "the start")
        second = sleep(installation, client, 60, cpus=3)
        reason = client.why(second).reasons[0]
        assert reason.rule == "policy"
        assert "policy.py, line 8: " in reason.had
        assert "needs 3 cpus" in reason.had
        assert state(client, second) == "queued"


def test_a_daemon_with_a_policy_that_cannot_be_loaded_says_so(iriai):
    iriai.configure(CONFIGURATION.format(path="/nowhere.py", name="Fifo"))
    line = complaint(up(iriai), ExitCode.NOT_FOUND)
    assert "there is no file /nowhere.py" in line
