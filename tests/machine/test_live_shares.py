"""What accounts get while their jobs run, all parts at work; the seeds are in the tests' names."""

from __future__ import annotations

from collections import Counter

import pytest

from iriai.config.reader import Configuration
from iriai.config.sections import GroupSection, OrderSection
from iriai.model.ids import Account
from iriai.model.records import LedgerRow
from tests.support.virtual import WALL_S, VirtualMachine

pytestmark = pytest.mark.long

CPUS = 8
RUN_S = 10.0
SEEDS = (1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3)))
seeds = pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed {seed}")


def room(seed: int, *, order: OrderSection | None = None, groups=None) -> VirtualMachine:
    configuration = Configuration(order=order or OrderSection(), groups=groups or {})
    return VirtualMachine(CPUS, configuration=configuration, seed=seed, is_checked=False)


def begun(machine: VirtualMachine, number_of_starts: int | None = None) -> Counter[str]:
    """How many of the first starts each account got, by user."""
    accepted = machine.store.accepted
    starts = machine.launcher.starts[:number_of_starts]
    return Counter(accepted[attempt.number].spec.account.user for attempt in starts)


def shares(counts: Counter[str]) -> dict[str, float]:
    return {user: count / counts.total() for user, count in counts.items()}


def run_starts(machine: VirtualMachine, wanted: int) -> Counter[str]:
    while len(machine.launcher.starts) < wanted:
        machine.wait(RUN_S)
    return begun(machine, wanted)


@seeds
def test_accounts_with_very_different_numbers_of_jobs_get_a_third_each(seed):
    """Single jobs; until the first account has started its last."""
    machine = room(seed)
    for user, jobs in (("few", 300), ("some", 1000), ("many", 3000)):
        for _ in range(jobs):
            machine.submit(user, run_s=RUN_S)
    while begun(machine)["few"] < 300:
        machine.wait(RUN_S)
    starts = machine.launcher.starts
    few = [n for n, a in enumerate(starts) if machine.store.accepted[a.number].spec.user == "few"]
    got = shares(begun(machine, few[-1] + 1))
    assert got == pytest.approx({"few": 1 / 3, "some": 1 / 3, "many": 1 / 3}, abs=0.04)


@seeds
def test_one_alone_gets_all(seed):
    machine = room(seed)
    machine.submit("ann", tasks=1000, run_s=RUN_S)
    for _ in range(20):
        machine.wait(RUN_S)
        assert len(machine.launcher.running) == CPUS


@seeds
def test_who_has_used_a_thousand_times_as_much_still_runs(seed):
    machine = room(seed)
    for user, used_s in (("heavy", 1e6), ("light", 1e3)):
        machine.store.write([LedgerRow(Account("lab", user), used_s, WALL_S - 6e5, 50, 8 * RUN_S)])
    machine.restart()
    machine.submit("light", tasks=100_000, run_s=RUN_S)
    machine.submit("heavy", tasks=10, run_s=RUN_S)
    assert run_starts(machine, 4000)["heavy"] > 0


@seeds
def test_who_has_used_a_thousand_times_as_much_has_all_when_alone(seed):
    machine = room(seed)
    row = LedgerRow(Account("lab", "heavy"), 1e9, WALL_S - 6e5, 50, 8 * RUN_S)
    machine.store.write([row])
    machine.restart()
    machine.submit("heavy", tasks=10, run_s=RUN_S)
    machine.finish()
    assert machine.now_s == 1000.0 + 2 * RUN_S


@seeds
@pytest.mark.parametrize(("name", "ann"), [("lottery", 1 / 5), ("paper000", 1 / 3)])
def test_rights_of_one_to_four(seed, name, ann):
    """Paper 000 ends at the square root of the rights (docs/spec/003), where no burst binds."""
    order = OrderSection(name=name, burst=8.0)
    machine = room(seed, order=order, groups={"lab": GroupSection(1.0), "shop": GroupSection(4.0)})
    for user, group in (("ann", "lab"), ("bob", "shop")):
        machine.submit(user, group=group, tasks=20_000, run_s=RUN_S)
    got = shares(run_starts(machine, 10_000))
    assert got["ann"] == pytest.approx(ann, abs=0.02)


@seeds
def test_groups_of_three_and_of_one_get_half_each(seed):
    machine = room(seed, groups={"lab": GroupSection(1.0), "shop": GroupSection(1.0)})
    for user, group in (("ann", "lab"), ("bob", "lab"), ("cleo", "lab"), ("dora", "shop")):
        machine.submit(user, group=group, tasks=20_000, run_s=RUN_S)
    got = shares(run_starts(machine, 10_000))
    assert got["dora"] == pytest.approx(0.5, abs=0.02)
    assert [got[user] for user in ("ann", "bob", "cleo")] == pytest.approx([1 / 6] * 3, abs=0.02)


@seeds
@pytest.mark.parametrize("even", ["total", "rate"])
def test_what_was_used_before_does_not_count_where_the_rate_is_evened(seed, even):
    machine = room(seed, order=OrderSection(even=even, burst=8.0))
    for user, used_s in (("heavy", 1e6), ("light", 1e3)):
        machine.store.write([LedgerRow(Account("lab", user), used_s, WALL_S - 6e5, 50, 8 * RUN_S)])
    machine.restart()
    for user in ("heavy", "light"):
        machine.submit(user, tasks=20_000, run_s=RUN_S)
    got = shares(run_starts(machine, 2000))["heavy"]
    assert got == pytest.approx(0.5, abs=0.03) if even == "rate" else got < 0.1
