"""What accounts get of one machine, all parts at work: jobs that cost differently, and haste."""

from typing import NamedTuple

import pytest

from iriai.config.reader import parse_configuration
from tests.support.virtual import VirtualMachine

pytestmark = pytest.mark.long

GROUPS = "[groups.lab]\nright = 1\n[groups.shop]\nright = 1\n"
TASKS = 20_000
"""More than are run: everybody always waits."""
WARM_UP_S = 2_000.0
THREE_POINTS = 0.03
LONG_S = 40_000.0
"""While room is kept for a wide task, narrow ones fill in that nobody drew: in the long run the
wide ones get 47.1 %. In a shorter one chance adds to that."""


class Stream(NamedTuple):
    """Tasks of one kind without end."""

    account: str
    cpus: int = 1
    run_s: float = 10.0
    urgency: float = 1.0
    limit_s: float | None = None

    @property
    def lasts_s(self) -> float:
        return self.run_s if self.limit_s is None else min(self.run_s, self.limit_s)


def shares_of(*streams, configuration="", seconds=10_000.0):
    """Each stream's part of the cpu seconds begun on 8 cpus."""
    machine = VirtualMachine(
        8, configuration=parse_configuration(configuration, "test"), is_checked=False
    )
    costs, used = {}, {}
    for stream in streams:
        group, user = stream.account.split("/")
        job = machine.submit(
            user,
            group=group,
            tasks=TASKS,
            cpus=stream.cpus,
            run_s=stream.run_s,
            urgency=stream.urgency,
            limit_s=stream.limit_s,
        )
        costs[job.number] = (stream.account, stream.cpus * stream.lasts_s)
        used[stream.account] = 0.0
    machine.wait(WARM_UP_S)
    began = len(machine.launcher.starts)
    machine.wait(seconds)
    for attempt in machine.launcher.starts[began:]:
        account, cost_s = costs[attempt.number]
        used[account] += cost_s
    return {account: used_s / sum(used.values()) for account, used_s in used.items()}


def test_long_jobs_beside_short_ones_get_half():
    shares = shares_of(Stream("lab/long", run_s=160.0), Stream("lab/short"))
    assert shares["lab/long"] == pytest.approx(0.5, abs=THREE_POINTS)


@pytest.mark.parametrize("cpus", [pytest.param(4, marks=pytest.mark.soak), 8])
def test_wide_jobs_beside_narrow_ones_get_half(cpus):
    shares = shares_of(Stream("lab/wide", cpus=cpus), Stream("lab/narrow"), seconds=LONG_S)
    assert shares["lab/wide"] == pytest.approx(0.5, abs=THREE_POINTS)


def test_jobs_that_always_run_to_their_limit_get_half():
    endless = Stream("lab/endless", run_s=1e9, limit_s=160.0)
    shares = shares_of(endless, Stream("lab/short"))
    assert shares["lab/endless"] == pytest.approx(0.5, abs=THREE_POINTS)


def test_in_a_group_neither_length_nor_haste_gains_or_costs_anything():
    shares = shares_of(
        Stream("lab/long", run_s=160.0, urgency=5.0),
        Stream("lab/short"),
        Stream("shop/short"),
        configuration=GROUPS,
        seconds=30_000.0,
    )
    assert shares == pytest.approx(
        {"lab/long": 0.25, "lab/short": 0.25, "shop/short": 0.5}, abs=THREE_POINTS
    )


def test_without_configured_groups_a_user_with_two_counts_once():
    shares = shares_of(Stream("lab/ann"), Stream("art/ann"), Stream("lab/ben"))
    assert shares["lab/ben"] == pytest.approx(0.5, abs=THREE_POINTS)


def test_where_groups_are_configured_each_counts_for_itself():
    shares = shares_of(
        Stream("lab/ann"), Stream("shop/ann"), Stream("lab/ben"), configuration=GROUPS
    )
    assert shares == pytest.approx(
        {"lab/ann": 0.25, "shop/ann": 0.5, "lab/ben": 0.25}, abs=THREE_POINTS
    )
