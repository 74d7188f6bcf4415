"""Violations by other machines: counted, logged with increasing gaps, and shown for a while."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from iriai.model.units import line_of

KEPT_MAX = 256
"""Violations that are kept; with more, the oldest is dropped."""
WHO_LENGTH_MAX, MESSAGE_LENGTH_MAX = 128, 512
"""Of an address or a name, and of the message: `doctor` shows them in a table."""
SHOWN_S = 600.0
"""How long `doctor` shows one, so that an operator can see it."""


@dataclass(slots=True)
class _Violation:
    count: int
    last_steady_s: float
    message: str


class Violations:
    """Violations by peer and kind."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], _Violation] = OrderedDict()

    def note(self, who: str, code: str, message: str, now_steady_s: float) -> str:
        """Count a violation; return a line for the log, empty but for the 1st, 10th, 100th ..."""
        who, message = line_of(who, WHO_LENGTH_MAX), line_of(message, MESSAGE_LENGTH_MAX)
        violation = self._kept.pop((who, code), None) or _Violation(0, now_steady_s, message)
        violation.count += 1
        violation.last_steady_s, violation.message = now_steady_s, message
        self._kept[who, code] = violation
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        digits = str(violation.count)
        if digits.rstrip("0") != "1":
            return ""
        times = f" ({violation.count} times)" if violation.count > 1 else ""
        return f"{who} was refused ({code}): {message}{times}"

    def rows(self, now_steady_s: float) -> list[str]:
        """Return the recent violations, for people."""
        return [
            f"{who} was refused {'once' if o.count == 1 else f'{o.count} times'}: {o.message}"
            for (who, _), o in self._kept.items()
            if now_steady_s - o.last_steady_s < SHOWN_S
        ]
