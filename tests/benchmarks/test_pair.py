"""Two commits are compared in turns, each round by the ratio of its own pair."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def pair(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import pair

    yield pair
    ours = ("pair", "guard", "harness", "counts", "limit")
    for name in [each for each in sys.modules if each.split(".")[0] in ours]:
        del sys.modules[name]


class FakeSide:
    def __init__(self, rates, order, name):
        self.rates = iter(rates)
        self.order = order
        self.name = name

    def measure(self, name, count):
        self.order.append(self.name)
        return {name: next(self.rates), "daemon_ms": 1.0}


def test_the_order_is_swapped_each_round_and_ratios_are_of_one_round(pair):
    order = []
    base = FakeSide([100.0, 50.0, 200.0], order, "base")
    head = FakeSide([90.0, 45.0, 220.0], order, "head")

    pairs = pair.compare((base, head), {"array_per_s": 10}, rounds=3)

    assert order == ["base", "head", "head", "base", "base", "head"]
    found = pair.summary(pairs["array_per_s"])
    assert (found["ratio"], found["ratio_min"], found["ratio_max"]) == (0.9, 0.9, 1.1)
    assert pair.summary(pairs["array_daemon_ms"])["ratio"] == 1.0


def test_a_figure_that_is_nothing_has_no_ratio(pair):
    assert pair.summary([(0.0, 1.0)]) == {}


# --- whole programs ------------------------------------------------------------------------------


class FakeProgramSide:
    def __init__(self, order, name, figures):
        self.order = order
        self.name = name
        self.answers = iter(figures)

    def figures(self, program, *, quick):
        self.order.append((self.name, program.file))
        return next(self.answers)


def test_whole_programs_take_turns_as_jobs_do(pair):
    order = []
    base = FakeProgramSide(order, "base", [{"us": 10.0}, {"us": 20.0}])
    head = FakeProgramSide(order, "head", [{"us": 5.0}, {"us": 5.0}])
    [program] = pair.PROGRAMS["match"]

    pairs = pair.compare_programs((base, head), [("match", program)], 2)

    assert [name for name, _ in order] == ["base", "head", "head", "base"]
    assert pairs == {"match_us": [(10.0, 5.0), (20.0, 5.0)]}


MEASURING_SPEED = {
    "depth", "footprint", "latency", "match", "no_head", "simulation", "start", "streams",
    "throughput",
}  # fmt: skip
OTHERS = {
    "abuse", "flame_graphs", "gang", "gossip_paper", "guard", "house", "large_site", "limit",
    "limits", "live_cluster", "live_gossip", "live_shares", "live_throughput", "mpi", "pair",
    "gang_sim", "harvest", "owner", "paper_000", "parallel_sim", "queues", "reservations",
    "suspend",
}  # fmt: skip


def test_each_program_that_measures_speed_is_paired(pair):
    assert set(pair.PROGRAMS) == MEASURING_SPEED
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == MEASURING_SPEED | OTHERS
    for programs in pair.PROGRAMS.values():
        for program in programs:
            assert (BENCHMARKS / program.file).exists()


def test_a_figure_that_is_not_in_the_answer_is_named(pair):
    from harness.pair_programs import read_figures

    [program] = pair.PROGRAMS["latency"]
    answer = dict.fromkeys(program.figures.values(), 3.5)
    assert read_figures(program, json.dumps(answer), "it") == answer
    with pytest.raises(pair.PairProblem, match="it has not measured p99_ms: it is None"):
        read_figures(program, json.dumps(answer | {"p99_ms": None}), "it")
    with pytest.raises(pair.PairProblem, match="it has not ended with a JSON object"):
        read_figures(program, "Killed\n", "it")


def test_a_program_that_cannot_measure_a_commit_is_told(pair, monkeypatch, tmp_path):
    from harness.commit import Commit

    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    commit = Commit("HEAD")
    commit.python = broken
    [program] = pair.PROGRAMS["latency"]
    with pytest.raises(pair.PairProblem, match=r"latency\.py of today with commit .* with 3"):
        pair.ProgramSide(commit).figures(program, quick=True)


# --- what is asked wrongly -----------------------------------------------------------------------


def refused(*words, **environment):
    """What `pair.py` says instead of figures, and its exit code."""
    command = [sys.executable, str(BENCHMARKS / "pair.py"), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | environment
    )
    assert done.stdout == "", "a figure, of what?"
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.long
def test_a_commit_that_is_not_there_is_named():
    code, words = refused("no-such-commit")
    assert code == 1
    assert "this repository has no commit no-such-commit" in words


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["HEAD", "--programs", "nonsense"],
            "no program is called nonsense; there are: throughput",
        ),
        (["HEAD", "--calls", "--counts"], "which measure different things"),
        (["HEAD", "--rounds", "0"], "--rounds must be at least 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(words, problem):
    code, said = refused(*words)
    assert code == 2
    assert problem in said


@pytest.mark.long
def test_a_commit_that_does_not_build_gives_no_figure(tmp_path):
    """A make that fails, as for a commit whose environment cannot be made."""
    make = tmp_path / "bin" / "make"
    make.parent.mkdir()
    make.write_text("#!/bin/sh\necho no rule >&2\nexit 2\n")
    make.chmod(0o755)
    path = f"{make.parent}:{os.environ['PATH']}"
    for _ in range(2):  # what was left of the first try is no environment
        code, words = refused("HEAD", PATH=path, XDG_CACHE_HOME=str(tmp_path))
        assert code == 1
        assert "no rule" in words
        assert "cannot be built" in words


@pytest.mark.long
def test_an_environment_that_runs_another_iriai_gives_no_figure(tmp_path):
    from harness.commit import Commit

    name = Commit("HEAD").name
    directory = tmp_path / "iriai" / "pair" / name
    (directory / ".venv" / "bin").mkdir(parents=True)
    (directory / "pair-complete").touch()
    python = directory / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    code, words = refused("HEAD", XDG_CACHE_HOME=str(tmp_path))
    assert code == 1
    assert f"does not run the iriai of commit {name[:10]}" in words


def test_counts_of_a_commit_that_the_guard_does_not_fit_are_no_figures(pair, monkeypatch):
    from harness.commit import Commit

    def cannot(cases, source):
        raise SystemExit("the case 'daemon' could not be measured")

    monkeypatch.setattr(pair.guard, "measure_all", cannot)
    with pytest.raises(pair.PairProblem, match="the case 'daemon' could not be measured"):
        pair.compare_counts(Commit("HEAD"), Commit("HEAD"))
