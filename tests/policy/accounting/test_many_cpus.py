"""Many cpus at once: provisional charges and the burst rule beside the draw."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

import pytest

from iriai.model.ids import Account
from iriai.policy.accounting.runtime_estimates import (
    RunSums,
    RunTimes,
    expected_charge,
    mean_run_s,
    provisional_charge,
)
from iriai.policy.draw.order import NO_GROUPS, Contender, shares_wanted
from iriai.policy.placement.calendar import is_below
from tests.policy.stories import contender, order

pytestmark = pytest.mark.long

DAY_S = 86400.0
BURST = 2.0


@dataclass
class ManyCpus:
    """Jobs of one cpu and of `run_s` seconds; each account has `waiting` of them."""

    cpus: int
    rights: Mapping[str, float]
    run_s: Mapping[str, float]
    waiting: dict[str, int]
    usage: dict[str, float] = field(default_factory=dict)
    order_name: str = "lottery"

    def __post_init__(self) -> None:
        self.rng = Random(1)
        self.order = order(self.order_name, floor_s=60.0)
        self.ends: list[tuple[float, str, float]] = []
        self.times = {name: RunTimes() for name in self.rights}
        self.now_s = 0.0
        self.done_s: Counter[str] = Counter()

    def running(self, name: str) -> int:
        return sum(who == name for _, who, _ in self.ends)

    def fill(self) -> None:
        """Start jobs until no cpu is free or nobody may take one."""
        while len(self.ends) < self.cpus and (drawn := self._draw()):
            name = str(drawn).lstrip("/")
            self.waiting[name] -= 1
            heapq.heappush(self.ends, (self.now_s + self.run_s[name], name, self.now_s))

    def run(self, jobs: int) -> dict[str, float]:
        """Each account's part of the cpu time of the next `jobs` jobs to end."""
        self.done_s.clear()
        for _ in range(jobs):
            self.fill()
            self.now_s, name, started_s = heapq.heappop(self.ends)
            ran_s = self.now_s - started_s
            self.usage[name] = self.usage.get(name, 0.0) + ran_s
            self.times[name] = self.times[name].with_run(ran_s)
            self.done_s[name] += ran_s
        return {name: self.done_s[name] / self.done_s.total() for name in self.rights}

    def _draw(self) -> Account | None:
        waiting = [self._contender(name) for name in self.rights if self.waiting[name]]
        shares = shares_wanted(waiting, NO_GROUPS)
        allowed = [c for c in waiting if self._may_start(c, shares, len(waiting) > 1)]
        return self.order.choose(allowed, NO_GROUPS, self.rng) if allowed else None

    def _may_start(self, c: Contender, shares: Mapping[Account, float], others_wait: bool) -> bool:
        running = self.running(c.account.user)
        most = BURST * shares[c.account] * self.cpus
        return not others_wait or not running or is_below(1, running, most)

    def _contender(self, name: str) -> Contender:
        usage_s = self.usage.get(name, 0.0) + sum(self._provisional(name))
        return contender(name, usage_s, self.rights[name], expected_s=self._expected_s(name))

    def _expected_s(self, name: str) -> float:
        own, everybody = RunSums(), RunSums()
        own = own.replaced(RunTimes(), self.times[name])
        for times in self.times.values():
            everybody = everybody.replaced(RunTimes(), times)
        return expected_charge(1.0, DAY_S, mean_run_s(own, everybody))

    def _provisional(self, name: str) -> Iterator[float]:
        for _, who, started_s in self.ends:
            if who == name:
                accrued_s = self.now_s - started_s
                # What has accrued is charged already, so both together are the expected whole.
                yield accrued_s + provisional_charge(self._expected_s(name), accrued_s)


@pytest.mark.parametrize("cpus", [1, 16])
def test_rights_1_to_4_whatever_the_number_of_cpus(cpus):
    room = ManyCpus(
        cpus,
        {"ann": 1.0, "ben": 4.0},
        {"ann": 10.0, "ben": 10.0},
        {"ann": 10**6, "ben": 10**6},
    )
    assert room.run(5_000) == pytest.approx({"ann": 0.2, "ben": 0.8}, abs=0.02)


# paper000 weighs 1 / usage whatever a job will cost: 16 times as long gets 4 : 1.
@pytest.mark.parametrize(("name", "long"), [("lottery", 0.5), ("stride", 0.5), ("paper000", 0.8)])
def test_jobs_of_160_s_beside_jobs_of_10_s(name, long):
    room = ManyCpus(
        8,
        {"long": 1.0, "short": 1.0},
        {"long": 160.0, "short": 10.0},
        {"long": 10**6, "short": 10**6},
        order_name=name,
    )
    room.run(2_000)
    assert room.run(8_000) == pytest.approx({"long": long, "short": 1 - long}, abs=0.03)


def four_with_a_newcomer(jobs_of_others):
    names = ["new", "ann", "ben", "cleo"]
    return ManyCpus(
        64,
        dict.fromkeys(names, 1.0),
        dict.fromkeys(names, 100.0),
        {"new": 1_000, **dict.fromkeys(names[1:], jobs_of_others)},
        usage=dict.fromkeys(names[1:], 1e6),
    )


def test_of_64_free_cpus_a_newcomer_among_four_waiting_accounts_takes_at_most_half():
    room = four_with_a_newcomer(jobs_of_others=1_000)
    room.fill()
    assert room.running("new") == 32
    assert all(room.running(name) > 0 for name in ("ann", "ben", "cleo"))


def test_the_newcomer_takes_all_once_the_others_have_nothing():
    room = four_with_a_newcomer(jobs_of_others=0)
    room.fill()
    assert room.running("new") == 64
