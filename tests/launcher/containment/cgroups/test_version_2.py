"""Controllers of version 2 on files like the kernel's, where no kernel here has them."""

import os
from pathlib import Path

import pytest

from iriai.launcher.containment.cgroups.controllers import CpuAccount, CpuShares, MemoryV2, Pids


@pytest.fixture
def group(tmp_path: Path) -> Path:
    contents = {
        "cpu.weight": "100\n",
        "cpu.stat": "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n",
        "memory.peak": "1048576\n",
        "memory.max": "max\n",
        "memory.swap.max": "max\n",
        "memory.oom.group": "0\n",
        "memory.events": "low 0\nhigh 0\nmax 4\noom 1\noom_kill 2\n",
        "pids.max": "max\n",
        "pids.current": "2\n",
        "pids.events": "max 5\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def test_weight_follows_cpus(group: Path):
    shares = CpuShares(str(group), version=2)
    shares.set_cpus(4)
    assert (group / "cpu.weight").read_text().startswith("400")
    shares.set_cpus(500)
    assert (group / "cpu.weight").read_text().startswith("10000")


def test_processor_time_counts_from_the_last_reset(group: Path):
    account = CpuAccount(str(group), version=2)
    assert account.cpu_s() == 0
    (group / "cpu.stat").write_text("usage_usec 1750000\n")
    assert account.cpu_s() == pytest.approx(0.25)
    account.reset()
    assert account.cpu_s() == 0
    account.close()


def test_memory_is_limited_with_swap_and_as_a_whole(group: Path):
    memory = MemoryV2(str(group))
    assert (group / "memory.oom.group").read_text().startswith("1")
    memory.set_limit(4096)
    assert (group / "memory.max").read_text().startswith("4096")
    assert (group / "memory.swap.max").read_text().startswith("0")
    (group / "memory.events").write_text("oom 2\noom_kill 5\n")
    assert memory.kills() == 3
    memory.set_limit(0)
    assert (group / "memory.max").read_text().startswith("max")
    memory.close()


def test_a_kernel_whose_peak_cannot_be_reset_is_not_used(group: Path):
    os.unlink(group / "memory.peak")
    with pytest.raises(FileNotFoundError):
        MemoryV2(str(group))


def test_processes_are_limited_and_counted(group: Path):
    count = Pids(str(group))
    assert count.count() == 2
    count.set_limit(7)
    assert (group / "pids.max").read_text().startswith("7")
    count.reset()
    (group / "pids.events").write_text("max 9\n")
    assert count.refusals() == 4
    count.close()
