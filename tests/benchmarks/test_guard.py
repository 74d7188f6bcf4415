"""The guard: what the product does is the same in each run, and a little more of it is red."""

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUARD = ROOT / "benchmarks" / "guard.py"
BURNING = "while True: pass"


@contextmanager
def load():
    """Keep all processors busy."""
    command = [sys.executable, "-c", BURNING]
    burning = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for each in burning:
            each.kill()
            each.wait()


def run(*words: object) -> subprocess.CompletedProcess:
    command = [sys.executable, str(GUARD), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def counted(*words: object) -> dict[str, dict[str, float]]:
    done = run("--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
def test_a_busy_machine_counts_the_same():
    quiet = counted("--only", "daemon")
    with load():
        assert counted("--only", "daemon") == quiet


@pytest.mark.soak
def test_ten_runs_beside_a_load_count_the_same():
    quiet = counted()
    with load():
        assert [differing(quiet, counted()) for _ in range(10)] == [{}] * 10


def differing(first, second):
    """The counts that are not the same, by case and name."""
    return {
        f"{case}.{name}": (count, second[case][name])
        for case, named in first.items()
        for name, count in named.items()
        if second[case][name] != count
    }


FAULTS = {
    "broker_pass": ("broker", "broker/core.py", "end_turn"),
    "launcher_task": ("launcher", "launcher/launcher.py", "turn"),
    "start_version": ("commands", "cli/main.py", "_run"),
}
"""By case: the module that counts it, and a function that does more."""
MORE = 0.05
TRIAL = 1_000


class Slowed:
    """A copy of the product in which one function begins with rounds of nothing."""

    def __init__(self, directory: Path, file: str, function: str) -> None:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src" / "iriai", directory / "iriai", ignore=ignored)
        self.directory = directory
        self._file = directory / "iriai" / file
        self._text = self._file.read_text()
        [found] = [
            node
            for node in ast.walk(ast.parse(self._text))
            if isinstance(node, ast.FunctionDef) and node.name == function
        ]
        self._first = found.body[1 if ast.get_docstring(found) else 0]

    def by(self, rounds: int) -> None:
        lines = self._text.splitlines(keepends=True)
        slow = f"for _ in range({rounds}): pass\n"
        lines.insert(self._first.lineno - 1, " " * self._first.col_offset + slow)
        self._file.write_text("".join(lines))


@pytest.mark.long
@pytest.mark.parametrize("case", FAULTS)
def test_five_in_a_hundred_more_is_red(stored, tmp_path: Path, case: str):
    module, file, function = FAULTS[case]
    words = "--source", tmp_path, "--only", module
    slowed = Slowed(tmp_path, file, function)
    tmp_path.chmod(0o755)
    before = counted(*words)
    assert not worse(stored, before, before)
    slowed.by(TRIAL)
    trial = counted(*words)[case]["opcodes"] - before[case]["opcodes"]
    slowed.by(round(TRIAL * MORE * before[case]["opcodes"] / trial))
    after = counted(*words)
    assert after[case]["opcodes"] / before[case]["opcodes"] == pytest.approx(1 + MORE, abs=0.002)
    assert (case, "opcodes") in worse(stored, before, after)


def worse(stored, before, after):
    """Case and name of the counts that are too high."""
    kept = stored.merged({}, before, may_rise=False)
    found = stored.changes(kept, after)
    return [(change.case, change.name) for change in found if change.is_too_much]


@pytest.fixture
def stored(monkeypatch):
    monkeypatch.syspath_prepend(str(GUARD.parent))
    from counts import stored

    yield stored
    for name in [each for each in sys.modules if each.split(".")[0] == "counts"]:
        del sys.modules[name]


def leaf() -> int:
    return os.getppid()


def calls(times: int) -> None:
    for _ in range(times):
        leaf()


@pytest.mark.parametrize("times", [1, 3])
def test_each_counter_counts_what_is_called_while_it_is_on(stored, times):
    from counts.counter import Counter

    counter = Counter()
    calls(times)
    with counter.on():
        calls(times)
        with counter.paused():
            calls(times)
    calls(times)
    counts = counter.counts
    assert counts["calls"] == 1 + times
    assert counts["system_calls"] == times
    assert counts["opcodes"] > 5 * times


def test_what_fell_is_stored_and_what_rose_needs_a_reason(stored, tmp_path):
    path = tmp_path / "python-3.11.toml"
    first = {"pass": {"calls": 100.0, "opcodes": 2000.0}}
    stored.write(path, stored.merged({}, first, may_rise=False))
    later = {"pass": {"calls": 90.0, "opcodes": 2200.0, "modules": 3.0}}
    stored.write(path, stored.merged(stored.read(path), later, may_rise=False))
    kept = stored.read(path)["pass"]
    assert kept == {"calls": (90.0, 90.0), "opcodes": (2000.0, 2000.0), "modules": (3.0, 3.0)}
    stored.write(path, stored.merged(stored.read(path), later, may_rise=True))
    assert stored.read(path)["pass"]["opcodes"] == (2200.0, 2000.0)


def test_each_stored_count_that_rose_has_a_line_that_says_why(stored):
    rises = tomllib.loads(stored.RISES.read_text()).get("rise", [])
    page = (ROOT / "docs" / "performance.md").read_text()
    for path in sorted(stored.FOLDER.glob("python-*.toml")):
        version = path.stem.removeprefix("python-")
        assert stored.unexplained(version, stored.read(path), rises) == []
    assert [rise for rise in rises if rise["why"] not in page] == []


def test_a_reason_explains_a_count_up_to_where_it_rose(stored, tmp_path):
    kept = {"pass": {"calls": stored.Stored(110.0, 100.0), "opcodes": stored.Stored(9.0, 9.0)}}
    assert stored.unexplained("3.11", kept, []) == ["pass.calls"]
    file = tmp_path / "rises.toml"
    stored.note_rises(file, "3.11", [stored.Change("pass", "calls", 100.0, 110.0)], 'a "reason"')
    rises = tomllib.loads(file.read_text())["rise"]
    assert rises[0]["why"] == 'a "reason"'
    assert stored.unexplained("3.11", kept, rises) == []
    assert stored.unexplained("3.12", kept, rises) == ["pass.calls"]
    higher = {"pass": {"calls": stored.Stored(111.0, 100.0)}}
    assert stored.unexplained("3.11", higher, rises) == ["pass.calls"]


def test_a_count_is_too_high_by_more_than_three_in_a_hundred(stored):
    kept = {"pass": {"calls": stored.Stored(100.0, 100.0), "statements": stored.Stored(0.0, 0.0)}}
    assert not any(c.is_too_much for c in stored.changes(kept, {"pass": {"calls": 103.0}}))
    [change] = stored.changes(kept, {"pass": {"calls": 104.0}})
    assert change.is_too_much
    assert str(change) == "pass: calls rose from 100 to 104 (+4.0 %)"
    [change] = stored.changes(kept, {"pass": {"statements": 0.5}})
    assert change.is_too_much


def test_what_rose_is_said_with_what_to_do(guard, stored, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(stored, "FOLDER", tmp_path)
    counts = {"pass": {"calls": 100.0}}
    assert guard.compare(counts) == 0
    assert "nothing was compared" in capsys.readouterr().out
    assert guard.store(counts, "") == 0
    assert guard.compare(counts) == 0
    assert guard.compare({"pass": {"calls": 90.0}}) == 0
    assert "Store what fell" in capsys.readouterr().out
    worse = {"pass": {"calls": 105.0}}
    for check in (guard.compare, lambda counts: guard.store(counts, "")):
        assert check(worse) == 1
        said = capsys.readouterr().err
        assert "pass: calls rose from 100 to 105 (+5.0 %)" in said
        assert "--functions" in said
        assert "--why" in said
    assert guard.compare(worse) == 1


@pytest.fixture
def guard(stored):
    import guard

    yield guard
    del sys.modules["guard"]


def test_a_reason_is_for_storing_and_another_iriai_has_to_be_there(tmp_path):
    assert "--why is the reason for --store" in run("--why", "x").stderr
    assert f"there is no iriai in {tmp_path}" in run("--source", tmp_path).stderr
