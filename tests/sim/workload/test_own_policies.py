"""Policies from files in the simulator: the example, and everything they may not do."""

from __future__ import annotations

import pytest

from iriai.broker.scheduling import plan_policy
from iriai.model.ids import Account
from iriai.model.problem import ExitCode, Refused
from iriai.policy.policy_error import PolicyError
from iriai.sim.workload.log import Log, LogJob
from iriai.sim.workload.replay import replay
from iriai.sim.workload.settings import ReplaySettings
from tests.cli.shell import Shell
from tests.sim.logs import as_numbers, coincidental, parallel
from tests.sim.naive import schedule
from tests.support.shared import ROOT

FIFO = f"{ROOT}/examples/fifo.py:Fifo"
EASY = f"{ROOT}/examples/easy.py:Easy"
SHORTEST = f"{ROOT}/examples/shortest.py:Shortest"
ANN = Account("g1", "u1")
TWO_JOBS = Log("two", 4, [LogJob(1, 0, 10, 3, 10, ANN), LogJob(2, 5, 10, 3, 10, ANN)])


def starts(log, policy, **settings):
    records = replay(log, ReplaySettings(policy=policy, is_checked=True, **settings))
    return {record.job.number: record.start_s for record in records}


@pytest.mark.parametrize("name", ["fifo.py", "easy.py", "shortest.py"])
def test_the_examples_are_short(name):
    assert len((ROOT / "examples" / name).read_text().splitlines()) <= 40


def test_the_example_of_easy_is_easy_backfill():
    for seed in range(150):
        log = coincidental(seed)
        assert starts(log, EASY) == schedule(as_numbers(log), log.processors, "easy"), seed


def test_shortest_starts_the_shortest_that_fits():
    jobs = [LogJob(1, 0, 10, 4, 10, ANN), LogJob(2, 1, 9, 4, 9, ANN), LogJob(3, 2, 5, 4, 5, ANN)]
    assert starts(Log("three", 4, jobs), SHORTEST) == {1: 0, 3: 10, 2: 15}


def test_who_has_waited_for_a_day_is_not_passed():
    long = LogJob(1, 0, 90_000, 3, 90_000, ANN)
    wide = LogJob(2, 1, 10, 4, 10, ANN)
    late = LogJob(3, 89_000, 10, 1, 10, ANN)
    assert starts(Log("patient", 4, [long, wide, late]), SHORTEST) == {1: 0, 2: 90_000, 3: 90_010}


@pytest.mark.parametrize("policy", [EASY, SHORTEST])
def test_the_examples_start_every_job_on_many_machines(policy):
    for seed in range(30):
        log, machines = parallel(seed)
        found = starts(log, policy, machines=len(machines))
        assert found.keys() == {job.number for job in log.jobs}


def test_the_example_is_first_come_first_served():
    for seed in range(150):
        log = coincidental(seed)
        assert starts(log, FIFO) == schedule(as_numbers(log), log.processors, "fcfs")
        assert starts(log, FIFO) == starts(log, "fcfs")


def test_it_is_on_many_machines_too():
    for seed in range(50):
        log, machines = parallel(seed)
        count = len(machines)
        assert starts(log, FIFO, machines=count) == starts(log, "fcfs", machines=count)


@pytest.mark.parametrize("order", ["lottery", "stride", "paper000"])
def test_a_plan_takes_jobs_in_any_order(order):
    for seed in range(20):
        for policy in (FIFO, "conservative"):
            log = coincidental(seed)
            assert set(starts(log, policy, order=order)) == {job.number for job in log.jobs}


@pytest.fixture
def write(tmp_path):
    def write(*body):
        lines = ["from iriai.policy.placement.policy_api import PlannedStart, Start", "class Mine:"]
        lines += ["    def plan(self, view, now):", *(f"        {line}" for line in body)]
        (tmp_path / "mine.py").write_text("\n".join(lines) + "\n")
        return f"{tmp_path}/mine.py:Mine"

    return write


ALL = "for job in view.queue():"
ANEW = "while True:"


