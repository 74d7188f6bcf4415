"""Sessions of GNOME, whose compositor Mutter counts idle time itself (D-Bus, IdleMonitor).

It has no ext-idle-notify-v1. A watch tells that nobody was there for a while, another one that
somebody is there again; of what was typed neither says anything.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from typing import Any

from jeepney import DBusAddress, MatchRule, MessageType, new_method_call
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import DBusConnection, open_dbus_connection
from jeepney.low_level import HeaderFields, Message

from iriai.launcher.contract.session_messages import DisplayKind
from iriai.session.source import QUIET_MS, NoSource, SessionOver

SERVICE = "org.gnome.Mutter.IdleMonitor"
MONITOR = DBusAddress("/org/gnome/Mutter/IdleMonitor/Core", SERVICE, SERVICE)
ANSWER_MAX_S = 10.0
GONE = "NameOwnerChanged"


class MutterSource:
    """One connection to the bus of a session."""

    display = DisplayKind.MUTTER

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Raises `NoSource`."""
        runtime = environment.get("XDG_RUNTIME_DIR", f"/run/user/{os.geteuid()}")
        address = environment.get("DBUS_SESSION_BUS_ADDRESS", f"unix:path={runtime}/bus")
        try:
            self._bus: DBusConnection = open_dbus_connection(bus=address)
        except Exception as error:
            raise NoSource(f"the session's bus: {error}") from error
        self._told: deque[Message] = deque()
        try:
            self._hear(SERVICE, "WatchFired")
            self._hear(message_bus.interface, GONE)
            self._quiet = self._call("AddIdleWatch", "t", QUIET_MS)
            self._used = self._call("AddUserActiveWatch")
            self._begins = self._call("GetIdletime") < QUIET_MS
            """Whether it was in use just before; to be told once."""
        except SessionOver as over:
            self._bus.close()
            raise NoSource(str(over)) from over

    def fileno(self) -> int:
        """Return the connection."""
        return int(self._bus.sock.fileno())

    def take(self) -> bool | None:
        """Take in what the compositor has told."""
        is_used = True if self._begins else None
        self._begins = False
        try:
            while True:
                self._bus.recv_messages(timeout=0)
        except TimeoutError:
            pass
        except Exception as error:
            raise SessionOver(f"the session's bus: {error}") from error
        while self._told:
            message = self._told.popleft()
            if message.header.fields.get(HeaderFields.member) == GONE:
                name, _, owner = message.body
                if name == SERVICE and not owner:
                    raise SessionOver("the compositor has ended")
            elif message.body == (self._quiet,):
                is_used = False
                self._used = self._call("AddUserActiveWatch")  # the last one was for one time
            elif message.body == (self._used,):
                is_used = True
        return is_used

    def _hear(self, interface: str, member: str) -> None:
        """Take in signals; the bus gives them under another name of who sends them."""
        rule = MatchRule(type="signal", interface=interface, member=member)
        self._bus.filter(rule, queue=self._told)
        self._answer(message_bus.AddMatch(rule))

    def _call(self, member: str, signature: str | None = None, *body: object) -> int:
        """Return the number that the compositor answers. Raises `SessionOver`."""
        (number,) = self._answer(new_method_call(MONITOR, member, signature, body))
        return int(number)

    def _answer(self, message: Message) -> tuple[Any, ...]:
        try:
            reply = self._bus.send_and_get_reply(message, timeout=ANSWER_MAX_S)
        except Exception as error:
            raise SessionOver(f"the session's bus: {error}") from error
        body: tuple[Any, ...] = reply.body
        if reply.header.message_type is MessageType.error:
            raise SessionOver(f"the compositor: {body[0] if body else 'it refuses'}")
        return body
