"""A policy of one's own decides what a real daemon starts, and its mistakes are told."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from iriai.model.problem import ExitCode
from iriai.wire.reports import Doctor
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


SLOW = """
from iriai.policy.api import Start


class Slow:
    def plan(self, view, now):
        for job in view.queue():
            yield Start(job.id, view.machines[0].name)
        while True:
            pass
"""


@pytest.fixture
def start(iriai):
    def start(name, text=None):
        path = iriai.directory / "policy.py"
        if text is None:
            shutil.copy(ROOT / "examples" / f"{name.lower()}.py", path)
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


@pytest.mark.parametrize("name", ["Easy", "Shortest"])
def test_the_other_examples_run_in_a_daemon_as_they_are(start, name):
    installation = start(name)
    with installation.client() as client:
        first = sleep(installation, client, 1, cpus=3, time_limit_s=30)
        until(lambda: state(client, first) == "running", "the start")
        wide = sleep(installation, client, 0, cpus=4, time_limit_s=30)
        small = sleep(installation, client, 0, cpus=1, time_limit_s=5)
        client.wait([first, wide, small])
        causes = [client.show(job).row.cause for job in (first, wide, small)]
        assert causes == ["completed"] * 3
        found = [each.message for each in client.ask(Doctor()).findings]
    assert not any("the policy erred" in each for each in found)


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


def test_after_a_mistake_the_built_in_order_goes_on_and_operators_are_told(start):
    installation = start("Hopeful", OVERBOOKS)
    with installation.client() as client:
        first = sleep(installation, client, 60, cpus=3)
        until(lambda: state(client, first) == "running", "the start")
        sleep(installation, client, 60, cpus=3)
        small = sleep(installation, client, 0, cpus=1)
        client.wait([small])  # it passes, as backfill has it; the policy would not have started it
        found = [each.message for each in client.ask(Doctor()).findings]
    assert any("the policy erred" in each and "needs 3 cpus" in each for each in found)
    assert "the policy erred, and the built-in order goes on" in installation.words()


def test_a_policy_that_never_ends_is_ended(start):
    installation = start("Slow", SLOW)
    with installation.client() as client:
        first = sleep(installation, client, 0)
        client.wait([first])
        found = " ".join(each.message for each in client.ask(Doctor()).findings)
    assert re.search(r"policy.py, line (9|10): it took more than 2 s", found)


def test_a_daemon_with_a_policy_that_cannot_be_loaded_says_so(iriai):
    iriai.configure(CONFIGURATION.format(path="/nowhere.py", name="Fifo"))
    line = complaint(up(iriai), ExitCode.NOT_FOUND)
    assert "there is no file /nowhere.py" in line
