"""Of the pools in which a parallel task fits it gets the lightest, of equals the faster."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.ad import machine_ad
from iriai.model.ranks import RankShape
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources
from iriai.protocol.messages.scheduling import Promise
from tests.broker.lone_broker import LoneBroker, as_running, matches, want
from tests.support.told import attempt

DRAINED = Reason(Rule.DRAINED, "that it is resumed", "drained by ann")
LONG_S = 1000.0


class Host(NamedTuple):
    """One machine of a pool."""

    pool: str
    cpus: int = 4
    claimed: int = 0
    load: float = 0.0
    foreign_load: float = 0.0
    speed: float = 1.0
    is_drained: bool = False

    @property
    def busy(self) -> float:
        return max(self.load, self.foreign_load + self.claimed)


class Site:
    """A broker with such machines, m0 and on."""

    def __init__(self, *hosts: Host, **section) -> None:
        self.broker = LoneBroker(**section)
        self.pools = {f"m{number}": host.pool for number, host in enumerate(hosts)}
        reports = []
        for number, host in enumerate(hosts):
            busy = want(100 + number, "zoe", cpus=host.claimed)
            claim = as_running(busy, attempt_id=attempt(100 + number), ends_in_s=LONG_S)
            reports.append(
                self.broker.idle(
                    host.cpus,
                    machine=f"m{number}",
                    capacity=Resources(host.cpus),
                    ad=machine_ad({"Pool": host.pool}),
                    began=(claim,) if host.claimed else (),
                    load=host.load,
                    foreign_load=host.foreign_load,
                    speed=host.speed,
                    unavailable=DRAINED if host.is_drained else None,
                )
            )
        self.broker.tell(*reports)

    def submit(self, ranks: int, number: int = 1, **fields) -> list[list[tuple[str, int]]]:
        """Machines and ranks of each match that follows."""
        shape = fields.pop("shape", RankShape(ranks, ranks))
        wanted = want(number, shape=shape, **({"limit_s": 60.0} | fields))
        told = matches(self.broker.tell(wanted))
        return [[(seat.machine, seat.ranks) for seat in match.seats] for match in told]

    def pool_of(self, *asked, **fields) -> str:
        """The one pool of the match; empty where it does not start."""
        found = self.submit(*asked, **fields)
        if not found:
            return ""
        [name] = {self.pools[machine] for machine, _ in found[0]}
        return name


def test_the_lighter_of_two_pools_is_taken():
    assert Site(Host("a", load=2.0), Host("b", load=1.0)).pool_of(2) == "b"
    assert Site(Host("a", load=1.0), Host("b", load=2.0)).pool_of(2) == "a"


def test_loads_are_compared_relative_to_speed():
    """Twice the load on machines that are three times as fast is less."""
    assert Site(Host("a", load=1.0), Host("b", load=2.0, speed=3.0)).pool_of(2) == "b"
    assert Site(Host("a", load=1.0), Host("b", load=2.0, speed=1.5)).pool_of(2) == "a"


def test_larger_pools_bear_more():
    light = Site(Host("a", load=1.0), *[Host("b", load=1.0)] * 2, Host("b"))
    assert light.pool_of(2) == "b"


def test_of_pools_with_equal_load_the_faster_is_taken():
    assert Site(Host("a"), Host("b", speed=2.0)).pool_of(2) == "b"
    assert Site(Host("a", speed=2.0), Host("b")).pool_of(2) == "a"


def test_of_pools_that_are_alike_the_first_by_name():
    assert Site(Host("b"), Host("a")).pool_of(2) == "a"


def test_what_was_claimed_a_moment_ago_counts_before_any_load_does():
    site = Site(Host("a"), Host("b"), Host("a"), Host("b"))
    assert [site.pool_of(2, number=number) for number in (1, 2, 3, 4)] == ["a", "b", "a", "b"]


def test_the_load_of_what_is_not_ours_counts_beside_claims():
    site = Site(Host("a", claimed=1, load=1.0, foreign_load=1.0), Host("b", load=1.5))
    assert site.pool_of(2) == "b"


def test_machines_that_take_no_tasks_are_neither_load_nor_speed():
    site = Site(Host("a", load=1.0), Host("a", load=0.0, is_drained=True), Host("b", load=0.9))
    assert site.pool_of(2) == "b"


def test_a_pool_without_room_now_is_not_chosen_however_light_it_is():
    site = Site(Host("a"), Host("b", load=3.0), Host("b", load=3.0))
    assert site.pool_of(6) == "b"


def test_ranks_are_of_one_pool_though_two_would_hold_them():
    site = Site(Host("a"), Host("b"))
    assert site.pool_of(6) == ""
    assert site.broker.broker.state.queues.ready == 1


def test_a_job_may_take_machines_of_all_pools():
    site = Site(Host("a"), Host("b"), Host("c"))
    [seats] = site.submit(10, across_pools=True)
    assert sorted(seats) == [("m0", 4), ("m1", 4), ("m2", 2)]


def test_a_job_that_may_takes_no_more_machines_than_it_needs():
    [seats] = Site(Host("a"), Host("b", cpus=8), Host("c")).submit(9, across_pools=True)
    assert seats[0] == ("m1", 8)
    assert len(seats) == 2


def test_a_number_of_machines_may_be_of_several_pools():
    asked = RankShape(4, 4, nodes=2)
    assert Site(Host("a"), Host("b")).submit(4, shape=asked) == []
    [seats] = Site(Host("a"), Host("b")).submit(4, shape=asked, across_pools=True)
    assert sorted(seats) == [("m0", 2), ("m1", 2)]


def test_a_task_of_one_rank_goes_to_the_least_loaded_machine_of_any_pool():
    site = Site(Host("a", load=0.1), Host("a", load=0.1), Host("b", load=3.0), Host("b", load=0.0))
    assert site.submit(1) == [[("m3", 1)]]


def test_tasks_of_an_array_go_to_machines_of_all_pools():
    site = Site(Host("a"), Host("b"), Host("c"))
    found = site.submit(1, count=12)
    assert len(found) == 12
    machines = [machine for [(machine, _)] in found]
    assert {machine: machines.count(machine) for machine in machines} == {
        "m0": 4,
        "m1": 4,
        "m2": 4,
    }


def test_each_parallel_task_of_an_array_has_a_pool_of_its_own():
    site = Site(Host("a"), Host("b"))
    found = site.submit(4, count=3)
    assert sorted(seats for [seats] in found) == [("m0", 4), ("m1", 4)]


@pytest.mark.parametrize("name", ["", "a"])
def test_machines_without_a_pool_are_one(name):
    site = Site(Host(name), Host(name), Host("other", load=4.0))
    assert site.pool_of(8) == name
    assert len(site.broker.broker.state.index.rooms.pools(is_across=False)) == 2


HOSTS = st.builds(
    Host,
    pool=st.sampled_from("abc"),
    cpus=st.sampled_from((2, 4)),
    claimed=st.integers(0, 1),
    load=st.sampled_from((0.0, 1.0, 2.0)),
    foreign_load=st.sampled_from((0.0, 0.5)),
    speed=st.sampled_from((1.0, 2.0)),
    is_drained=st.sampled_from((False, False, False, True)),
)


def lightest(hosts: list[Host], ranks: int) -> str | None:
    """By the rule's words: where it fits, load by speed, then speed, then name."""
    best: tuple[float, float, str] = (inf, inf, "")
    found = None
    for name in {host.pool for host in hosts}:
        taking = [host for host in hosts if host.pool == name and not host.is_drained]
        if sum(host.cpus - host.claimed for host in taking) < ranks:
            continue
        speed = sum(host.cpus * host.speed for host in taking)
        order = (sum(host.busy for host in taking) / speed, -speed, name)
        if order < best:
            best, found = order, name
    return found


