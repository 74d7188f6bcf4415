"""A policy of one's own decides what a real daemon starts, and its mistakes are told."""

from __future__ import annotations

import os
import re
import shutil
from datetime import UTC, datetime, timedelta

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
policy_may = "{may}"
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
    def start(name, text=None, may="none"):
        path = iriai.directory / "policy.py"
        if text is None:
            shutil.copy(ROOT / "examples" / f"{name.lower()}.py", path)
        else:
            path.write_text(text)
        path.chmod(0o644)
        iriai.directory.chmod(0o755)
        iriai.configure(CONFIGURATION.format(path=path, name=name, may=may))
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
    iriai.configure(CONFIGURATION.format(path="/nowhere.py", name="Fifo", may="none"))
    line = complaint(up(iriai), ExitCode.NOT_FOUND)
    assert "there is no file /nowhere.py" in line


# --- what it changes ------------------------------------------------------------------------------


def by_day(text: str) -> str:
    """The example, with hours in which it is day now."""
    now = datetime.now(UTC)
    hours = [now + timedelta(hours=each) for each in (1, 2)]
    begins, ends = (f"time({each.hour}, {each.minute})" for each in hours)
    text = text.replace("time(20), time(7)", f"{begins}, {ends}")
    return text.replace("zone: tzinfo | None = None", "zone: tzinfo | None = UTC")


def test_the_queue_of_the_night_is_held_by_day(start):
    text = (ROOT / "examples/night_queue.py").read_text()
    installation = start("NightQueue", by_day(text), may="all")
    with installation.client() as client:
        job = sleep(installation, client, 0, queue=2)
        until(lambda: state(client, job) == "held", "the hold")
        [reason] = client.why(job).reasons
        assert reason.had == "the job is held by policy NightQueue"
        until(lambda: client.show(job).comment, "the comment")
        other = sleep(installation, client, 0)
        client.wait([other])
        told = installation.call("story", job).stdout
        assert re.search(r"held +.*policy NightQueue", told)
        assert state(client, job) == "held"


REQUEUES = """
from iriai.policy.api import RequeueTask, Start


class Again:
    def plan(self, view, now):
        self.wake_s = now.steady_s + 0.5
        for machine in view.machines:
            for task in machine.tasks():
                if task.attempt and task.attempt.attempt == 1:
                    yield RequeueTask(task.attempt)
        for job in view.queue():
            yield Start(job.id, view.machines[0].name)
            return
"""


def test_a_task_is_sent_back_to_the_queue_once(start):
    installation = start("Again", REQUEUES, may="all")
    with installation.client() as client:
        job = sleep(installation, client, 5)
        client.wait([job])
        causes = [each.cause for each in client.show(job).attempts]
        assert sorted(causes) == ["completed", "evicted"]
        assert "policy Again" in installation.call("story", job).stdout


def test_where_it_is_not_permitted_it_is_told_and_nothing_is_done(start):
    installation = start("Again", REQUEUES)
    with installation.client() as client:
        job = sleep(installation, client, 2)
        client.wait([job])
        [attempt] = client.show(job).attempts
        assert attempt.cause == "completed"
    assert "does not let a policy requeue its jobs" in installation.words()
