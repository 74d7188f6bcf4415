"""The process that switches, with plain files for freezers: each keeps all that was written."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from iriai.launcher.containment.container import FreezerFile
from iriai.launcher.pmi.pmi_sockets import Watch
from iriai.launcher.slices import switcher_process
from iriai.launcher.slices.precision import KEPT, Lateness, switching_row
from iriai.launcher.slices.switch_messages import Switched
from iriai.launcher.slices.switcher_process import Switcher
from iriai.launcher.system.timers import Timers
from iriai.model.time_slices import Cycles, SliceCycle
from iriai.system.clock import steady_s
from tests.launcher.harness import is_running, until

QUANTUM_S = 0.1
FROZEN, THAWED = "F", "T"


class Loop:
    """A launcher's loop with nothing but this process, and files in a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.timers = Timers()
        self._handlers: dict[int, Callable[[], None]] = {}
        watch = Watch(self._handlers.__setitem__, self._handlers.pop)
        self.switcher = Switcher(watch, self.timers, 2)

    def file(self, name: str) -> FreezerFile:
        return FreezerFile(str(self.folder / name), FROZEN.encode(), THAWED.encode())

    def lend(self, name: str, mask: int) -> str:
        file = self.file(name)
        Path(file.path).touch()
        self.switcher.lend(file, mask)
        return file.path

    def follow(self, **more: object) -> None:
        cycle = SliceCycle(QUANTUM_S, 2, steady_s())._replace(**more)
        self.switcher.follow(Cycles(cycle))
        self.switcher.flush()

    def turn(self) -> None:
        for fd in select.select(list(self._handlers), [], [], 0)[0]:
            self._handlers[fd]()
        assert self.timers.run_due(steady_s()) == []
        if self.switcher.is_dirty:
            self.switcher.flush()

    def until(self, condition: Callable[[], object], what: str) -> None:
        def holds() -> object:
            self.turn()
            return condition()

        until(holds, what)

    def written(self, name: str) -> str:
        return (self.folder / name).read_text()

    def switches(self, *names: str) -> None:
        """See these written to again and again, frozen and thawed in turns."""
        before = {name: len(self.written(name)) for name in names}
        more = lambda name: self.written(name)[before[name] :]  # noqa: E731
        self.until(lambda: all(len(more(name)) >= 4 for name in names), "switches")
        for name in names:
            assert more(name)[:4] in (2 * (FROZEN + THAWED), 2 * (THAWED + FROZEN))


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    loop = Loop(tmp_path)
    yield loop
    pid = loop.switcher.pid
    loop.switcher.close()
    with suppress(ProcessLookupError, ChildProcessError):
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_there_is_none_before_anything_is_lent(loop: Loop):
    loop.follow()
    assert loop.switcher.pid == 0


def test_groups_are_switched_in_turns(loop: Loop):
    loop.lend("one", 1)
    loop.lend("two", 2)
    loop.follow()
    loop.switches("one", "two")
    assert loop.written("one")[0] != loop.written("two")[0]


def test_what_is_withdrawn_is_written_to_no_more(loop: Loop):
    path = loop.lend("one", 1)
    loop.lend("two", 2)
    loop.follow()
    loop.switches("one", "two")
    loop.switcher.withdraw(path)
    before = loop.written("one")
    loop.switches("two")
    assert loop.written("one") == before
    loop.switcher.withdraw(path)  # again: it is not there
    Path(path).unlink()
    loop.lend("one", 3)
    loop.until(lambda: loop.written("one") == THAWED, "its turn in both rows")


def test_one_that_cannot_be_opened_keeps_no_other_from_its_turn(loop: Loop):
    loop.switcher.lend(loop.file("missing/file"), 1)
    loop.lend("two", 2)
    loop.follow()
    loop.switches("two")
    (loop.folder / "missing").mkdir()
    loop.lend("missing/file", 1)
    loop.follow()
    loop.switches("missing/file")