def test_a_task_across_pools_starts_in_one_where_no_head_waits():
    site = Site(Host("a", claimed=3), Host("a"), Host("b", claimed=4))
    assert not site.submit(8)  # it waits for all of pool a
    assert not site.submit(4, number=2, across_pools=True, limit_s=5 * LONG_S)
    ended = {"ended": (attempt(102),), "capacity": Resources(4), "machine": "m2"}
    [match] = matches(site.broker.tell(site.broker.idle(4, whole=False, **ended)))
    assert [(seat.machine, seat.ranks) for seat in match.seats] == [("m2", 4)]


@given(st.lists(HOSTS, min_size=3, max_size=8), st.integers(2, 5))
def test_it_is_the_one_that_the_rule_names(hosts, ranks):
    assert (Site(*hosts).pool_of(ranks) or None) == lightest(hosts, ranks)


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_a_promise_names_the_pool(backfill):
    site = Site(Host("a", claimed=2), Host("a"), Host("b"), backfill=backfill)
    told = site.broker.tell(want(1, shape=RankShape(8, 8), limit_s=60.0))
    [promise] = [each for each in told.home if isinstance(each, Promise)]
    assert (promise.machine, promise.pool) == ("", "a")
    told = site.broker.tell(want(2, shape=RankShape(12, 12), limit_s=60.0, across_pools=True))
    across = [each for each in told.home if isinstance(each, Promise) and each.job.number == 2]
    assert {each.pool for each in across} <= {""}
