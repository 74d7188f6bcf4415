"""What the process with the sensors and the launcher tell each other, over a socket pair."""

from __future__ import annotations

import msgspec

from iriai.model.bounds import Seconds
from iriai.model.owner import SensorSettings, SensorStates, SignKind


class Noticed(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """There was a sign: the first of its kind at once, then one a second at most."""

    kind: SignKind
    at_s: Seconds
    """On the steady clock."""


class SensorReport(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """How the sensors do: when they begin, at each change, and each `REPORT_S`."""

    sensors: SensorStates


class WatchConditions(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Launcher: which conditions are signs; sent when it begins, and at each change."""

    settings: SensorSettings
    is_busy: bool
    """Whether tasks run."""


FromSensors = Noticed | SensorReport
SIGN_PAUSE_S = 1.0
"""Between two signs of one kind."""
REPORT_S = 10.0
"""Between two reports: a process that hangs sends none."""
FRAME_BYTES_MAX = 1 << 16
"""Notes for people are far shorter."""
