"""GNOME's compositor without a screen: a real Mutter, a real bus, keys by its remote desktop."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from jeepney import DBusAddress, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from iriai.session.mutter import MutterSource
from iriai.session.source import NoSource, SessionOver
from iriai.system.clock import steady_s
from tests.support.buses import Bus
from tests.support.waiting import until

REMOTE = "org.gnome.Mutter.RemoteDesktop"
KEY_A = 30


class Compositor:
    """A session's compositor, and who works in it from afar."""

    def __init__(self, runtime: Path) -> None:
        runtime.chmod(0o700)
        self.bus = Bus()
        self._environment = self.bus.environment() | {"XDG_RUNTIME_DIR": str(runtime)}
        self._environment.pop("DISPLAY", None)
        words = ["mutter", "--headless", "--wayland", "--no-x11", "--virtual-monitor", "320x200"]
        self.process = subprocess.Popen(
            [*words, "--wayland-display", "iriai-test"],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._remote: DBusConnection | None = None
        self._session = ""
        self._sources: list[MutterSource] = []

    def source(self) -> MutterSource:
        return MutterSource({"DBUS_SESSION_BUS_ADDRESS": self.bus.address})

    def started(self) -> MutterSource:
        """A source, once the compositor is there."""
        made: list[MutterSource] = []

        def is_there() -> bool:
            assert self.process.poll() is None, "the compositor has ended"
            with suppress(NoSource):
                made.append(self.source())
            return bool(made)

        until(is_there, "the compositor", pause_s=0.2)
        self._sources.append(made[0])
        return made[0]

    def press(self) -> None:
        if self._remote is None:
            self._remote = open_dbus_connection(bus=self.bus.address)
            (self._session,) = self._call(
                "/org/gnome/Mutter/RemoteDesktop", REMOTE, "CreateSession"
            )
            self._call(self._session, f"{REMOTE}.Session", "Start")
        for is_down in (True, False):
            words = ("ub", KEY_A, is_down)
            self._call(self._session, f"{REMOTE}.Session", "NotifyKeyboardKeycode", *words)

    def _call(self, path: str, interface: str, member: str, signature: str = "", *body: object):
        assert self._remote is not None
        message = new_method_call(
            DBusAddress(path, REMOTE, interface), member, signature or None, body
        )
        return self._remote.send_and_get_reply(message, timeout=30.0).body

    def close(self) -> None:
        if self._remote is not None:
            self._remote.close()
        for source in self._sources:
            source._bus.close()
        self.process.kill()
        self.process.wait()
        self.bus.close()


@pytest.fixture
def compositor(tmp_path: Path) -> Iterator[Compositor]:
    compositor = Compositor(tmp_path)
    yield compositor
    compositor.close()


def told(source: MutterSource, is_used: bool) -> float:
    """Wait until it is told that somebody is there, or not; return when."""
    while (now := source.take()) is not is_used:
        assert now is None
        assert select.select([source.fileno()], [], [], 60.0)[0], "nothing is told"
    return steady_s()


def test_a_key_is_told_at_once_and_its_absence_a_second_later(compositor: Compositor):
    source = compositor.started()
    compositor.press()  # a session that just began may count as in use
    until(lambda: source.take() is False, "nobody to be there")
    needed_s = []
    for _ in range(3):
        begun_s = steady_s()
        compositor.press()
        needed_s.append(told(source, True) - begun_s)
        told(source, False)
    assert min(needed_s) <= 0.1, needed_s


def test_it_ends_with_the_compositor(compositor: Compositor):
    source = compositor.started()
    compositor.process.kill()
    compositor.process.wait()

    def ends() -> bool:
        try:
            source.take()
        except SessionOver as over:
            return "has ended" in str(over)
        return False

    until(ends, "its end")


def test_a_bus_without_that_compositor_says_so():
    bus = Bus()
    with pytest.raises(NoSource, match="the compositor"):
        MutterSource({"DBUS_SESSION_BUS_ADDRESS": bus.address})
    bus.close()
    with pytest.raises(NoSource, match="the session's bus"):
        MutterSource({"XDG_RUNTIME_DIR": os.devnull})
