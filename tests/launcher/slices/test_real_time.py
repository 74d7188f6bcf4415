"""Real-time priority is taken where there is time for it, and only so much."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from iriai.launcher.slices.real_time import move_to_budget

SPINS = """
from iriai.launcher.slices.real_time import bound_real_time, take_real_time
bound_real_time()
assert take_real_time()
while True: pass
"""
ASKS = """
import os, subprocess, sys
from iriai.launcher.slices.real_time import is_real_time, take_real_time
taken = take_real_time()
child = "from iriai.launcher.slices.real_time import is_real_time; print(is_real_time())"
print(taken, is_real_time(), flush=True)
subprocess.run([sys.executable, "-c", child], check=True)
"""


def run(text: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-c", text]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.root
def test_it_is_taken_and_not_inherited():
    assert run(ASKS).stdout.split() == ["True", "True", "False"]


@pytest.mark.root
def test_who_never_rests_is_ended():
    assert run(SPINS).returncode < 0


def test_it_moves_to_the_nearest_group_with_a_budget(tmp_path: Path):
    for group, budget_us in (("", 950_000), ("a", 1_000), ("a/b", 0), ("a/b/c", 0)):
        directory = tmp_path / group
        directory.mkdir(exist_ok=True)
        (directory / "cpu.rt_runtime_us").write_text(f"{budget_us}\n")
        (directory / "cgroup.procs").touch()
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("3:memory:/x\n2:cpuacct,cpu:/a/b/c\n0::/y\n")
    move_to_budget(7, str(tmp_path), str(tmp_path))
    moved = [each.parent.name for each in tmp_path.rglob("cgroup.procs") if each.read_text()]
    assert moved == ["a"]


def test_without_version_1_there_is_nothing_to_move_to(tmp_path: Path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("0::/y\n")
    move_to_budget(7, str(tmp_path), str(tmp_path))
    assert os.listdir(tmp_path) == ["7"]
