"""What jobs are charged in a replay, for orders that look at use.

A node charges what runs every ten seconds. Until a job has used what was expected of it, that only
moves use from what is expected to what is charged, and no draw sees it. So here a job is charged
when that moment comes, then whenever it has run a tenth longer, and at its end: a few times in all
instead of thousands. Decay counts from when a charge is made; the difference to a node's charges is
below a hundredth for runs of a tenth of the half-life.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import NamedTuple

from iriai.broker.standings import Standings
from iriai.model.resources import Resources
from iriai.node.ledger import Ledger
from iriai.policy.fading import Fading
from iriai.policy.fairshare import ChargeRule, charge
from iriai.sim.log import LogJob

LONGER = 1.1
"""A job beyond what was expected is charged each time it has run so many times as long."""


class _Run(NamedTuple):
    key: Hashable
    job: LogJob
    resources: Resources
    start_s: float


class Bill:
    """The ledger of the one machine of a replay."""

    def __init__(
        self, machine: str, standings: Standings, rule: ChargeRule, fading: Fading
    ) -> None:
        self._machine = machine
        self._standings = standings
        self._rule = rule
        self._ledger = Ledger(fading, ())
        self._running: dict[int, _Run] = {}
        self._charged: dict[int, float] = {}
        self._due: list[tuple[float, int]] = []

    def began(self, key: Hashable, job: LogJob, now_s: float) -> None:
        """`job` starts; standings know it as `key`."""
        resources = Resources(job.width)
        self._running[job.number] = _Run(key, job, resources, now_s)
        self._charged[job.number] = 0.0
        expected_s = self._standings.expected_s(job.account, resources, job.estimate_s)
        heappush(self._due, (now_s + expected_s / self._rule.rate(resources), job.number))

    def bring_up_to(self, now_s: float, wall_s: float) -> None:
        """Charge what is due; before the ends of that moment are told."""
        while self._due and self._due[0][0] < now_s:
            _, number = heappop(self._due)
            run = self._running.get(number)
            if run is not None:
                self._charge(run, now_s, wall_s)
                heappush(self._due, (run.start_s + (now_s - run.start_s) * LONGER, number))
        self._publish()

    def ended(self, job: LogJob, now_s: float, wall_s: float) -> None:
        """`job` is over, and all of it is charged."""
        run = self._running.pop(job.number)
        self._charge(run, now_s, wall_s)
        del self._charged[job.number]
        self._ledger.ran(job.account, now_s - run.start_s, job.estimate_s)
        self._publish()

    def _charge(self, run: _Run, now_s: float, wall_s: float) -> None:
        ran_s = now_s - run.start_s
        whole_s = charge(run.resources, ran_s, run.job.width * ran_s, self._rule)
        number = run.job.number
        more_s = whole_s - self._charged[number]
        self._charged[number] = whole_s
        self._ledger.add(run.job.account, more_s, wall_s)
        self._standings.charged(run.key, whole_s)

    def _publish(self) -> None:
        for row in self._ledger.take_changed():
            self._standings.counted(self._machine, row, row.account)
