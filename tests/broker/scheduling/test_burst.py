"""While others wait, no account gets more than `burst` times its share of the cpus."""

from __future__ import annotations

from collections import Counter

from iriai.model.resources import Resources
from tests.broker.lone_broker import LoneBroker, matched, want


def started(*wants, seed: int = 1) -> Counter[str]:
    """How many tasks of each user start on an idle machine of 64 cpus."""
    broker = LoneBroker(burst=1.0, seed=seed)
    users = {each.job: each.account.user for each in wants}
    said = broker.tell(broker.idle(64, capacity=Resources(64)), *wants)
    return Counter(users[each] for each in matched(said))


def test_two_that_wait_get_their_halves_and_no_more():
    wants = [want(n, user, count=64) for n, user in enumerate(("ann", "bob"), 1)]
    assert started(*wants) == {"ann": 32, "bob": 32}


def test_one_alone_gets_all():
    assert started(want(1, "ann", count=64)) == {"ann": 64}


def test_at_least_one_task_runs_however_large():
    wants = want(1, "ann", cpus=60), want(2, "bob", count=100)
    found = [started(*wants, seed=seed) for seed in range(20)]
    # Drawn first, it takes nearly all; drawn after others, it finds no room.
    assert {each["ann"] for each in found} == {0, 1}