@pytest.mark.parametrize(
    ("body", "line", "what"),
    [
        (("raise KeyError('x')",), 4, "KeyError: 'x'"),
        ((ALL, "    yield Start(job.id, 'machine')"), 5, "log-2 needs 3 cpus; machine has 1 cpus"),
        ((ALL, "    yield Start(job.id, 'moon')"), 5, "there is no machine 'moon'"),
        ((ALL, "    yield Start('log-1', 'machine')"), 5, "no job 'log-1' is waiting"),
        ((ALL, "    yield PlannedStart(job.id, 'machine', float('nan'))"), 5, "nan is not a time"),
        ((ALL, "    yield job.id"), 5, "is not a decision; use those of iriai.policy.api"),
        ((ALL, "    job.free += 1", "    yield 1"), 5, "AttributeError"),
    ],
)
def test_what_a_policy_may_not_do_is_refused_with_its_line(write, body, line, what):
    with pytest.raises(PolicyError) as refused:
        starts(TWO_JOBS, write(*body))
    assert f"mine.py, line {line}: " in refused.value.message
    assert what in refused.value.message


def test_a_policy_that_decides_without_end_is_ended(write, monkeypatch):
    monkeypatch.setattr(plan_policy, "DECISIONS_MAX", 1_000)
    policy = write(
        "first = next(view.queue()).id",
        "while True:",
        "    yield PlannedStart(first, 'machine', 1.0)",
    )
    with pytest.raises(PolicyError, match=r"line 6: more than 1,000 decisions at once"):
        starts(TWO_JOBS, policy)


def test_a_list_of_decisions_will_do(write):
    policy = write("return [Start(job.id, 'machine') for job in view.queue()][:1]")
    log = Log("one", 4, [LogJob(1, 0, 10, 3, 10, ANN)])
    assert starts(log, policy) == {1: 0}


def test_something_else_than_decisions_is_refused(write):
    with pytest.raises(PolicyError, match="not iterable"):
        starts(TWO_JOBS, write("return 7"))


def test_a_policy_that_leaves_jobs_waiting_is_told_so(write):
    with pytest.raises(Refused, match="deadlock: 2 jobs are waiting"):
        starts(TWO_JOBS, write("return []"))


def test_a_policy_may_ask_to_be_woken(tmp_path):
    (tmp_path / "late.py").write_text(
        "from iriai.policy.placement.policy_api import Start\n"
        "class Late:\n"
        "    wake_s = None\n"
        "    def plan(self, view, now):\n"
        "        self.wake_s = 100.0 if now.steady_s < 100 else None\n"
        "        if now.steady_s >= 100:\n"
        "            for job in view.queue():\n"
        "                if job.resources.fits_in(view.machines[0].free):\n"
        "                    yield Start(job.id, view.machines[0].name)\n"
    )
    assert starts(TWO_JOBS, f"{tmp_path}/late.py:Late") == {1: 100, 2: 110}


def test_a_machine_shows_what_it_runs_and_when_something_fits(write):
    policy = write(
        "machine = view.machines[0]",
        "runs = [(each.resources.cpus, each.end_s) for each in machine.claimed()]",
        ALL,
        "    if job.id.number == 2 and now.steady_s == 5:",
        "        assert runs == [(3, 10.0)], runs",
        "        assert machine.earliest_s(job.resources) == 10.0",
        "        assert (machine.free.cpus, machine.capacity.cpus, machine.ended) == (1, 4, 0)",
        "        return",
        "    yield Start(job.id, machine.name)",
    )
    assert starts(TWO_JOBS, policy) == {1: 0, 2: 10}


def test_the_command_ends_with_the_line_and_without_a_traceback(capsys, write):
    shell = Shell(capsys)
    policy = write("raise ValueError('no idea')")
    said = shell("simulate", "--generate", "poisson", "--jobs", "5", "--policy", policy)
    assert said.code == ExitCode.REFUSED
    assert "mine.py, line 4: ValueError: no idea; correct the policy" in said.err
    assert "Traceback" not in said.err


@pytest.mark.long
def test_a_mistake_in_a_sweep_comes_from_its_process_with_its_line(capsys, write):
    words = ("simulate", "--generate", "poisson", "--jobs", "5", "--workers", "2")
    said = Shell(capsys)(*words, "--compare", f"easy,{write('raise ValueError')}")
    assert said.code == ExitCode.REFUSED
    assert "mine.py, line 4: ValueError" in said.err
