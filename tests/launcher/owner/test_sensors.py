"""The sensors in the test's own process, and what the launcher does about one that lies."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from iriai.launcher.contract.messages import SetStandingOrder
from iriai.launcher.owner import own_terminals, sensor_loop, sensor_process
from iriai.launcher.owner.input_devices import DEVICES_MAX, InputSensor
from iriai.launcher.owner.own_terminals import OwnTerminals
from iriai.launcher.owner.owner_watch import OwnerWatch
from iriai.launcher.owner.sensor import Sensor, Watched
from iriai.launcher.owner.sensor_messages import (
    FRAME_BYTES_MAX,
    REPORT_S,
    Noticed,
    SensorReport,
)
from iriai.launcher.owner.sensor_process import SILENT_MAX
from iriai.launcher.owner.terminals import LIST_REST_S, TerminalSensor
from iriai.launcher.pmi.pmi_sockets import Watch
from iriai.launcher.system.timers import Timers
from iriai.model.owner import SensorState, Sign, SignKind
from iriai.system.clock import steady_s
from iriai.system.frames import frame
from tests.launcher.owner.desk import EV_ABS, EV_KEY, EV_REL, EV_SW, EV_SYN, EVENT, Desk, Typing

SOON_S = 5.0
INPUT, START, TERMINAL = SignKind.INPUT, SignKind.START, SignKind.TERMINAL


class Asked:
    """A sensor that is asked as the process asks it, with a clock of its own."""

    def __init__(self, sensor: Sensor) -> None:
        self.sensor = sensor
        self.now_s = steady_s()
        sensor.take((), self.now_s)

    def signs(self) -> int:
        """How many signs there are until nothing is readable, nor due soon."""
        count = 0
        for _ in range(50):
            if LIST_REST_S < self.sensor.due_s() - self.now_s < SOON_S:
                self.now_s = self.sensor.due_s()
            else:
                self.now_s += LIST_REST_S
            fds = self.sensor.descriptors(self.now_s)
            readable = select.select(fds, [], [], 0)[0]
            if not readable and self.sensor.due_s() > self.now_s + SOON_S:
                return count
            count += self.sensor.take(readable, self.now_s)
        raise AssertionError("it never rests")


# --- input devices -------------------------------------------------------------------------------


@pytest.fixture
def devices(desk: Desk) -> Asked:
    desk.add_device()
    return Asked(InputSensor(str(desk.input)))


@pytest.mark.parametrize(
    ("kind", "count"), [(EV_KEY, 1), (EV_REL, 1), (EV_ABS, 1), (EV_SW, 0), (EV_SYN, 0), (99, 0)]
)
def test_keys_and_movements_are_signs_and_lids_are_not(
    desk: Desk, devices: Asked, kind: int, count: int
):
    desk.press(kind=kind)
    assert devices.signs() == count
    assert devices.signs() == 0


def test_what_is_kept_is_drained_at_once(desk: Desk, devices: Asked):
    desk.press(count=1000)
    assert devices.signs() == 1


@pytest.mark.parametrize("content", [b"x", b"\xff" * 23, b"\0\1\n", bytes(EVENT.size)])
def test_what_is_no_event_is_dropped(desk: Desk, devices: Asked, content: bytes):
    desk.write(content)
    assert devices.signs() == 0
    assert devices.sensor.state().works


def test_what_is_no_device_is_left_out(desk: Desk):
    (desk.input / "event1").write_bytes(EVENT.pack(0, 0, EV_KEY, 1, 1))
    (desk.input / "event2").mkdir()
    (desk.input / "event3").symlink_to("/nowhere")
    (desk.input / "mice").write_bytes(b"")
    asked = Asked(InputSensor(str(desk.input)))
    assert asked.signs() == 0
    assert not asked.sensor.state().works
    desk.add_device()
    assert asked.signs() == 0
    assert asked.sensor.state().works


def test_more_devices_than_any_machine_has_are_not_opened(desk: Desk):
    for number in range(DEVICES_MAX + 5):
        os.mkfifo(desk.input / f"event{number}")
    asked = Asked(InputSensor(str(desk.input)))
    assert len(asked.sensor.descriptors(asked.now_s + 1.0)) == DEVICES_MAX + 1


def test_a_machine_without_input_devices_says_so_and_looks_again(tmp_path: Path):
    asked = Asked(InputSensor(str(tmp_path / "input")))
    state = asked.sensor.state()
    assert (state.works, "there are no input devices" in state.note) == (False, True)
    (tmp_path / "input").mkdir()
    os.mkfifo(tmp_path / "input" / "event0")
    assert not asked.sensor.state().works
    asked.now_s = asked.sensor.due_s()
    asked.signs()
    assert asked.sensor.state().works


# --- terminals -----------------------------------------------------------------------------------


@pytest.fixture
def terminals(desk: Desk) -> Asked:
    return Asked(TerminalSensor(str(desk.folder), 1 << 30))


def test_typing_is_a_sign_and_printing_is_none(desk: Desk, terminals: Asked):
    typing = desk.terminal()
    terminals.signs()
    typing.print()
    assert terminals.signs() == 0
    typing.type()
    assert terminals.signs() == 1


def test_a_terminal_whose_master_is_ours_does_not_count(desk: Desk):
    """The test is the launcher here."""
    asked = Asked(TerminalSensor(str(desk.folder), os.getpid()))
    typing = desk.terminal()
    asked.signs()
    for _ in range(3):
        typing.type()
        assert asked.signs() == 0


def test_a_number_that_is_used_again_is_another_terminal(desk: Desk):
    if not desk.is_apart:  # others open and close terminals there at the same time
        return
    asked = Asked(TerminalSensor(str(desk.folder), 1 << 30))
    ours = Asked(TerminalSensor(str(desk.folder), os.getpid()))
    for _ in range(3):
        typing = Typing(desk.pts)
        asked.signs()
        ours.signs()
        typing.type()
        assert (asked.signs(), ours.signs()) == (1, 0)
        assert typing.number == 0
        typing.close()
        asked.signs()
        ours.signs()


def test_lost_notices_begin_all_anew(desk: Desk, terminals: Asked, monkeypatch):
    typing = desk.terminal()
    terminals.signs()
    sensor = terminals.sensor
    assert isinstance(sensor, TerminalSensor)
    monkeypatch.setattr("iriai.launcher.owner.terminals.Inotify.read", lambda _self: [(-1, 0x4000)])
    typing.type()
    terminals.now_s += LIST_REST_S
    assert not sensor.take(sensor.descriptors(terminals.now_s), terminals.now_s)
    monkeypatch.undo()
    terminals.signs()
    typing.type()
    assert terminals.signs() == 1


def test_while_there_is_no_time_to_look_nothing_counts(desk: Desk, monkeypatch):
    monkeypatch.setattr(own_terminals, "LOOK_MAX_S", -1.0)
    asked = Asked(TerminalSensor(str(desk.folder), os.getpid()))
    typing = desk.terminal()
    asked.signs()
    typing.type()
    assert asked.signs() == 0
    monkeypatch.setattr(own_terminals, "LOOK_MAX_S", 10.0)
    asked.now_s = steady_s() + 3600.0
    other = Asked(TerminalSensor(str(desk.folder), 1 << 30))
    other.now_s = asked.now_s
    typing.type()
    assert (asked.signs(), other.signs()) == (0, 1)


def test_masters_of_other_places_are_not_ours(desk: Desk, tmp_path: Path):
    other = Desk(tmp_path / "other")
    typing = other.terminal()
    held, is_whole = OwnTerminals(str(desk.pts), os.getpid()).held_by(os.getuid())
    assert is_whole
    assert typing.number in OwnTerminals(str(other.pts), os.getpid()).held_by(os.getuid())[0]
    assert typing.number not in held or not desk.is_apart
    other.close()


# --- the launcher's side -------------------------------------------------------------------------


class Process:
    """A launcher's loop with nothing but its watch, and the test in the place of the process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[socket.socket] = []
        self.now_s = 1000.0
        self.timers = Timers()
        self._handlers: dict[int, Callable[[], None]] = {}
        monkeypatch.setattr(sensor_loop, "fork_sensors", self._fork)
        monkeypatch.setattr(sensor_process, "take_real_time", lambda _pid: True)
        for module in ("sensor_process", "owner_watch"):
            monkeypatch.setattr(f"iriai.launcher.owner.{module}.steady_s", lambda: self.now_s)
        self.owner = OwnerWatch(
            Watch(self._handlers.__setitem__, self._handlers.pop),
            self.timers,
            "/dev",
            "/run/sessions.sock",
        )
        self.changes = 0
        self.owner.on_change = self._changed

    def _fork(self, watched: Watched) -> tuple[int, socket.socket]:
        self.watched = watched
        own, its = socket.socketpair()
        self.begun.append(its)
        return 1 << 22, own  # no process has this number

    def _changed(self) -> None:
        self.changes += 1

    def order(self, **more: object) -> None:
        fields = {"number": 1, "suspends": True, "exempt": (), "signs": 0, "are_over": False}
        self.owner.take(SetStandingOrder(**(fields | more)))  # type: ignore[arg-type]

    def say(self, *contents: object) -> None:
        payloads = [
            each if isinstance(each, bytes) else frame(msgspec.msgpack.encode(each))
            for each in contents
        ]
        self.begun[-1].sendall(b"".join(payloads))
        self.turn()

    def turn(self) -> None:
        for fd in select.select(list(self._handlers), [], [], 0)[0]:
            self._handlers[fd]()

    def later(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while (due_s := self.timers.next_s()) is not None and due_s <= until_s:
            self.now_s = max(self.now_s, due_s)
            assert self.timers.run_due(self.now_s) == []
        self.now_s = until_s

    def close(self) -> None:
        self.owner.process.close()
        for each in self.begun:
            each.close()


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    process = Process(monkeypatch)
    yield process
    process.close()


def test_a_sign_is_taken_in_and_one_in_the_future_is_of_now(process: Process):
    process.order()
    process.say(Noticed(INPUT, 999.0), Noticed(TERMINAL, 5000.0))
    assert process.owner.seen().last == (Sign(INPUT, 999.0), Sign(TERMINAL, 1000.0))
    assert process.changes == 2  # by the order, and by the first of both
    process.later(1.0)
    process.say(Noticed(INPUT, 3.0))
    assert process.owner.seen().last[0] == Sign(INPUT, 999.0)


def test_more_signs_than_one_a_second_are_not_counted(process: Process):
    process.order()
    process.say(*[Noticed(INPUT, 1000.0)] * 500)
    assert process.owner.seen().signs == 1


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xff\xff\xff",
        (FRAME_BYTES_MAX + 1).to_bytes(4, "big"),
        frame(b""),
        frame(b"\xc1"),
        frame(msgspec.msgpack.encode([1, "keyboard", 1.0])),
        frame(msgspec.msgpack.encode([1, "input", -1.0])),
        frame(msgspec.msgpack.encode([1, "input", float("inf")])),
        frame(msgspec.msgpack.encode([1, "input", float("nan")])),
        frame(msgspec.msgpack.encode([1, "input"])),
        frame(msgspec.msgpack.encode([2, [["input", True, ""]] * (len(SignKind) + 1)])),
        frame(msgspec.msgpack.encode([2, [["input", "yes", ""]]])),
        frame(msgspec.msgpack.encode([3, []])),
    ],
    ids=str,
)
def test_who_says_what_it_may_not_is_replaced(process: Process, content: bytes):
    process.order()
    process.say(SensorReport((SensorState(INPUT, True),)), Noticed(START, 1000.0))
    process.say(content)
    assert process.owner.seen().signs == 1
    assert not any(each.works for each in process.owner.seen().sensors)
    assert len(process.begun) == 1
    process.later(1.0)
    assert len(process.begun) == 2
    process.say(SensorReport((SensorState(INPUT, True),)))
    assert [each.works for each in process.owner.seen().sensors] == [False, True, False]


