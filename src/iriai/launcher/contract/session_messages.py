"""What session agents and the process with the sensors tell each other (docs/spec/016, section 2).

One packet of a socket (SOCK_SEQPACKET) is one message, in msgpack.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from iriai.model.bounds import Count, Word

SESSION_VERSION = 2
"""Of these messages; another one is refused."""
PACKET_BYTES_MAX = 256
"""More than any of them takes."""
SESSION_PAUSE_S = 1.0
"""Between two `SessionUsed`, beside the first of each time that somebody comes back."""
SESSION_LIVES_S = 30.0
"""The longest that an agent says nothing: so often it says at least that it lives."""


class DisplayKind(StrEnum):
    """What tells an agent that its session is used."""

    X11 = "x11"
    """An X server: its IDLETIME counter."""
    MUTTER = "mutter"
    """GNOME's compositor: org.gnome.Mutter.IdleMonitor."""
    WAYLAND = "wayland"
    """A Wayland compositor: ext-idle-notify-v1."""


class SessionBegins(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Agent, its first message: it watches a session from now on."""

    version: Count
    display: DisplayKind


class SessionUsed(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Agent: somebody uses the session now. That is all that is told of it."""


class SessionRefused(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Sensor process: the agent is not heard, and why; it closes the connection then."""

    reason: Word


class SessionLives(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Agent: it watches still, and has said nothing for `SESSION_LIVES_S`."""


FromAgent = SessionBegins | SessionUsed | SessionLives
AgentMessage = FromAgent | SessionRefused
