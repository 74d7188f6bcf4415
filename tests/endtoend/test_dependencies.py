"""Jobs after others, throttles, alterations and stories, by the command line on a real machine."""

from __future__ import annotations

import json

import pytest

from iriai.model.problem import ExitCode
from tests.endtoend.installation import Installation, installed
from tests.support.waiting import until

CONFIGURATION = """
[machine]
cpus = 4
memory = "1G"
"""


@pytest.fixture(scope="module")
def machine(person):
    with installed(person, CONFIGURATION) as installation:
        yield installation


def said(machine: Installation, *words: str, code: int = 0) -> str:
    """What a command prints, without the last newline; it ends with `code`."""
    done = machine.call(*words, cwd=machine.work)
    assert done.returncode == code, done.stderr
    return (done.stdout or done.stderr).removesuffix("\n")


def crash(machine: Installation) -> None:
    """The daemon dies, and another one is there."""
    machine.kill("daemon")
    until(machine.runs_tasks, "the next daemon")


def submit(machine: Installation, *words: str) -> str:
    return said(machine, "submit", *words)


def test_a_pipeline_runs_in_its_order_and_what_can_never_be_is_cancelled(machine):
    first = submit(machine, "--hold", "--array", "1-3", "--", "sh", "-c", "echo one >> order")
    second = submit(machine, "--after", f"ok:{first}", "--", "sh", "-c", "echo two >> order")
    third = submit(machine, "--after", f"any:{second}.0", "--", "sh", "-c", "echo three >> order")
    sorry = submit(machine, "--after", f"fail:{first}", "--", "sh", "-c", "echo never >> order")
    after_sorry = submit(machine, "--after", f"ok:{sorry}", "--", "true")
    dry = said(machine, "submit", "--dry-run", "--after", f"ok:{first}", "--", "true")
    assert f"it waits for other jobs to end: needs {first} to complete" in dry
    assert said(machine, "why", second).startswith(f"{second} is queued: it waits for other jobs")
    said(machine, "release", first)
    said(machine, "wait", third)
    assert (machine.work / "order").read_text().split() == ["one", "one", "one", "two", "three"]
    text = said(machine, "wait", sorry, after_sorry, code=130)
    assert text.splitlines() == [
        f"{sorry}: cancelled (dependency {first} completed)",
        f"{after_sorry}: cancelled (dependency {sorry} was cancelled)",
    ]
    assert f"dependency {first} completed" in said(machine, "show", sorry)


def test_those_who_wait_are_not_forgotten_by_a_crash(machine):
    first = submit(machine, "--hold", "--", "true")
    others = [submit(machine, "--after", f"ok:{first}", "--", "true") for _ in range(3)]
    sorry = submit(machine, "--after", f"fail:{first}", "--", "true")
    said(machine, "release", first)
    crash(machine)
    said(machine, "wait", first)
    crash(machine)
    said(machine, "wait", *others)
    said(machine, "wait", sorry, code=130)


def test_what_ended_long_ago_is_looked_up(machine):
    first = submit(machine, "--array", "1-2", "--", "sh", "-c", "exit $((IRIAI_TASK_ID - 1))")
    said(machine, "wait", first, code=1)
    crash(machine)
    said(machine, "wait", submit(machine, "--after", f"fail:{first},{first}.2", "--", "true"))
    said(machine, "wait", submit(machine, "--after", f"ok:{first}.1", "--", "true"))
    refusal = machine.call("submit", "--after", f"ok:{first}", "--", "true", cwd=machine.work)
    assert refusal.returncode == ExitCode.REFUSED
    assert f"{first} ended failed, so ok:{first} can never hold" in refusal.stderr


@pytest.mark.parametrize(
    ("code", "words", "line"),
    [
        (
            ExitCode.NOT_FOUND,
            "there is no job",
            ("submit", "--after", "ok:{home}-9999", "id"),
        ),
        (
            ExitCode.NOT_FOUND,
            "not a job of this home",
            ("submit", "--after", "ok:zzz-1", "--", "id"),
        ),
        (ExitCode.NOT_FOUND, "there is no task", ("submit", "--after", "ok:{held}.7", "--", "id")),
        (ExitCode.USAGE, "not a dependency", ("submit", "--after", "{held}", "--", "id")),
        (ExitCode.USAGE, "no change is given", ("alter", "{held}")),
        (ExitCode.USAGE, "only arrays", ("alter", "{held}", "--array-throttle", "3")),
        (ExitCode.USAGE, "altered alone", ("alter", "{held}.0", "--time", "1h")),
        (ExitCode.USAGE, "held alone", ("hold", "{held}.0")),
        (ExitCode.USAGE, "not between 1 and", ("alter", "{held}", "-p", "0")),
        (ExitCode.REFUSED, "wait for itself", ("alter", "{held}", "--after", "any:{held}")),
        (ExitCode.REFUSED, "no machine has", ("alter", "{held}", "--cpus", "5")),
        (ExitCode.NOT_FOUND, "there is no job", ("alter", "{home}-9999", "--time", "1h")),
        (ExitCode.NOT_FOUND, "there is no job", ("story", "{home}-9999")),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else None,
)
def test_what_is_wrong_is_said_in_one_line_and_nothing_changes(machine, held, code, words, line):
    before = said(machine, "show", held)
    home = held.rpartition("-")[0]
    done = machine.call(*(word.format(held=held, home=home) for word in line), cwd=machine.work)
    assert done.returncode == code
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert said(machine, "show", held) == before


@pytest.fixture(scope="module")
def held(machine):
    return submit(machine, "--hold", "--", "true")


def test_a_throttled_array_is_altered_on_the_way_and_tells_its_story(machine):
    script = "echo s >> at; sleep 0.4; echo e >> at"
    job = submit(machine, "--array", "1-8%2", "--hold", "--", "sh", "-c", script)
    assert said(machine, "alter", job, "--name", "slow", "--time", "10m").splitlines() == [
        f"{job}: name sh -> slow",
        f"{job}: time limit none -> 10m00s",
    ]
    said(machine, "release", job)
    said(machine, "wait", job)
    running, most = 0, 0
    for word in (machine.work / "at").read_text().split():
        running += 1 if word == "s" else -1
        most = max(most, running)
    assert most == 2
    detail = json.loads(said(machine, "show", "--json", job))
    assert (detail["row"]["name"], detail["time_limit_s"], detail["throttle"]) == ("slow", 600, 2)
    rows = json.loads(said(machine, "story", "--json", job))["rows"]
    told = [row["what"] for row in rows]
    assert told[:4] == ["submitted", "altered", "altered", "released"]
    assert told[-1] == "finished"
    assert [row["by"] for row in rows[:4]] == [detail["row"]["user"]] * 4


def test_an_exclusive_task_runs_alone(machine):
    first = submit(machine, "--time", "20s", "--", "sleep", "0.5")
    whole = submit(
        machine, "--exclusive", "--time", "20s", "--", "sh", "-c", "echo $OMP_NUM_THREADS"
    )
    said(machine, "wait", first, whole)
    assert (machine.work / f"iriai-{whole}.0.out").read_text() == "4\n"
    ended = json.loads(said(machine, "show", "--json", first))["attempts"][0]["ended_wall_s"]
    began = json.loads(said(machine, "show", "--json", whole))["attempts"][0]["started_wall_s"]
    assert began >= ended
