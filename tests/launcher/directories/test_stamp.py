"""What a task changed about its directory is noticed by the directory's stamp."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from iriai.launcher.directories.stamp import COARSE_STEP_S, Stamp
from iriai.system.clock import steady_s

CHANGES: dict[str, Callable[[Path], object]] = {
    "a file": lambda path: (path / "a").touch(),
    "a file that is gone": lambda path: ((path / "a").touch(), (path / "a").unlink()),
    "the mode": lambda path: path.chmod(0o755),
    "the mode and back": lambda path: (path.chmod(0o755), path.chmod(0o700)),
    "its times set back": lambda path: (
        (path / "a").touch(),
        os.utime(path, ns=(0, 0)),
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("age_s", [0.0, 2 * COARSE_STEP_S])
def test_each_change_is_noticed(tmp_path: Path, change: Callable[[Path], object], age_s: float):
    path = tmp_path / "own"
    path.mkdir(0o700)
    stamp = Stamp(os.open(path, os.O_RDONLY))
    assert stamp.is_untouched(steady_s() + age_s)
    changed_ns = path.stat().st_ctime_ns
    while os.stat(path).st_ctime_ns == changed_ns:  # the clock of stamps has steps
        change(path)
    assert not stamp.is_untouched(steady_s() + age_s)


@pytest.mark.parametrize("change", [CHANGES["a file"], CHANGES["the mode"]], ids=["file", "mode"])
def test_a_change_within_the_step_of_the_stamp_is_noticed(
    tmp_path: Path, change: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "own"
    path.mkdir(0o700)
    stamp = Stamp(os.open(path, os.O_RDONLY))
    change(path)
    monkeypatch.setattr(stamp, "_changed_ns", path.stat().st_ctime_ns)
    assert not stamp.is_untouched(steady_s())
