"""What others did that they should not: said in the log now and then, and shown for a while."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass

from iriai.model.units import line_of

log = logging.getLogger(__name__)

KEPT_MAX = 256
"""Offences that are remembered; a flood of different ones drops the oldest."""
WHO_LENGTH_MAX, MESSAGE_LENGTH_MAX = 128, 512
"""Of an address or a name, and of what is said of it: `doctor` shows them in a table."""
SHOWN_S = 600.0
"""How long `doctor` speaks of one: long enough to be seen by whoever looks when told."""


@dataclass(slots=True)
class _Violation:
    count: int
    last_steady_s: float
    message: str


class Violations:
    """Violations by peer and kind."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], _Violation] = OrderedDict()

    def note(self, who: str, code: str, message: str, now_steady_s: float) -> None:
        """It happened; logged the first time, the tenth, the hundredth, ..."""
        who, message = line_of(who, WHO_LENGTH_MAX), line_of(message, MESSAGE_LENGTH_MAX)
        offence = self._kept.pop((who, code), None) or _Violation(0, now_steady_s, message)
        offence.count += 1
        offence.last_steady_s, offence.message = now_steady_s, message
        self._kept[who, code] = offence
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        digits = str(offence.count)
        if digits.rstrip("0") == "1":
            times = f" ({offence.count} times)" if offence.count > 1 else ""
            log.warning("%s was refused (%s): %s%s", who, code, message, times)

    def rows(self, now_steady_s: float) -> list[str]:
        """Those of the last while, for people."""
        return [
            f"{who} was refused {'once' if o.count == 1 else f'{o.count} times'}: {o.message}"
            for (who, _), o in self._kept.items()
            if now_steady_s - o.last_steady_s < SHOWN_S
        ]
