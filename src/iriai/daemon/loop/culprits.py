"""Machines whose messages made a core fail: they are blocked for a while, across restarts.

An error within a turn leaves the cores in doubt, so the daemon ends and begins again from what is
stored. The sender would send the message again, and the daemon would end again; so the sender is
stored before the end, and read at the start (ADR 0087).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import msgspec

from iriai.model.bounds import Count, Few, Name, Seconds, Words, decoded
from iriai.system.atomic_files import write_whole

log = logging.getLogger(__name__)

FILE = "culprits.json"
SHUN_MIN_S = 600.0
"""The first time: the machines of a cluster then cost few enough restarts an hour."""
SHUN_MAX_S = 86_400.0
"""The longest, after doubling; a machine without a failure for twice as long starts afresh."""
KEPT_MAX = 256


class Culprit(msgspec.Struct, frozen=True):
    """One machine."""

    times: Count
    wall_s: Seconds
    """When a core failed last."""
    words: Words
    """The kind of its message, and the error."""

    @property
    def ends_wall_s(self) -> float:
        """Until when it is blocked."""
        return self.wall_s + min(SHUN_MAX_S, SHUN_MIN_S * 2.0 ** min(self.times - 1, 32))


_decoder: msgspec.json.Decoder[dict[str, Culprit]] = msgspec.json.Decoder(
    Annotated[dict[Name, Culprit], Few]
)


class Culprits:
    """Machines whose messages made a core fail; `directory` is the daemon's own."""

    def __init__(self, directory: str) -> None:
        self._path = Path(directory, FILE)
        self._known = self._read()

    def blame(self, machine: str, kind: str, error: Exception, now_wall_s: float) -> None:
        """Store that a message of the machine made a core fail; log it if it cannot be stored."""
        before = self._known.pop(machine, None)
        is_new = before is None or now_wall_s > before.wall_s + 2.0 * SHUN_MAX_S
        times = 1 if before is None or is_new else before.times + 1
        words = f"its {kind} ended the daemon: {type(error).__name__}: {error}"[:500]
        self._known[machine] = Culprit(times, max(0.0, now_wall_s), words)
        while len(self._known) > KEPT_MAX:
            del self._known[next(iter(self._known))]
        try:
            write_whole(self._path, msgspec.json.encode(self._known))
        except OSError as failure:
            log.error("%s cannot be written: %s", self._path, failure)  # noqa: TRY400 - no bug

    def blocked(self, now_wall_s: float) -> list[tuple[str, float, str]]:
        """Return the blocked machines, for how many seconds more, and why."""
        return [
            (machine, min(SHUN_MAX_S, each.ends_wall_s - now_wall_s), each.words)
            for machine, each in self._known.items()
            if each.ends_wall_s > now_wall_s
        ]

    def _read(self) -> dict[str, Culprit]:
        try:
            return decoded(_decoder, self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("%s cannot be read (%s): no one is shunned for it", self._path, error)
            return {}
