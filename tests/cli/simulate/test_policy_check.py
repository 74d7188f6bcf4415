"""`iriai policy check`: a policy of one's own is tried where much breaks, and on logs."""

from __future__ import annotations

import json

import pytest

from iriai.model.problem import ExitCode
from iriai.sim.runs.policy_check import check_in_worlds, check_on_log, generated_logs
from tests.cli.shell import Shell
from tests.support.shared import ROOT

EXAMPLES = ["fifo.py:Fifo", "easy.py:Easy", "shortest.py:Shortest"]
HOPEFUL = """
from iriai.policy.api import Start
class Hopeful:
    def plan(self, view, now):
        for job in view.queue():
            yield Start(job.id, view.machines[0].name)
"""
LAZY = """
class Hopeful:
    def plan(self, view, now):
        return []
"""


@pytest.fixture
def shell(capsys):
    return Shell(capsys)


@pytest.fixture
def write(tmp_path):
    def write(text):
        (tmp_path / "mine.py").write_text(text)
        return f"{tmp_path}/mine.py:Hopeful"

    return write


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_are_good(name):
    policy = f"{ROOT}/examples/{name}"
    runs = list(check_in_worlds(policy, range(1, 21)))
    assert len(runs) > 10
    assert [run for run in runs if not run.is_good] == []
    assert sum(run.jobs for run in runs) > 100


def test_the_queue_of_the_night_is_good_where_night_comes_soon(write):
    text = (ROOT / "examples/night_queue.py").read_text()
    text = text.replace("time(20), time(7)", "time(8, 3), time(12)").replace("= None", "= UTC")
    policy = write(text).replace("Hopeful", "NightQueue")
    runs = list(check_in_worlds(policy, range(1, 31)))
    assert [run for run in runs if not run.is_good] == []


@pytest.mark.soak
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_are_good_in_many_worlds(name):
    runs = check_in_worlds(f"{ROOT}/examples/{name}", range(1, 1000))
    assert [run for run in runs if not run.is_good] == []


def test_easy_waits_on_a_log_as_the_built_in_policy_does():
    for log in generated_logs(1):
        alone, _ = check_on_log(f"{ROOT}/examples/easy.py:Easy", log)
        assert alone.is_good
        assert alone.mean_wait_s == pytest.approx(alone.built_in_mean_wait_s)


def test_a_policy_that_overbooks_fails_with_its_line_and_what_would_do(shell, write):
    said = shell("policy", "check", write(HOPEFUL), "--seeds", "3")
    assert said.code == 1
    assert "mine.py, line 6: " in said.out
    assert "it fits on" in said.out
    assert "Traceback" not in said.err


def test_a_policy_that_starts_nothing_fails(shell, write):
    said = shell("--json", "policy", "check", write(LAZY), "--seeds", "2")
    assert said.code == 1
    document = json.loads(said.out)
    whats = [run["what"] for run in document["runs"]]
    assert any("never end" in what for what in whats)
    assert any("deadlock" in what for what in whats)


def test_a_log_is_replayed(shell, tmp_path):
    log = tmp_path / "log.swf"
    shell("simulate", "--generate", "poisson", "--jobs", "20", "--write-log", str(log))
    policy = f"{ROOT}/examples/fifo.py:Fifo"
    said = shell("--json", "policy", "check", policy, str(log), "--seeds", "0")
    assert said.code == 0
    document = json.loads(said.out)
    assert [run["is_good"] for run in document["runs"]] == [True, True]
    assert document["worlds"] == document["failed"] == 0


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (("mine.py",), ExitCode.NOT_FOUND, "no installed package brings a policy 'mine.py'"),
        (("/nowhere.py:Mine",), ExitCode.NOT_FOUND, "there is no file /nowhere.py"),
        ((f"{ROOT}/examples/fifo.py:Lifo",), ExitCode.USAGE, "no class Lifo"),
        ((f"{ROOT}/examples/fifo.py:Fifo", "/no.swf"), ExitCode.NOT_FOUND, "no.swf"),
        ((f"{ROOT}/examples/fifo.py:Fifo", "--seeds", "-1"), ExitCode.USAGE, "--seeds"),
        ((), ExitCode.USAGE, "FILE.py:CLASS"),
    ],
)
def test_what_cannot_be_checked_is_refused(shell, words, code, what):
    said = shell("policy", "check", *words)
    assert said.code == code
    assert what in said.err
