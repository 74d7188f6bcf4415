"""Why a parallel job waits: how many ranks fit, and what each machine lacks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.cli.framework.reasons import alike, reason_lines
from iriai.model.ad import machine_ad
from iriai.model.ranks import ONE, RankShape, shape_of
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources
from iriai.wire.requests import Why
from tests.broker.lone_broker import LoneBroker, as_running, want
from tests.support.naive_seats import most_by_trying
from tests.support.told import attempt, instant, job

BUSY_S = 600.0


class Pools:
    """Machines of pools, each with so many cpus in use of four."""

    def __init__(self, used: dict[str, list[int]], cpus: int = 4, **section) -> None:
        self.broker = LoneBroker(**section)
        self.number = 100
        for pool, claimed in used.items():
            for number, each in enumerate(claimed):
                self.report(f"{pool}{number}", pool, each, cpus)

    def report(self, name: str, pool: str, claimed: int, cpus: int = 4, **fields) -> None:
        began = ()
        if claimed:
            self.number += 1
            busy = want(self.number, "zoe", cpus=claimed, limit_s=BUSY_S)
            began = (as_running(busy, attempt_id=attempt(self.number), ends_in_s=BUSY_S),)
        ad = machine_ad({"Pool": pool, "Cpus": cpus, "MyType": "Machine"})
        capacity = Resources(cpus)
        idle = self.broker.idle(cpus, machine=name, capacity=capacity, ad=ad, began=began, **fields)
        self.broker.tell(idle)

    def why(self, ranks: str, nodes=None, per_node=None, number: int = 1, **fields):
        shape = shape_of(ranks, nodes, per_node)
        self.broker.tell(want(number, shape=shape, **({"limit_s": 60.0} | fields)))
        return self.of(number)

    def of(self, number: int) -> list[Reason]:
        reasons = self.broker.broker.explain(job(number), instant(self.broker.now_s))
        assert all(reason.needed or reason.had for reason in reasons)
        return reasons


def lines(reasons: list[Reason]) -> list[str]:
    return [f"{each.rule} {each.machine}: {each.needed}; {each.had}" for each in reasons]


def told(reasons: list[Reason]) -> str:
    """As a person reads them."""
    merged = alike(Why(each.rule, each.needed, each.had, each.machine) for each in reasons)
    return "\n".join(reason_lines(each) for each in merged)


def test_how_many_ranks_fit_is_said_of_each_pool_and_what_each_machine_lacks():
    assert told(Pools({"fast": [4, 2, 1, 4], "old": [3, 4]}).why("8")) == (
        """\
no pool has room for all its ranks now (pool-busy)
  needs  8 ranks
  there  5 of 8 fit in pool fast, on 2 of 4 machines
it has a promised start (reserved)
  needs  room for its ranks in pool fast
  there  it starts in 600 s at the latest
no pool has room for all its ranks now (pool-busy)
  needs  8 ranks
  there  1 of 8 fit in pool old, on 1 of 2 machines
the machine is busy (machine-busy)
  on     fast0, fast3, old1
  needs  1 cpu
  there  0 cpus free; waiting tasks: 1, accounts: 1
the machine is busy (machine-busy)
  on     fast1
  needs  3 cpus for 3 ranks
  there  2 cpus free, enough for 2
the machine is busy (machine-busy)
  on     fast2
  needs  4 cpus for 4 ranks
  there  3 cpus free, enough for 3
