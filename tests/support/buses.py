"""A D-Bus daemon of a test's own, with a login manager that python-dbusmock plays."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

from jeepney import DBusAddress, new_method_call
from jeepney.io.blocking import open_dbus_connection

from tests.support.waiting import until

SYSTEM_PYTHON = "/usr/bin/python3"
"""Debian's modules are for this one."""
LOGIN1 = "org.freedesktop.login1"
MANAGER = f"{LOGIN1}.Manager"
MOCK = "org.freedesktop.DBus.Mock"


class Bus:
    """The daemon is real; what answers on it is not."""

    def __init__(self) -> None:
        command = ["dbus-daemon", "--session", "--print-address=1", "--nofork", "--nopidfile"]
        self._daemon = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._daemon.stdout is not None
        self.address = self._daemon.stdout.readline().strip()
        self._manager: subprocess.Popen[bytes] | None = None

    def environment(self) -> dict[str, str]:
        named = {"DBUS_SYSTEM_BUS_ADDRESS": self.address, "DBUS_SESSION_BUS_ADDRESS": self.address}
        return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | named

    def start_manager(self) -> None:
        words = [SYSTEM_PYTHON, "-m", "dbusmock", "--system", "--template", "logind"]
        self._manager = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment()
        )
        until(self._answers, "the login manager")

    def stop_manager(self) -> None:
        assert self._manager is not None
        self._manager.terminate()
        self._manager.wait()
        self._manager = None

    def _answers(self) -> bool:
        with suppress(Exception):
            self.locks()
            return True
        return False

    def call(self, interface: str, member: str, signature: str | None = None, *body: object):
        address = DBusAddress("/org/freedesktop/login1", LOGIN1, interface)
        with open_dbus_connection(bus=self.address) as connection:
            message = new_method_call(address, member, signature, body)
            return connection.send_and_get_reply(message, timeout=10.0).body

    def locks(self) -> list[tuple[str, ...]]:
        """What keeps it from going to sleep."""
        (found,) = self.call(MANAGER, "ListInhibitors")
        return [(what, who, mode) for what, who, _why, mode, *_ in found]

    def goes_to_sleep(self, *, goes: bool = True, signal: str = "PrepareForSleep") -> None:
        self.call(MOCK, "EmitSignal", "sssav", MANAGER, signal, "b", [("b", goes)])

    def delay(self, seconds: float) -> None:
        microseconds = int(seconds * 1e6)
        values = {"InhibitDelayMaxUSec": ("t", microseconds)}
        self.call(MOCK, "AddProperties", "sa{sv}", MANAGER, values)

    def lose(self) -> None:
        """End the bus under all who are connected."""
        self._daemon.kill()
        self._daemon.wait()

    def close(self) -> None:
        if self._manager is not None:
            self.stop_manager()
        self._daemon.terminate()
        self._daemon.wait()
        if self._daemon.stdout is not None:
            self._daemon.stdout.close()
