"""What was printed and followed does not stay for ever."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iriai.daemon.tasks.spool import Spool, attempt_of
from iriai.daemon.tasks.spool_cleanup import drop_of_jobs, drop_of_others
from iriai.model.ids import AttemptId

OLD_S, NOW_S = 1000.0, 2000.0


def spooled(directory, *attempts: AttemptId) -> None:
    for attempt in attempts:
        for kind in ("out", "err"):
            path = Path(Spool(str(directory)).path(attempt, kind))
            path.write_text("printed")
            os.utime(path, (OLD_S, OLD_S))


def left(directory) -> set[str]:
    return {path.name for path in directory.iterdir()}


@pytest.mark.parametrize("home", ["ume", "ume-5", "a-1-2"])
def test_the_name_of_a_file_tells_whose_it_is(home):
    attempt = AttemptId(home, 12, 3, 4)
    assert attempt_of(Path(Spool("").path(attempt, "err")).name) == attempt


def test_what_a_job_printed_goes_and_nothing_else(tmp_path):
    spooled(tmp_path, AttemptId("ume", 1, 0, 1), AttemptId("ume", 1, 7, 2))
    kept = (AttemptId("ume", 11, 0, 1), AttemptId("ume-1", 1, 0, 1), AttemptId("take", 1, 0, 1))
    spooled(tmp_path, *kept)
    (tmp_path / "ume-1.notes").write_text("somebody's")
    assert drop_of_jobs(str(tmp_path), "ume", {1, 2}) == 4
    spool = Spool("")
    names = {Path(spool.path(each, kind)).name for each in kept for kind in ("out", "err")}
    assert left(tmp_path) == names | {"ume-1.notes"}


def test_what_tasks_of_other_homes_printed_goes_when_it_is_old(tmp_path):
    own, runs = AttemptId("ume", 1, 0, 1), AttemptId("take", 1, 0, 1)
    fresh, old = AttemptId("take", 2, 0, 1), AttemptId("take", 3, 0, 1)
    spooled(tmp_path, own, runs, fresh, old)
    for kind in ("out", "err"):
        os.utime(Spool(str(tmp_path)).path(fresh, kind), (NOW_S, NOW_S))
    assert drop_of_others(str(tmp_path), "ume", {runs}, NOW_S - 1) == 2
    assert {attempt_of(name) for name in left(tmp_path)} == {own, runs, fresh}


def test_nothing_stays_under_another_name(tmp_path):
    """Its user may write it while the task runs, and so give it a second name."""
    spool, elsewhere = tmp_path / "spool", tmp_path / "kept"
    spool.mkdir()
    attempt = AttemptId("ume", 1, 0, 1)
    spooled(spool, attempt)
    os.link(Spool(str(spool)).path(attempt, "out"), elsewhere)
    assert drop_of_jobs(str(spool), "ume", {1}) == 2
    assert elsewhere.stat().st_size == 0
