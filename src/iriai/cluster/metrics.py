"""Metrics of this machine in its cluster: delay of news, and traffic of its links."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

NEWS_KEPT = 500
"""The latest of what others published and this machine learned."""
SETTLING_S = 30.0
"""What is learned so soon after the start is no news but the table of whoever was asked first."""
LATE = 0.95
"""The part of the news that is here by the later of the two ages that are told."""
MEASURE_S = 10.0
"""Between two measurements of the links' traffic."""
RATE_OVER_S = 60.0
"""Links are busy in bursts: by the second a rate says nothing."""


class ClusterMetrics:
    """Measures the delay of news and the traffic of links. Times are those of the steady clock."""

    def __init__(self, now_s: float) -> None:
        self._began_s = now_s
        self._ages_s: deque[float] = deque(maxlen=NEWS_KEPT)
        self._totals: deque[tuple[float, int, int]] = deque()

    def learned(self, ages_s: Iterable[float], now_s: float) -> None:
        """Record the ages of entries of other machines at their arrival."""
        if now_s - self._began_s >= SETTLING_S:
            self._ages_s.extend(ages_s)

    def moved(self, sent_bytes: int, received_bytes: int, now_s: float) -> None:
        """Record the bytes that all links have sent and received so far."""
        totals = self._totals
        totals.append((now_s, sent_bytes, received_bytes))
        while len(totals) > 2 and totals[1][0] <= now_s - RATE_OVER_S:
            totals.popleft()

    @property
    def news_s(self) -> tuple[float, float] | None:
        """Return the median and 95 % age of news at its arrival (s); None if none came."""
        if not self._ages_s:
            return None
        ages_s = sorted(self._ages_s)
        last = len(ages_s) - 1
        return ages_s[last // 2], ages_s[min(last, int(LATE * len(ages_s)))]

    @property
    def bytes_per_s(self) -> tuple[float, float]:
        """Return the rates of bytes sent and received over about a minute."""
        if len(self._totals) < 2:
            return 0.0, 0.0
        (from_s, sent, received), (to_s, sent_now, received_now) = self._totals[0], self._totals[-1]
        over_s = max(to_s - from_s, 1e-9)
        return max(0, sent_now - sent) / over_s, max(0, received_now - received) / over_s
