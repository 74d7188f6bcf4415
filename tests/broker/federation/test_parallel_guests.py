"""A parallel task is forwarded to another cluster whole, or not at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.broker.core import Broker
from iriai.broker.federation.peer_clusters import (
    PeerCluster,
    Portions,
    RemoteCapacity,
    vacancies_of,
)
from iriai.model.ad import machine_ad
from iriai.model.ids import JobId
from iriai.model.ranks import RankShape, shape_of
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from iriai.protocol.messages.candidates import ClusterPeer
from iriai.protocol.messages.scheduling import Forward, Match, Returned, Summary, Vacancy, Want
from tests.broker.federation.test_several_clusters import EAST, ONE, broker, told, turn
from tests.broker.federation.test_several_clusters import want as plain_want
from tests.broker.lone_broker import LoneBroker, as_running
from tests.broker.lone_broker import want as wanted

FOUR = Resources(4)


def want(number: int, *asked: object, count: int = 1, home: str = "w0", **fields: object) -> Want:
    shape = shape_of(*asked)
    return replace(plain_want(number, count, home), shape=shape, limit_s=60.0, **fields)


def summary(*machines: int) -> Summary:
    """Of groups of so many machines with four cpus each, all free."""
    free = tuple(Vacancy(count, FOUR.times(count)) for count in machines)
    return Summary("e0", "east", free, (FOUR,), 0)


def with_pools(**pools: int) -> Broker:
    """The broker of `west` with so many machines of four cpus in each pool."""
    core, lone = broker(EAST), LoneBroker()
    names = [(pool, f"{pool}{number}") for pool, count in pools.items() for number in range(count)]
    reports = [
        lone.idle(machine=name, capacity=FOUR, ad=machine_ad({"Pool": pool}))
        for pool, name in names
    ]
    turn(core, 1.0, *reports)
    return core


def guest(core: Broker, *asked: object, number: int = 1, **fields: object) -> list:
    return turn(
        core, 2.0, Forward("e0", number, "east", 1, want(number, *asked, home="e1", **fields))
    )


# --- the sender ----------------------------------------------------------------------------------


def test_a_task_is_forwarded_with_its_ranks_where_all_of_them_fit():
    core = broker(EAST)
    [forward] = told(turn(core, 1.0, summary(2), want(1, "8", None, 4)), Forward)
    assert (forward.want.count, forward.want.shape) == (1, RankShape(8, 8, None, 4))
    assert forward.want.resources == ONE  # of one rank
    assert JobId("w0", 1) not in core.state.queues.entries


def test_a_task_of_more_ranks_than_fit_there_is_not_forwarded_in_part():
    core = broker(EAST)
    assert not told(turn(core, 1.0, summary(2), want(1, "9")), Forward)
    assert core.state.queues.entries[JobId("w0", 1)].count == 1


def test_of_several_tasks_as_many_go_as_fit_whole():
    [forward] = told(turn(broker(EAST), 1.0, summary(2), want(1, "3", count=4)), Forward)
    assert forward.want.count == 2


def test_what_was_forwarded_is_counted_down_with_all_its_ranks():
    core = broker(EAST)
    turn(core, 1.0, summary(2), want(1, "6"))
    assert not told(turn(core, 1.1, want(2, "3")), Forward)
    assert told(turn(core, 1.2, want(3, "2")), Forward)


def test_of_a_range_the_least_must_fit():
    assert told(turn(broker(EAST), 1.0, summary(1), want(1, "4-64")), Forward)
    assert not told(turn(broker(EAST), 1.0, summary(1), want(1, "5-64")), Forward)


def test_machines_are_counted_where_each_holds_a_part():
    assert not told(turn(broker(EAST), 1.0, summary(2), want(1, "3", 3)), Forward)
    assert told(turn(broker(EAST), 1.0, summary(3), want(1, "3", 3)), Forward)
    assert not told(turn(broker(EAST), 1.0, summary(4), want(1, "", 1, 5)), Forward)


def test_a_task_that_comes_back_says_nothing_against_room_for_others():
    core = broker(EAST)
    [forward] = told(turn(core, 1.0, summary(3), want(1, "8")), Forward)
    sends = turn(core, 1.1, Returned("e0", forward.number, 1), want(2, "2"))
    assert [each.want.job.number for each in told(sends, Forward)] == [2]
    assert core.state.queues.entries[JobId("w0", 1)].count == 1


def test_the_last_task_of_a_parallel_head_keeps_its_place_while_another_is_asked():
    core = with_pools(a=2)
    busy = wanted(9, "zoe", cpus=4, limit_s=600.0)
    began = (as_running(busy, ends_in_s=600.0),)
    lone = LoneBroker()
    report = lone.idle(0, machine="a0", capacity=FOUR, ad=machine_ad({"Pool": "a"}), began=began)
    turn(core, 1.5, replace(report, incarnation=2))
    sends = turn(core, 2.0, want(1, "6"), summary(2))
    assert core.state.heads.by_job.keys() == {JobId("w0", 1)}
    assert told(sends, Forward)
    assert core.state.queues.entries[JobId("w0", 1)].count == 1
    assert vacancies_of(core.state) == ()  # what is free is kept for it


# --- the receiver --------------------------------------------------------------------------------


def test_a_guest_starts_on_the_machines_of_one_pool():
    sends = guest(with_pools(a=1, b=2), "8")
    [match] = told(sends, Match)
    assert [(seat.machine[0], seat.ranks) for seat in match.seats] == [("b", 4), ("b", 4)]
    assert match.broker == "w0"
    [answer] = told(sends, Returned)
    assert answer.count == 0


def test_a_guest_for_which_no_pool_has_room_is_returned_whole():
    core = with_pools(a=2, b=1)
    guest(core, "2", number=7)
    sends = guest(core, "8")
    assert not told(sends, Match)
    [answer] = told(sends, Returned)
    assert (answer.count, answer.reason) == (1, None)
    assert not core.state.queues.entries
    assert not core.state.heads.by_job  # and no place is kept for it


def test_a_guest_that_no_pool_could_ever_hold_is_returned_with_that():
    [answer] = told(guest(with_pools(a=2, b=2), "9"), Returned)
    assert answer.reason is not None
    assert (answer.count, answer.reason.rule) == (1, Rule.NO_POOL)
    assert answer.reason.needed == "9 ranks"


def test_a_guest_may_take_machines_of_all_pools_if_it_says_so():
    [match] = told(guest(with_pools(a=1, b=1), "8", across_pools=True), Match)
    assert {seat.machine for seat in match.seats} == {"a0", "b0"}


def test_of_several_tasks_of_a_guest_those_that_fit_start_whole():
    sends = guest(with_pools(a=2), "3", count=4)
    assert [sum(seat.ranks for seat in match.seats) for match in told(sends, Match)] == [3, 3]
    assert told(sends, Returned)[0].count == 2


def test_a_guest_is_passed_on_whole_as_well():
    core = broker(EAST, ClusterPeer("north", ("n0",)))
    north = replace(summary(2), broker="n0", cluster="north")
    turn(core, 1.0, north)
    [forward] = told(guest(core, "8"), Forward)
    assert (forward.hops, forward.want.shape.least) == (2, 8)


# --- how many fit --------------------------------------------------------------------------------


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 12),
    st.none() | st.integers(1, 4),
    st.integers(1, 3),
)
def test_no_more_tasks_are_expected_to_fit_on_empty_machines_than_do(
    machines, cpus, ranks, per_node, need
):
    if per_node is not None:
        ranks *= per_node
    other = PeerCluster(EAST)
    capacity = Resources(cpus)
    other.capacities = [RemoteCapacity(Vacancy(machines, capacity.times(machines)))]
    task = Portions.of(Resources(need), RankShape(ranks, ranks, None, per_node))
    fit = cpus // need
    if per_node is None:
        most = machines * fit // ranks
    else:
        most = machines // (ranks // per_node) if fit >= per_node else 0
    assert other.fits(task) <= most
    assert bool(other.fits(task)) == bool(most)
