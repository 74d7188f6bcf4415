"""Retransmission of messages to a broker on another machine until they are acknowledged.

Reports and wants may be lost, and so may what acknowledges them. What is not acknowledged is said
again: a report whole, a want as it then is. Now and then some is said again without a reason, so
that in time a broker that was told wrong is told right (docs/spec/008).
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from iriai.protocol.messages.elections import Heard

RESEND_S = 1.0
"""The first resend interval; it grows where acknowledgements take longer."""
RESEND_S_MAX = 30.0
"""The longest resend interval; a broker that is silent for longer is replaced."""
REFRESH_S = 30.0
"""After so long without a message the current state is sent again."""


class _Said(NamedTuple):
    """A message that was sent, and when."""

    what: tuple[int, int]
    """Incarnation and version of a report; 0 and the stamp of a want."""
    said_s: float


class Retransmission:
    """Messages to a broker that are not acknowledged yet. Times are those of the steady clock."""

    def __init__(self) -> None:
        self._report: _Said | None = None
        """The first unacknowledged report."""
        self._last_report = (0, 0)
        """Incarnation and version of the last report."""
        self._wants: dict[int, _Said] = {}
        """The unacknowledged wants by job, the oldest first."""
        self._again: dict[int, _Said] = {}
        """The first sending of each want that was sent again, by job."""
        self._wait_s = RESEND_S
        self._answered_s = -inf
        """When anything was last acknowledged."""
        self._last_s = -inf
        """When anything was last sent."""

    def begin(self, now_s: float) -> None:
        """Start afresh: the broker is another one, or has restarted."""
        self._report = None
        self._wants.clear()
        self._again.clear()
        self._wait_s = RESEND_S
        self._answered_s = self._last_s = now_s

    def reported(self, incarnation: int, version: int, now_s: float) -> None:
        """Note that the node sent a report."""
        self._last_s = now_s
        self._last_report = (incarnation, version)
        if self._report is None:
            self._report = _Said(self._last_report, now_s)

    def wanted(self, number: int, stamp: int, now_s: float) -> None:
        """Note that the home sent its want for a job."""
        self._last_s = now_s
        self._wants.pop(number, None)
        self._wants[number] = _Said((0, stamp), now_s)
        first = self._again.get(number)
        if first is not None and first.what[1] != stamp:
            del self._again[number]

    def acknowledged(self, heard: Heard, now_s: float) -> None:
        """Drop what the broker acknowledges, and adapt the resend interval."""
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
        """Set the resend interval to at least twice the time that the answer took."""
        self._wait_s = min(RESEND_S_MAX, max(RESEND_S, 2.0 * took_s, self._wait_s * 0.9))

    @property
    def next_s(self) -> float:
        """When the next message is due."""
        first_s = self._last_s + REFRESH_S
        if self._report is not None:
            first_s = min(first_s, self._report.said_s + self._wait_s)
        if self._wants:
            first_s = min(first_s, next(iter(self._wants.values())).said_s + self._wait_s)
        return first_s

    def overdue(self, now_s: float) -> tuple[bool, list[int]]:
        """Return whether a whole report must be sent again, and the jobs whose wants must be."""
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
        """Note that something is sent now."""
        self._last_s = now_s

    def is_refresh_due(self, now_s: float) -> bool:
        """Return whether the current state must be sent again because nothing else was."""
        return now_s >= self._last_s + REFRESH_S
