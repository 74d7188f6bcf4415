"""Processes of others on GPUs: a real process, and a library with the calls of NVIDIA's."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.launcher.owner.polled import gpu_processes
from iriai.launcher.owner.polled.gpu_processes import ANSWER_S, RETRY_S, GpuProbe
from iriai.launcher.owner.polled.nvml_process import PROCESSES_MAX
from tests.launcher.harness import is_running, until
from tests.launcher.owner.polled.trees import LAUNCHER, Tree, Watched

SOURCE = Path(__file__).with_name("libnvidia_ml.c")
OWNER, TASK = 700, 600


class Cards:
    """A machine with a driver, a launcher with a task, and somebody else."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        self.proc = Tree(folder / "proc")
        for pid, parent in ((1, 0), (LAUNCHER, 1), (TASK, LAUNCHER), (OWNER, 1)):
            self.proc.process(pid, parent)
        self.proc.put("driver/nvidia/gpus/0000:01:00.0/information", "Model: one\n")
        self._file = folder / "gpus"
        self.library = folder / "libnvidia-ml.so.1"
        flags = ("-shared", "-fPIC", f'-DPATH="{self._file}"')
        subprocess.run(["cc", *flags, "-o", self.library, SOURCE], check=True)

    def run(self, *lines: str) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text("".join(f"{line}\n" for line in lines))
        fresh.replace(self._file)

    def probe(self) -> GpuProbe:
        return GpuProbe(LAUNCHER, str(self.proc), str(self.library))


class Asked(Watched):
    """Waits for the answer of the process, which takes real time."""

    def until(self, note: str) -> None:
        def is_so() -> bool:
            self.signs()
            return note in self.state.note

        until(is_so, note)


@pytest.fixture
def cards(tmp_path_factory) -> Cards:
    """Below /tmp itself, where the process may read that is nobody's."""
    return Cards(Path(tmp_path_factory.mktemp("gpus", numbered=True)))


@pytest.fixture(autouse=True)
def open_to_all(tmp_path_factory) -> None:
    """The process runs as nobody, where the test is root's."""
    place = Path(tmp_path_factory.getbasetemp())
    while place != place.parent and os.geteuid() == 0:
        place.chmod(place.stat().st_mode | 0o055)
        place = place.parent


@pytest.fixture
def asked(cards: Cards) -> Iterator[Asked]:
    cards.run("0:")
    asked = Asked(cards.probe())
    yield asked
    asked.sensor.close()


def test_others_are_seen_by_gpu_and_tasks_are_not(cards: Cards, asked: Asked):
    asked.until("no process of others (1 GPU)")
    cards.run(f"0: {TASK}", "0:")
    asked.until("no process of others (2 GPUs)")
    cards.run(f"0: {TASK}", f"0: {TASK} {OWNER}")
    asked.until("processes of others: 1 on GPU 1 (2 GPUs)")
    assert asked.state.holds
    cards.run("0:", "0:")
    asked.until("no process of others")
    assert not asked.state.holds


def test_many_processes_take_a_second_call_and_too_many_are_left_out(cards: Cards, asked: Asked):
    for pid in range(2000, 2100):
        cards.proc.process(pid)
    cards.run("0: " + " ".join(map(str, range(2000, 2100))))
    asked.until("100 on GPU 0")
    cards.run("0: " + " ".join(map(str, range(10_000, 10_000 + PROCESSES_MAX + 500))))
    asked.until("no process of others")


def test_a_gpu_that_is_lost_is_left_out(cards: Cards, asked: Asked):
    cards.run(f"15: {OWNER}", f"0: {OWNER}")
    asked.until("processes of others: 1 on GPU 1 (2 GPUs)")


def test_processes_that_are_gone_or_cannot_be_do_not_count(cards: Cards, asked: Asked):
    cards.run("0: 0 999999 4294967295")
    asked.until("no process of others")


def test_without_a_driver_there_is_no_process(cards: Cards, tmp_path: Path):
    cards.proc.remove("driver")
    probe = cards.probe()
    watched = Watched(probe)
    watched.signs()
    assert not watched.state.works
    assert "no GPU of NVIDIA's" in watched.state.note
    assert probe._socket is None


def test_a_driver_that_is_taken_away_ends_the_process(cards: Cards, asked: Asked):
    asked.until("no process of others")
    pid = asked.sensor._probe._pid
    cards.proc.remove("driver")
    asked.signs()
    assert not asked.state.works
    until(lambda: not is_running(pid), "its end")


@pytest.mark.parametrize("library", ["libnvidia-of-nobody.so", "libc.so.6"])
def test_a_library_that_is_missing_or_lacks_calls_is_named(cards: Cards, library: str):
    asked = Asked(GpuProbe(LAUNCHER, str(cards.proc), library))
    asked.until("NVIDIA's library: ")
    assert not asked.state.works
    asked.sensor.close()


def test_a_library_without_its_driver_is_asked_again(cards: Cards):
    asked = Asked(cards.probe())
    asked.until("NVIDIA's library: nvmlInit failed with code 9")
    cards.run("0:")
    asked.until("no process of others")
    asked.sensor.close()


def test_a_library_that_hangs_is_ended_and_tried_again_later(cards: Cards, monkeypatch):
    cards.run("hang")
    asked = Asked(cards.probe())
    asked.signs(ANSWER_S)
    assert asked.state.works
    first = asked.sensor._probe._pid
    asked.signs(3.0)
    assert (asked.state.works, asked.state.note) == (False, "NVIDIA's library does not answer")
    until(lambda: not is_running(first), "its end")
    cards.run("0:")
    asked.signs(RETRY_S - 5.0)
    assert not asked.state.works
    asked.signs(5.0)
    asked.until("no process of others")
    asked.sensor.close()


def test_a_process_that_ends_is_replaced(cards: Cards, asked: Asked):
    asked.until("no process of others")
    os.kill(asked.sensor._probe._pid, 9)
    asked.until("the process of NVIDIA's library has ended")
    asked.signs(RETRY_S)
    asked.until("no process of others")


@pytest.mark.parametrize(
    "answer",
    ["", ";;;", "8,9,x;-5;é,٣", "9" * 5000, ",".join(["777777777"] * 9000), "!", "!\x1b[2J"],
)
def test_no_answer_is_an_error(cards: Cards, answer: str, monkeypatch):
    """In the place of its process: somebody who has said this, and listens."""
    own, its = socket.socketpair()
    its.sendall(f"{answer}\n".encode())
    monkeypatch.setattr(gpu_processes, "fork_process", lambda _name, _serve: (1 << 22, own))
    watched = Watched(cards.probe())
    watched.signs(5.0)
    assert not watched.state.holds
    assert "\x1b" not in watched.state.note
    watched.sensor.close()
    its.close()


def test_its_process_has_no_rights_and_no_devices(cards: Cards, asked: Asked):
    asked.until("no process of others")
    pid = asked.sensor._probe._pid
    fds = sorted(os.listdir(f"/proc/{pid}/fd"), key=int)
    assert fds == ["0", "1", "2", "3"]
    status = Path(f"/proc/{pid}/status").read_text()
    uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
    assert uids == ["65534"] * 4 or os.geteuid() != 0
    assert Path(f"/proc/{pid}/comm").read_text() == "iriai-gpus\n"
