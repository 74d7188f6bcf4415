"""Before a machine sleeps its tasks leave: a real bus, and a login manager that is played."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from jeepney import DBusAddress, HeaderFields, new_signal
from jeepney.io.blocking import open_dbus_connection

from iriai.daemon.tasks import sleep_watch
from iriai.daemon.tasks.sleep_watch import MARGIN, SleepWatch
from iriai.host.logind import DELAY_RANGE_S, DELAY_S
from iriai.protocol.messages.effects import MachineSleeps, MachineWakes, OwnerEvent
from tests.support.buses import LOGIN1, MANAGER, Bus

LOCK = ("sleep:shutdown", "iriai", "delay")
WAIT_S = 30.0


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bus]:
    bus = Bus()
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.address)
    bus.start_manager()
    yield bus
    bus.close()


class Desk:
    """What the daemon would do with the events."""

    def __init__(self) -> None:
        self.told: list[OwnerEvent] = []
        self.is_left = True
        self.watch = SleepWatch(self.told.append, lambda: self.is_left)

    async def until(self, condition: Callable[[], object]) -> None:
        deadline_s = asyncio.get_running_loop().time() + WAIT_S
        while not condition():
            assert asyncio.get_running_loop().time() < deadline_s, "waited in vain"
            await asyncio.sleep(0.01)


def on_desk(story) -> None:
    """Play a story with the watch of a machine."""

    async def play() -> None:
        desk = Desk()
        desk.watch.begin()
        try:
            await story(desk)
        finally:
            desk.watch.close()

    asyncio.run(play())


def test_it_waits_until_tasks_have_left_and_locks_again_when_it_is_awake(bus: Bus):
    async def story(desk: Desk) -> None:
        await desk.until(lambda: not desk.watch.problem)
        assert bus.locks() == [LOCK]
        desk.is_left = False
        bus.goes_to_sleep()
        await desk.until(lambda: desk.told)
        assert desk.told == [MachineSleeps(DELAY_S * (1 - MARGIN))]
        await asyncio.sleep(0.2)
        assert bus.locks() == [LOCK]
        desk.is_left = True
        await desk.until(lambda: bus.locks() == [])
        bus.goes_to_sleep(goes=False)
        await desk.until(lambda: bus.locks() == [LOCK])
        assert desk.told[1:] == [MachineWakes()]

    on_desk(story)


def test_a_shutdown_is_announced_too(bus: Bus):
    bus.delay(1e6)  # nobody waits so long

    async def story(desk: Desk) -> None:
        await desk.until(lambda: not desk.watch.problem)
        bus.goes_to_sleep(signal="PrepareForShutdown")
        await desk.until(lambda: bus.locks() == [])
        assert desk.told == [MachineSleeps(DELAY_RANGE_S[1] * (1 - MARGIN))]

    on_desk(story)


def test_a_manager_that_says_something_else_changes_nothing(bus: Bus):
    async def story(desk: Desk) -> None:
        await desk.until(lambda: not desk.watch.problem)
        words = ("org.freedesktop.login1.Manager", "PrepareForSleep", "s", [("s", "soon")])
        bus.call("org.freedesktop.DBus.Mock", "EmitSignal", "sssav", *words)
        bus.goes_to_sleep(signal="SessionNew")
        bus.goes_to_sleep()
        await desk.until(lambda: desk.told)
        assert len(desk.told) == 1

    on_desk(story)


def test_a_signal_of_somebody_else_puts_no_machine_to_sleep(bus: Bus):
    async def story(desk: Desk) -> None:
        await desk.until(lambda: not desk.watch.problem)
        logind = desk.watch._logind
        assert logind is not None
        emitter = DBusAddress("/org/freedesktop/login1", interface=MANAGER)
        with open_dbus_connection(bus=bus.address) as stranger:
            for interface, member, signature, body in (
                (MANAGER, "PrepareForSleep", "b", (True,)),
                ("org.freedesktop.DBus", "NameOwnerChanged", "sss", (LOGIN1, ":1.0", "")),
            ):
                forged = new_signal(emitter.with_interface(interface), member, signature, body)
                forged.header.fields[HeaderFields.destination] = logind._bus.unique_name
                stranger.send(forged)
        bus.goes_to_sleep(goes=False)
        await desk.until(lambda: desk.told)
        assert desk.told == [MachineWakes()]

    on_desk(story)


def test_a_manager_that_is_started_again_is_asked_for_a_new_lock(bus: Bus, monkeypatch):
    monkeypatch.setattr(sleep_watch, "RETRY_S", 0.1)

    async def story(desk: Desk) -> None:
        await desk.until(lambda: not desk.watch.problem)
        bus.stop_manager()
        await desk.until(lambda: "login manager" in desk.watch.problem)
        bus.start_manager()
        await desk.until(lambda: not desk.watch.problem)
        assert bus.locks() == [LOCK]

    on_desk(story)


def test_without_a_manager_it_says_so_and_tries_again(bus: Bus, monkeypatch):
    monkeypatch.setattr(sleep_watch, "RETRY_S", 0.1)
    bus.stop_manager()

    async def story(desk: Desk) -> None:
        await desk.until(lambda: "login manager" in desk.watch.problem)
        bus.start_manager()
        await desk.until(lambda: not desk.watch.problem)

    on_desk(story)


def test_a_bus_that_is_lost_may_have_lost_the_waking_too(bus: Bus):
    async def story(desk: Desk) -> None:
        await desk.until(lambda: not desk.watch.problem)
        desk.is_left = False
        bus.goes_to_sleep()
        await desk.until(lambda: desk.told)
        bus.lose()
        await desk.until(lambda: desk.told[1:] == [MachineWakes()])
        await desk.until(lambda: "bus" in desk.watch.problem)

    on_desk(story)


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "iriai.host.logind", None)

    async def story(desk: Desk) -> None:
        assert "pip install 'iriai[owner]'" in desk.watch.problem

    on_desk(story)