the machine is busy (machine-busy)
  on     old0
  needs  2 cpus for 2 ranks
  there  1 cpu free, enough for 1"""
    )


@pytest.mark.parametrize(
    ("asked", "cpus", "had"),
    [
        (("8",), 1, "5 of 8 fit in pool fast, on 2 of 4 machines"),
        (("4",), 2, "2 of 4 fit in pool fast, on 2 of 4 machines"),
        (("6", 3), 1, "4 of 6 fit in pool fast, on 2 of 4 machines"),
        (("7", 3), 1, "5 of 7 fit in pool fast, on 2 of 4 machines"),
        (("", 3, 3), 1, "3 of 9 fit in pool fast, on 1 of 4 machines"),
        (("6", None, 2), 1, "4 of 6 fit in pool fast, on 2 of 4 machines"),
        (("6-12",), 1, "5 of 6 fit in pool fast, on 2 of 4 machines"),
        (("2",), 4, "none of 2 fits in pool fast, which has 4 machines"),
    ],
)
def test_what_fits_is_counted_as_the_ranks_may_lie(asked, cpus, had):
    first = Pools({"fast": [4, 2, 1, 4]}).why(*asked, cpus=cpus)[0]
    assert (first.rule, first.had) == (Rule.POOL_BUSY, had)


def test_pools_that_could_never_hold_it_are_left_out():
    reasons = Pools({"fast": [4, 2], "small": [4]}).why("6")
    assert not [each for each in lines(reasons) if "small" in each]


def test_machines_of_all_pools_count_for_a_job_that_takes_them():
    pools = Pools({"fast": [4, 2], "old": [3, 4]})
    told_ = lines(pools.why("5", across_pools=True))
    assert told_[:2] == [
        "pool-busy : 5 ranks; 3 of 5 fit in all pools, on 2 of 4 machines",
        "reserved : room for its ranks in all pools; it starts in 600 s at the latest",
    ]
    assert not [each for each in told_[2:] if "pool-busy" in each]


def test_a_machine_that_holds_all_that_it_could_lacks_nothing():
    reasons = Pools({"fast": [0, 4]}).why("8")
    assert {reason.machine for reason in reasons} == {"", "fast1"}


def test_with_ranks_on_each_machine_what_lacks_is_for_all_of_them():
    reasons = Pools({"fast": [0, 2]}).why("", 2, 4)
    assert lines(reasons)[-1].startswith("machine-busy fast1: 4 cpus; 2 cpus free")


def test_what_no_pool_could_hold_names_what_would_help():
    pools = Pools({"fast": [0, 0], "old": [0]})
    assert lines(pools.why("10")) == [
        (
            "no-pool : 10 ranks; the largest, fast of 2 machines, could hold 8 ranks; all pools "
            "together could hold it (iriai alter ume-1 --across-pools)"
        )
    ]
    assert lines(pools.why("13", number=2)) == [
        "no-pool : 13 ranks; the largest, fast of 2 machines, could hold 8 ranks"
    ]


def test_too_few_machines_that_match_are_no_pool():
    pools = Pools({"big": [0]}, cpus=8)
    pools.report("big1", "big", 0, cpus=4)
    told_ = lines(pools.why("10", requirements="Cpus >= 8"))
    assert told_ == [
        "no-pool : 10 ranks; the only matching machine could hold 8 ranks",
        "requirements big1: Cpus >= 8; Cpus is 4",
    ]


def test_a_task_behind_a_parallel_head_names_it():
    pools = Pools({"fast": [4, 2, 1, 4]})
    pools.why("12")
    assert lines(pools.why("5", number=2, user="bob", limit_s=None))[0] == (
        "reserved-head-ahead : to end before the reserved head starts, or resources that it "
        "leaves; ume-1: it starts in 600 s at the latest"
    )


def test_one_that_must_not_pass_heads_names_the_one_ahead():
    pools = Pools({"fast": [4, 2, 1, 4]}, backfill="none")
    pools.why("12")
    assert lines(pools.why("2", number=2, user="bob"))[0].startswith("reserved-head-ahead : ")


def test_a_machine_that_is_drained_or_away_says_so():
    pools = Pools({"fast": [4, 0]})
    drained = Reason(Rule.DRAINED, "that it is resumed", "drained by ann", "fast1")
    pools.report("fast1", "fast", 0, unavailable=drained)
    reasons = pools.why("4")
    assert reasons[0].had == "none of 4 fits in pool fast, which has 2 machines"
    assert drained in reasons


def test_the_accounts_cap_counts_all_ranks():
    [reason] = Pools({"fast": [0, 0]}, cap_cpus=5).why("3", cpus=2)
    assert (reason.rule, reason.needed) == (Rule.RUNNING_CAP, "6 more cpus")


def test_an_answer_is_bounded_however_many_machines_and_pools_there_are():
    pools = Pools({f"p{number}": [2, 3, 4] for number in range(20)})
    reasons = pools.why("9")
    assert len(reasons) < 20
    assert lines(reasons)[5] == "pool-busy : 9 ranks; 16 more pools have room for no more of them"


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.integers(1, 20),
    st.none() | st.integers(1, 4),
)
def test_the_ranks_that_fit_are_those_that_trying_all_ways_finds(used, ranks, per_node):
    shape = RankShape(ranks, ranks, None, per_node)
    if shape == ONE or not shape.ranks_below(ranks):
        return
    fits = [4 - each for each in used if each < 4]
    most = most_by_trying(fits, shape._replace(least=1)) if fits else 0
    [first, *_] = Pools({"a": used}).why(str(ranks), None, per_node)
    if ranks > len(used) * (per_node or 4):
        assert first.rule is Rule.NO_POOL
    elif most == ranks:
        assert first.rule is Rule.STARTING
    else:
        count = f"{most} of" if most else "none of"
        assert (first.rule, first.had.startswith(count)) == (Rule.POOL_BUSY, True)
