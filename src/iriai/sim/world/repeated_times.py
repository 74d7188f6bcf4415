"""When series are repeated in a simulated world: each few minutes, where rules have days.

The rule is three numbers: the seconds between two occurrences, how many there are, and the place of
the one whose local time is none (0: none is).
"""

from __future__ import annotations

from collections.abc import Iterator

from iriai.home.reservations.occurrence import Occurrence

LEFT_OUT = "its local time is left out: clocks are put forward"


def rule_of(pause_s: float, count: int, left_out: int = 0) -> str:
    """Return the rule of a series."""
    return f"{pause_s} {count} {left_out}"


def repeated_times(rule: str, _zone: str, start_wall_s: float) -> Iterator[Occurrence]:
    """Yield the occurrences of a series from the first start on."""
    pause_s, count, left_out = rule.split()
    for place in range(1, int(count) + 1):
        at_wall_s = start_wall_s + float(pause_s) * (place - 1)
        yield Occurrence(at_wall_s, LEFT_OUT if place == int(left_out) else "")
