"""Sessions of an X server, by alarms on its counter of idle time (X Synchronization Extension).

The server tells when the counter falls and when it has risen; of what was typed it tells nothing,
and nothing is asked while nobody is there.
"""

from __future__ import annotations

from collections.abc import Mapping

import xcffib
import xcffib.sync as xsync

from iriai.launcher.contract.session_messages import DisplayKind
from iriai.session.source import QUIET_MS, NoSource, SessionOver

USED_MS = QUIET_MS // 2
"""The counter falls below it with the first key."""
_COUNTER = "IDLETIME"
_ALARM = (
    xsync.CA.Counter
    | xsync.CA.ValueType
    | xsync.CA.Value
    | xsync.CA.TestType
    | xsync.CA.Delta
    | xsync.CA.Events
)


class X11Source:
    """One connection to an X server."""

    display = DisplayKind.X11

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Raises `NoSource`."""
        name = environment.get("DISPLAY", "")
        if not name:
            raise NoSource("DISPLAY is not set")
        try:
            self._connection = xcffib.connect(display=name)  # type: ignore[no-untyped-call]
            self._sync = self._connection(xsync.key)
            self._sync.Initialize(3, 1).reply()
            counter = self._counters().get(_COUNTER)
            if counter is None:
                raise NoSource(f"the X server {name} has no counter {_COUNTER}")
            # Without this one the counter is not looked at while it rises, and then cannot fall.
            self._quiet = self._alarm(counter, xsync.TESTTYPE.PositiveTransition, QUIET_MS)
            self._used = self._alarm(counter, xsync.TESTTYPE.NegativeTransition, USED_MS)
            idle = self._sync.QueryCounter(counter).reply().counter_value
        except xcffib.XcffibException as error:
            raise NoSource(f"the X server {name}: {error!s}") from error
        self._begins = idle.hi == 0 and idle.lo < QUIET_MS
        """Whether it was in use just before; to be told once."""

    def fileno(self) -> int:
        """Return the connection."""
        return int(self._connection.get_file_descriptor())

    def take(self) -> bool | None:
        """Take in all alarms."""
        is_used = True if self._begins else None
        self._begins = False
        try:
            while (event := self._connection.poll_for_event()) is not None:
                if isinstance(event, xsync.AlarmNotifyEvent):
                    is_used = event.alarm == self._used
        except xcffib.XcffibException as error:
            raise SessionOver(f"the X server is gone: {error}") from error
        return is_used

    def _counters(self) -> dict[str, int]:
        """Return the counters of the server by name.

        xcffib 1.13 cannot read this reply: it knows nothing of the bytes that fill up a name.
        """
        reply = self._connection.wait_for_reply(self._sync.ListSystemCounters().sequence)
        (count,) = reply.unpack("=8xI20x")
        found: dict[str, int] = {}
        for _ in range(count):
            counter, length = reply.unpack("=I8xH")
            name = b"".join(reply.unpack(f"={length}c"))
            reply.unpack(f"={-(14 + length) % 4}x")
            found[name.decode(errors="replace")] = counter
        return found

    def _alarm(self, counter: int, test: int, value_ms: int) -> int:
        """Make an alarm that is told each time that the counter passes a value in one direction."""
        alarm = int(self._connection.generate_id())
        absolute, value, never = xsync.VALUETYPE.Absolute, (0, value_ms), (0, 0)
        values = [counter, absolute, value, test, never, 1]
        self._sync.CreateAlarmChecked(alarm, _ALARM, values).check()
        return alarm
