"""Machines whose messages made a core fail: they are shunned for a while, across restarts.

An error within a turn leaves the cores in doubt, so the daemon ends and begins again from what is
stored. Who sent the message would send it again, and the daemon would end again; so this is written
before it ends, and read when it begins (ADR 0087).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import msgspec

from iriai.model.bounds import Count, Few, Name, Seconds, Words, decoded

log = logging.getLogger(__name__)

FILE = "culprits.json"
SHUN_MIN_S = 600.0
"""The first time: as many restarts an hour as machines of one cluster may cost without harm."""
SHUN_MAX_S = 86_400.0
"""Doubled each time; a machine that behaved for twice as long starts at the first again."""
KEPT_MAX = 256


class Culprit(msgspec.Struct, frozen=True):
    """One machine."""

    times: Count
    wall_s: Seconds
    """When it was last."""
    words: Words
    """What it sent, and what came of it."""

    @property
    def ends_wall_s(self) -> float:
        """Until when nobody talks to it."""
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
        """A core failed over what the machine sent; kept, if the disk takes it."""
        before = self._known.pop(machine, None)
        is_new = before is None or now_wall_s > before.wall_s + 2.0 * SHUN_MAX_S
        times = 1 if before is None or is_new else before.times + 1
        words = f"its {kind} ended the daemon: {type(error).__name__}: {error}"[:500]
        self._known[machine] = Culprit(times, max(0.0, now_wall_s), words)
        while len(self._known) > KEPT_MAX:
            del self._known[next(iter(self._known))]
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_bytes(msgspec.json.encode(self._known))
            fresh.replace(self._path)
        except OSError as failure:
            log.error("%s cannot be written: %s", self._path, failure)  # noqa: TRY400 - no bug

    def blocked(self, now_wall_s: float) -> list[tuple[str, float, str]]:
        """Machines that nobody talks to, for how many seconds more, and why."""
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