def test_the_begin_of_the_next_is_a_sign_however_late_the_last_was_heard(process: Process):
    process.order()
    process.later(0.8)  # on a busy machine
    process.say(Noticed(START, 1000.0))
    process.begun[-1].close()
    process.turn()
    process.later(0.2)
    assert len(process.begun) == 2
    process.say(Noticed(START, 1001.0))
    assert process.owner.seen().signs == 2


def test_sensors_that_it_does_not_name_do_not_work(process: Process):
    process.order()
    process.say(SensorReport((SensorState(START, True), SensorState(TERMINAL, True))))
    sensors = {each.kind: each.works for each in process.owner.seen().sensors}
    assert sensors == {TERMINAL: True, INPUT: False, SignKind.SESSION: False}


def test_it_is_replaced_when_it_is_to_hear_other_users(process: Process):
    process.order()
    process.owner.process.use(())
    assert len(process.begun) == 1
    process.owner.process.use(("root", "nobody-of-this-name"))
    process.later(1.0)
    assert len(process.begun) == 2
    assert process.watched.users.names[0] == "root"


def test_one_that_is_silent_for_long_is_replaced(process: Process):
    process.order()
    for _ in range(5):
        process.later(REPORT_S * (SILENT_MAX - 1))
        process.say(SensorReport(()))
    assert len(process.begun) == 1
    process.later(REPORT_S * SILENT_MAX)
    assert len(process.begun) == 2


def test_one_that_cannot_be_started_is_tried_again_each_second(process: Process, monkeypatch):
    tried = []

    def fail(watched: Watched) -> tuple[int, socket.socket]:
        tried.append(watched)
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(sensor_loop, "fork_sensors", fail)
    for number in range(1, 50):
        process.order(number=number)
    assert len(tried) == 1
    assert "cannot be started" in process.owner.seen().sensors[0].note
    process.later(10.0)
    assert len(tried) == 11


def test_it_is_sent_again_only_if_it_changed(process: Process):
    process.order()
    process.say(SensorReport((SensorState(INPUT, True),)))
    assert process.owner.has_news
    process.owner.seen()
    process.say(SensorReport((SensorState(INPUT, True),)))
    assert not process.owner.has_news
    assert [row.by for row in process.owner.news()] == ["sensors: input"]
    assert process.owner.news() == []
