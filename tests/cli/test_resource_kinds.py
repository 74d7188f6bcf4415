"""A new kind of resource is a row of a table and its sensor (and a guide)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import iriai
from iriai.host import sensors
from iriai.model.resources import KINDS
from tests.architecture.source import ROOT

ROW = 'ResourceKind("nvme", "bytes", "Room on fast disks.", "nvme_bytes", 0.25)'
SENSOR = """

def nvme_bytes() -> int:
    return 3 << 30
"""


def test_each_kind_is_in_the_guide_and_has_its_sensor():
    guide = (ROOT / "docs" / "guide" / "resource-kinds.md").read_text()
    for kind in KINDS:
        assert f"\n| {kind.name} | {'bytes' if kind.unit == 'bytes' else 'pieces'} |" in guide
        assert getattr(sensors, kind.sensor)() >= 0


@pytest.mark.long
def test_a_row_and_a_sensor_make_a_kind(tmp_path: Path):
    copy = tmp_path / "iriai"
    shutil.copytree(iriai.__path__[0], copy, ignore=shutil.ignore_patterns("__pycache__"))
    table, sensors = copy / "model" / "resources.py", copy / "host" / "sensors.py"
    source = table.read_text()
    assert "KINDS = (CPUS, MEMORY, GPUS, DISK)" in source
    table.write_text(source.replace("GPUS, DISK)", f"GPUS, DISK, {ROW})"))
    sensors.write_text(sensors.read_text() + SENSOR)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/cli/new_kind.py"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