def test_one_that_was_reaped_is_not_killed_by_its_number(loop: Loop, monkeypatch):
    """Its number may be that of another process by then."""
    loop.lend("one", 1)
    loop.follow()
    loop.switches("one")
    first = loop.switcher.pid
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)
    killed: list[object] = []
    monkeypatch.setattr(switcher_process.os, "kill", lambda *each: killed.append(each))
    loop.until(lambda: loop.switcher.pid not in (0, first), "the next one")
    assert killed == []


def test_one_that_was_killed_is_replaced_at_once_and_then_each_second(loop: Loop):
    loop.lend("one", 1)
    loop.follow()
    pids = []
    for _ in range(3):
        loop.switches("one")
        pids.append(loop.switcher.pid)
        os.kill(loop.switcher.pid, signal.SIGKILL)
        loop.until(lambda: loop.switcher.pid not in (0, *pids), "another one")
    loop.switches("one")
    assert not any(map(is_running, pids))


def test_one_that_hangs_is_ended_when_a_group_is_needed_back(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(switcher_process, "ANSWER_S", 0.2)
    path = loop.lend("one", 1)
    loop.lend("two", 2)
    loop.follow()
    loop.switches("one", "two")
    pid = loop.switcher.pid
    os.kill(pid, signal.SIGSTOP)
    loop.switcher.withdraw(path)
    assert not is_running(pid)
    before = loop.written("one")
    loop.switches("two")
    assert loop.written("one") == before


def test_when_its_launcher_is_gone_it_freezes_all_and_ends(loop: Loop):
    loop.lend("one", 1)
    loop.lend("two", 2)
    loop.lend("both", 3)
    loop.follow()
    loop.switches("one", "two")
    pid = loop.switcher.pid
    loop.switcher.close()
    until(lambda: not is_running(pid), "its end")
    os.waitpid(pid, 0)
    for name in ("one", "two", "both"):
        assert loop.written(name)[-1] == FROZEN


def test_it_ends_when_nobody_takes_turns(loop: Loop):
    path = loop.lend("one", 1)
    loop.follow()
    loop.switches("one")
    pid = loop.switcher.pid
    loop.switcher.withdraw(path)
    loop.follow(rows=0)
    assert loop.switcher.pid == 0
    until(lambda: not is_running(pid), "its end")
    os.waitpid(pid, 0)


def test_a_phase_that_is_corrected_counts_from_the_next_slice_on(loop: Loop):
    loop.lend("one", 1)
    cycle = SliceCycle(QUANTUM_S, 2, steady_s())
    loop.switcher.follow(Cycles(cycle))
    loop.switcher.flush()
    loop.switches("one")
    for _ in range(20):
        now = cycle._replace(row_0_s=cycle.row_0_s + QUANTUM_S / 5)
        loop.switcher.follow(Cycles(cycle).followed_by(now, steady_s()))
        cycle = now
        time.sleep(QUANTUM_S / 3)
        loop.turn()
    loop.switches("one")


def test_what_it_says_of_its_precision_is_kept(loop: Loop):
    before = loop.switcher.enforcement()
    loop.lend("one", 1)
    loop.follow()
    loop.until(lambda: loop.switcher.has_news, "its report")
    news = loop.switcher.news()
    assert news is not None
    assert news.limit == before.limit == "time-slices"
    assert "late by" in news.note
    assert loop.switcher.news() is None


def test_lateness_is_that_of_the_last_switches():
    late = Lateness()
    assert late.percentile(99) == 0.0
    for number in range(3 * KEPT):
        late.add(float(number))
    assert len(late) == KEPT
    assert late.percentile(0) == 2 * KEPT
    assert late.percentile(99) >= 3 * KEPT - 0.02 * KEPT


@pytest.mark.parametrize(
    ("version", "is_real_time", "words"),
    [(0, True, "signals"), (2, True, "cgroup v2"), (1, False, "without real-time priority")],
)
def test_doctor_is_told_how_exact_it_is(version: int, is_real_time: bool, words: str):
    row = switching_row(version, Switched(7, 0.0001, 0.0123, is_real_time))
    assert row.by.startswith(words)
    assert (version == 0) or "0.1 ms (p50), 12 ms (p99)" in row.note


def test_a_single_switch_is_one_switch():
    row = switching_row(2, Switched(1, 0.0123, 0.0123, True))
    assert row.note == "the last switch was late by 12 ms"
