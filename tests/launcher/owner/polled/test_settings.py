"""Which conditions are watched: what is out of bounds is refused, and changes are followed."""

from __future__ import annotations

import os
import socket

import msgspec
import pytest

from iriai.launcher.contract.messages import SetStandingOrder
from iriai.launcher.owner.polled.conditions import Conditions, OwnTasks
from iriai.launcher.owner.polled.processor_use import GroupUse, TreeUse
from iriai.launcher.owner.sensor_loop import SensorLoop
from iriai.launcher.owner.sensor_messages import FRAME_BYTES_MAX, WatchConditions
from iriai.model.bounds import decoded
from iriai.model.owner import (
    CONDITIONS,
    NO_CONDITIONS,
    SensorSettings,
    SignKind,
)
from iriai.system.frames import frame

ALL = SensorSettings(("zoom",), 0.5, 20.0, 85.0, gpu_processes=True, on_battery=True)


def conditions() -> Conditions:
    return Conditions(OwnTasks(os.getpid()))


@pytest.mark.parametrize(
    "settings",
    [
        ALL._replace(programs=("x",) * 1025),
        ALL._replace(programs=("x" * 1025,)),
        ALL._replace(foreign_cpus_max=-1.0),
        ALL._replace(foreign_cpus_max=float("nan")),
        ALL._replace(foreign_cpus_max=float("inf")),
        ALL._replace(pressure_percent_max=100.1),
        ALL._replace(temperature_max_c=-151.0),
        ALL._replace(temperature_max_c=float("nan")),
        ALL._replace(repeat_s=-0.5),
        ALL._replace(repeat_s=float("inf")),
        ALL._replace(on_battery=None),  # type: ignore[arg-type]
        (("zoom",), None, None, None, "yes"),
        "zoom",
    ],
)
def test_settings_out_of_bounds_are_no_message(settings: object):
    whole = SetStandingOrder(1, True, (), 0, False, ALL)
    decoder = msgspec.msgpack.Decoder(SetStandingOrder)
    assert decoded(decoder, msgspec.msgpack.encode(whole)) == whole
    content = msgspec.msgpack.encode([24, 1, True, (), 0, False, settings])
    with pytest.raises(msgspec.DecodeError):
        decoded(decoder, content)


def test_each_condition_has_a_sensor_and_no_other_has():
    watched = conditions()
    watched.go_by(ALL, is_busy=False)
    assert [each.kind for each in watched.sensors] == list(CONDITIONS)
    assert ALL.kinds == CONDITIONS
    watched.go_by(NO_CONDITIONS, is_busy=True)
    assert watched.sensors == ()


def test_what_stays_the_same_is_not_made_anew():
    watched = conditions()
    wanted = SensorSettings(programs=("zoom",))
    watched.go_by(wanted, is_busy=False)
    sensors = watched.sensors
    watched.go_by(wanted, is_busy=True)
    assert watched.sensors is sensors
    watched.go_by(wanted._replace(programs=("steam",)), is_busy=True)
    assert watched.sensors is not sensors


@pytest.mark.parametrize(("wanted_s", "repeat_s"), [(0.0, 1.0), (2.5, 2.5), (1e9, 10.0)])
def test_a_condition_is_told_neither_all_the_time_nor_never(wanted_s: float, repeat_s: float):
    watched = conditions()
    watched.go_by(SensorSettings(on_battery=True, repeat_s=wanted_s), is_busy=True)
    assert watched.sensors[0]._pace.repeat_s == repeat_s


def test_signs_of_hands_are_no_conditions():
    others = [each for each in SignKind if not each.is_condition]
    assert others == [SignKind.START, SignKind.TERMINAL, SignKind.INPUT, SignKind.SESSION]


def test_use_is_measured_by_a_group_where_there_is_one():
    assert isinstance(OwnTasks(7).use(), TreeUse)
    assert isinstance(OwnTasks(7, "/sys/fs/cgroup/iriai", 2).use(), GroupUse)


@pytest.mark.parametrize(
    "content",
    [
        (FRAME_BYTES_MAX + 1).to_bytes(4, "big"),
        frame(b"\xff"),
        frame(msgspec.msgpack.encode([3, [["a/b"], -1.0], True])),
        frame(msgspec.msgpack.encode([9, [], True])),
    ],
)
def test_a_launcher_that_says_something_else_ends_the_process(content: bytes):
    """It begins again with a launcher that says what it should."""
    launcher, own = socket.socketpair()
    launcher.sendall(content)
    with pytest.raises(ValueError, match=r".+"):
        SensorLoop(own, (), conditions()).run()
    launcher.close()
    own.close()


def test_the_loop_goes_by_what_the_launcher_says_and_ends_with_it():
    launcher, own = socket.socketpair()
    watched = conditions()
    order = WatchConditions(SensorSettings(on_battery=True), is_busy=True)
    launcher.sendall(frame(msgspec.msgpack.encode(order)))
    launcher.shutdown(socket.SHUT_WR)
    SensorLoop(own, (), watched).run()
    assert [each.kind for each in watched.sensors] == [SignKind.BATTERY]
    launcher.close()
    own.close()
