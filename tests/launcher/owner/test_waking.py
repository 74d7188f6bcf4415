"""A machine that has slept begins anew: nobody knows who is there."""

from __future__ import annotations

import select

from iriai.launcher.owner.waking import SLEPT_MIN_S, WakeSensor, slept_s
from iriai.launcher.system.syscalls import ClockSteps


def test_sleep_is_a_sign_and_time_is_none():
    clock = [100.0]
    sensor = WakeSensor(lambda: clock[0])
    assert not sensor.take((), 1.0)
    clock[0] += SLEPT_MIN_S / 2  # two clocks are not read in one moment
    assert not sensor.take((), 2.0)
    clock[0] += 3600.0
    assert sensor.take(sensor.descriptors(3.0), 3.0)
    assert not sensor.take((), 4.0)
    assert not sensor.state().works  # it notices nobody


def test_this_machine_has_not_slept_meanwhile():
    sensor = WakeSensor()
    assert slept_s() > -0.1  # the clocks are not read in one moment
    assert not sensor.take((), 1.0)


def test_what_the_kernel_tells_of_clocks_waits_until_they_are_set():
    steps = ClockSteps()
    assert select.select([steps.fd], [], [], 0)[0] == []
    steps.acknowledge()
