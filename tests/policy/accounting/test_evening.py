"""What is evened: what accounts have used, or what they use now (paper 003, section 3.1)."""

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iriai.broker.usage.usage import UsageAccounts
from iriai.model.ids import Account
from iriai.model.records import LedgerRow
from iriai.model.resources import NOTHING, Resources
from iriai.policy.accounting.decay import ChargeRule, Decay
from iriai.policy.draw.order import evened_s
from tests.policy.stories import contender, order

WALL_S = 1_800_000_000.0
FLOOR_S = 60.0
ONE_CPU = Resources(cpus=1)


class Room:
    """Cpus that are always taken: whenever a task ends, an account is drawn and starts one."""

    def __init__(self, even: str, name: str, cpus: int, used_s: Mapping[str, float], seed: int):
        self.usage = UsageAccounts(Decay(604_800.0), ChargeRule(), even)
        self.rights = dict.fromkeys(used_s, 1.0)
        self._order, self._rng = order(name, FLOOR_S), Random(seed)
        self._running: dict[int, str] = {}
        self._number = 0
        for user, charged_s in used_s.items():
            row = LedgerRow(Account("", user), charged_s, WALL_S, 8, 8 * 3600.0)
            self.usage.counted("ume", row, row.account)
        for _ in range(cpus):
            self._start()

    def turn_over(self, times: int = 1) -> None:
        """Let each task end, in any order, and another one start in its place."""
        for _ in range(times):
            running = list(self._running)
            self._rng.shuffle(running)
            for key in running:
                user = self._running.pop(key)
                self.usage.ended(key)
                self._charge(user)
                self._start()

    def cpus(self) -> dict[str, int]:
        return dict.fromkeys(self.rights, 0) | Counter(self._running.values())

    def _charge(self, user: str) -> None:
        rows = LedgerRow(Account("", user), 3600.0, WALL_S, 8, 8 * 3600.0)
        self.usage.counted(f"run {self._number}", rows, rows.account)

    def _start(self) -> None:
        contenders = [
            contender(user, self.usage.in_draw_s(Account("", user), WALL_S), right)
            for user, right in self.rights.items()
        ]
        chosen = self._order.choose(contenders, {}, self._rng)
        self._number += 1
        self.usage.began(self._number, chosen, ONE_CPU, None, 1.0, speed=1.0)
        self._running[self._number] = chosen.user


used = st.floats(0.0, 1e9)
cpus = st.integers(2, 24)
seeds = st.integers(0, 999)


@given(cpus=cpus, ann_s=used, ben_s=used, seed=seeds)
def test_by_rate_equal_accounts_hold_equal_cpus_whatever_they_have_used(cpus, ann_s, ben_s, seed):
    room = Room("rate", "stride", cpus, {"ann": ann_s, "ben": ben_s}, seed)
    for _ in range(3):
        held = room.cpus()
        assert abs(held["ann"] - held["ben"]) <= 1
        room.turn_over()


@given(cpus=cpus, seed=seeds)
def test_a_newcomer_has_its_part_after_one_turnover(cpus, seed):
    room = Room("rate", "stride", cpus, {"ann": 0.0}, seed)
    assert room.cpus() == {"ann": cpus}
    room.rights["ben"] = 1.0
    room.turn_over()
    held = room.cpus()
    assert abs(held["ann"] - held["ben"]) <= 1


@settings(max_examples=20)
@given(ann_s=used, ben_s=used, seed=seeds)
def test_the_lottery_evens_the_rate_in_the_mean(ann_s, ben_s, seed):
    room = Room("rate", "lottery", 32, {"ann": ann_s, "ben": ben_s}, seed)
    held: Counter[str] = Counter()
    for _ in range(40):
        room.turn_over()
        held.update(room.cpus())
    assert held["ann"] / held.total() == pytest.approx(0.5, abs=0.05)


def test_the_lottery_gives_cpus_by_rights():
    room = Room("rate", "lottery", 40, {"ann": 1e6, "ben": 0.0}, 1)
    room.rights["ben"] = 3.0
    held: Counter[str] = Counter()
    for _ in range(60):
        room.turn_over()
        held.update(room.cpus())
    assert held["ben"] / held.total() == pytest.approx(0.75, abs=0.03)


@given(cpus=cpus, more_s=st.floats(1.0, 1e6), seed=seeds)
def test_by_total_who_has_used_less_gets_all_until_it_has_caught_up(cpus, more_s, seed):
    ahead_s = 3600.0 * cpus + more_s
    room = Room("total", "stride", cpus, {"ann": ahead_s, "ben": 0.0}, seed)
    assert room.cpus() == {"ann": 0, "ben": cpus}


def test_by_total_who_has_used_less_gets_more_first():
    room = Room("total", "lottery", 30, {"ann": 3e6, "ben": 1e4}, 1)
    assert room.cpus()["ben"] > 25


@given(used_s=used, rate=st.floats(0.0, 1e6))
def test_one_of_both_counts(used_s, rate):
    assert evened_s("total", used_s, rate) == used_s
    assert evened_s("rate", used_s, rate) == evened_s("rate", 0.0, rate)


def test_the_rate_is_what_running_tasks_are_charged_in_a_second():
    usage = UsageAccounts(Decay(604_800.0), ChargeRule(), "rate")
    ann = Account("lab", "ann")
    usage.began("a", ann, Resources(cpus=2, gpus=1), 60.0, 3.0, speed=1.5)
    usage.began("b", ann, ONE_CPU, None, 1.0, speed=1.0)
    assert usage.rate(ann) == pytest.approx((2 + 8) * 3 * 1.5 + 1)
    usage.uses("a", NOTHING)
    assert usage.rate(ann) == pytest.approx(1)
    usage.uses("a", Resources(cpus=2, gpus=1))
    usage.ended("b")
    assert usage.rate(ann) == pytest.approx(45)
    usage.check(["a"])
    usage.ended("a")
    assert usage.rate(ann) == usage.in_draw_s(ann, WALL_S) == 0.0
