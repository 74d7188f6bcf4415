"""What the process with the sensors asks of each of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from iriai.launcher.owner.session_users import NamedUsers
from iriai.model.owner import SensorState, SignKind


class Watched(NamedTuple):
    """What the process is to watch."""

    devices: str
    """Like /dev."""
    sessions: str
    """The path of the socket for session agents."""
    launcher: int
    """The process whose tasks do not count."""
    users: NamedUsers
    """Those who may have an agent without having logged in."""
    group: str = ""
    """The control group above all tasks that counts processor time; empty: there is none."""
    version: int = 1
    """Of that control group."""


class Sensor(Protocol):
    """Notices signs of one kind."""

    kind: SignKind

    def descriptors(self, now_s: float) -> list[int]:
        """Return what to wait for until it is readable, or `due_s` has come."""
        ...

    def due_s(self) -> float:
        """Return when `take` is to be called although nothing is readable; infinite: never."""
        ...

    def take(self, readable: Collection[int], now_s: float) -> bool:
        """Take in what has come; return whether there was a sign."""
        ...

    def state(self) -> SensorState:
        """Return how it does."""
        ...
