"""The machine's login manager: it puts sleep and shutdown off until it is told to go on (D-Bus).

systemd-logind and elogind speak the same: https://www.freedesktop.org/wiki/Software/systemd/inhibit
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from jeepney import DBusAddress, MatchRule, MessageType, new_method_call
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import DBusConnection, open_dbus_connection
from jeepney.low_level import HeaderFields, Message
from jeepney.wrappers import DBusErrorResponse, Properties

SERVICE = "org.freedesktop.login1"
MANAGER = DBusAddress("/org/freedesktop/login1", SERVICE, f"{SERVICE}.Manager")
SIGNALS = ("PrepareForSleep", "PrepareForShutdown")
OTHER_OWNER = "NameOwnerChanged"
"""The signal of the bus that the name of a service is another process's."""
CALL_MAX_S = 10.0
"""How long an answer may take."""
DELAY_S = 5.0
"""The most that sleep is put off, where the manager does not say: its default."""
DELAY_RANGE_S = (0.5, 600.0)


class LogindProblem(Exception):
    """There is no login manager, or it does not answer; the text says why."""


class Logind:
    """One connection, and the lock by which it waits for us."""

    def __init__(self, why: str) -> None:
        """Connect, and take the lock; `why` is for people. It may take `CALL_MAX_S` and more.

        Raises `LogindProblem`.
        """
        try:
            self._bus: DBusConnection = open_dbus_connection(bus="SYSTEM", enable_fds=True)
        except Exception as error:
            raise LogindProblem(f"the system bus: {error}") from error
        self._lock: int | None = None
        try:
            for signal in SIGNALS:
                rule = MatchRule(
                    type="signal", sender=SERVICE, interface=MANAGER.interface, member=signal
                )
                self._answer(message_bus.AddMatch(rule))
            rule = MatchRule(type="signal", sender=message_bus.bus_name, member=OTHER_OWNER)
            rule.add_arg_condition(0, SERVICE)
            self._answer(message_bus.AddMatch(rule))
            self.delay_max_s = self._delay_max_s()
            """How long it waits for us at most."""
            words = ("sleep:shutdown", "iriai", why, "delay")
            (descriptor,) = self._answer(new_method_call(MANAGER, "Inhibit", "ssss", words))
            self._lock = int(descriptor.to_raw_fd())
            (self._owner,) = self._answer(message_bus.GetNameOwner(SERVICE))
        except LogindProblem:
            self.close()
            raise

    def fileno(self) -> int:
        """Return what is readable when `signals` has something to tell."""
        return int(self._bus.sock.fileno())

    def signals(self) -> list[bool]:
        """Return what the manager signalled: True, it goes to sleep or down; False, it is back.

        Anybody on the bus may send signals to this connection: they do not count. Raises
        `LogindProblem` if the connection is lost, or the manager with its lock.
        """
        found: list[bool] = []
        while True:
            try:
                message = self._bus.receive(timeout=0)
            except TimeoutError:
                return found
            except Exception as error:
                raise LogindProblem(f"the system bus: {error}") from error
            fields = message.header.fields
            if message.header.message_type is not MessageType.signal:
                continue
            sender, member = fields.get(HeaderFields.sender), fields.get(HeaderFields.member)
            if sender == message_bus.bus_name and member == OTHER_OWNER:
                raise LogindProblem("the login manager has ended, or was started again")
            if sender == self._owner and member in SIGNALS:
                found += [each for each in message.body if isinstance(each, bool)]

    def release(self) -> None:
        """Let it go to sleep."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def close(self) -> None:
        """Leave it, with the lock."""
        self.release()
        with suppress(OSError):
            self._bus.close()

    def _delay_max_s(self) -> float:
        try:
            (variant,) = self._answer(Properties(MANAGER).get("InhibitDelayMaxUSec"))
            delay_s = float(variant[1]) / 1e6
        except (LogindProblem, TypeError, ValueError, IndexError):
            return DELAY_S
        least_s, most_s = DELAY_RANGE_S
        return min(max(delay_s, least_s), most_s)

    def _answer(self, message: Message) -> tuple[Any, ...]:
        """Send a call; return what is answered. Raises `LogindProblem`."""
        try:
            reply = self._bus.send_and_get_reply(message, timeout=CALL_MAX_S)
        except DBusErrorResponse as error:
            raise LogindProblem(f"the login manager: {error}") from error
        except Exception as error:
            raise LogindProblem(f"the system bus: {error}") from error
        if reply.header.message_type is MessageType.error:
            raise LogindProblem(f"the login manager: {reply.body[0] if reply.body else 'refuses'}")
        body: tuple[Any, ...] = reply.body
        return body
