"""Retransmission of messages to a broker on another machine until they are acknowledged.

Reports and wants may be lost, and so may what acknowledges them. What is not acknowledged is said
again: a report whole, a want as it then is. Now and then some is said again without a reason, so
that in time a broker that was told wrong is told right (docs/spec/008).
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from iriai.protocol.messages.scheduling import Heard

RESEND_S = 1.0
"""What is not acknowledged for so long is said again; later where answers take longer."""
RESEND_S_MAX = 30.0
"""However long nobody answers. Then the broker is dead, and another one is told all at once."""
REFRESH_S = 30.0
"""Who has had nothing to say for so long says again what a broker knows already."""


class _Said(NamedTuple):
    """What was said last, and when."""

    what: tuple[int, int]
    """Incarnation and version of a report; 0 and the stamp of a want."""
    said_s: float


class Retransmission:
    """Messages to a broker that are not acknowledged yet. Times are those of the steady clock."""

    def __init__(self) -> None:
        self._report: _Said | None = None
        """The first report that was not acknowledged."""
        self._last_report = (0, 0)
        """Incarnation and version of the last."""
        self._wants: dict[int, _Said] = {}
        """By job, the oldest first."""
        self._again: dict[int, _Said] = {}
        """Those said more than once: the first time."""
        self._wait_s = RESEND_S
        self._answered_s = -inf
        """When anything was acknowledged."""
        self._last_s = -inf
        """When anything was said."""

    def begin(self, now_s: float) -> None:
        """The broker is another, or restarts."""
        self._report = None
        self._wants.clear()
        self._again.clear()
        self._wait_s = RESEND_S
        self._answered_s = self._last_s = now_s

    def reported(self, incarnation: int, version: int, now_s: float) -> None:
        """The node said how it is."""
        self._last_s = now_s
        self._last_report = (incarnation, version)
        if self._report is None:
            self._report = _Said(self._last_report, now_s)

    def wanted(self, number: int, stamp: int, now_s: float) -> None:
        """The home said what it wants for a job."""
        self._last_s = now_s
        self._wants.pop(number, None)
        self._wants[number] = _Said((0, stamp), now_s)
        first = self._again.get(number)
        if first is not None and first.what[1] != stamp:
            del self._again[number]

    def acknowledged(self, heard: Heard, now_s: float) -> None:
        """The broker says what it has taken in."""
        self._answered_s = now_s
        report = self._report
        if heard.idle is not None and report is not None and heard.idle >= report.what:
            self._measure(now_s - report.said_s)
            is_all = heard.idle >= self._last_report
            self._report = None if is_all else _Said((heard.idle[0], heard.idle[1] + 1), now_s)
        for number, stamp in heard.wants:
            said = self._wants.get(number)
            if said is not None and stamp >= said.what[1]:
                del self._wants[number]
            first = self._again.pop(number, said)
            if first is not None and stamp >= first.what[1]:
                self._measure(now_s - first.said_s)

    def _measure(self, took_s: float) -> None:
        """An answer came after a while: the next is waited for twice as long, at least."""
        self._wait_s = min(RESEND_S_MAX, max(RESEND_S, 2.0 * took_s, self._wait_s * 0.9))

    @property
    def next_s(self) -> float:
        """When something is due."""
        first_s = self._last_s + REFRESH_S
        if self._report is not None:
            first_s = min(first_s, self._report.said_s + self._wait_s)
        if self._wants:
            first_s = min(first_s, next(iter(self._wants.values())).said_s + self._wait_s)
        return first_s

    def overdue(self, now_s: float) -> tuple[bool, list[int]]:
        """Whether a report is to be made again, whole; and the jobs whose wants are to be said."""
        wait_s = self._wait_s
        is_report = self._report is not None and self._report.said_s + wait_s <= now_s
        wants = []
        for number, said in self._wants.items():
            if said.said_s + wait_s > now_s:
                break
            wants.append(number)
        if is_report:
            self._report = None
        for number in wants:
            self._again.setdefault(number, self._wants.pop(number))
        if (is_report or wants) and self._answered_s + wait_s <= now_s:  # nobody answers at all
            self._wait_s = min(RESEND_S_MAX, 2.0 * wait_s)
        return is_report, wants

    def sent(self, now_s: float) -> None:
        """Something is being said now."""
        self._last_s = now_s

    def is_refresh_due(self, now_s: float) -> bool:
        """Whether nothing was said for so long that it is time to say all is as it was."""
        return now_s >= self._last_s + REFRESH_S
