"""What a broker makes of the summaries of other clusters, and what it says to and of them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.broker.core import Broker
from iriai.broker.federation import forwarding
from iriai.broker.federation.federation import Federation
from iriai.broker.federation.forwarding import proportional
from iriai.broker.federation.peer_clusters import RemoteCapacity
from iriai.broker.state.state import BrokerSettings
from iriai.config.reader import Configuration
from iriai.config.sections import QueueSection
from iriai.model.ids import Account, JobId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.resources import NOTHING, Resources
from iriai.plugins.orders import order_named
from iriai.policy.draw.order import OrderSettings
from iriai.protocol.delivery.authorization import is_authorized
from iriai.protocol.messages.candidates import ClusterPeer
from iriai.protocol.messages.effects import LinkDown, LinkUp, Part, Send, Wake
from iriai.protocol.messages.elections import BrokerIs
from iriai.protocol.messages.scheduling import Forward, Returned, Summary, Vacancy, Want

ONE = Resources(1)
EAST = ClusterPeer("east", ("e0", "e1"))
AMOUNTS = st.builds(
    Resources, st.integers(1, 64), st.integers(0, 1 << 40), st.integers(0, 8), st.just(0)
)


def at(steady_s: float) -> Instant:
    return Instant(steady_s, 1e9 + steady_s, "test")


def broker(*neighbours: ClusterPeer, stopped: int | None = None) -> Broker:
    """The broker of `west`, on w0, which nobody has told of any machine."""
    queues = {} if stopped is None else {str(stopped): QueueSection(state="enabled")}
    configuration = Configuration(queues=queues)
    order = order_named("fifo", OrderSettings(60.0))
    made = Broker(BrokerSettings(configuration, order), Random(1), "w0", Federation)
    made.peers_changed("west", (ClusterPeer("west", ("w0",)), *neighbours))
    return made


def want(number: int, count: int = 1, home: str = "w0", resources: Resources = ONE) -> Want:
    account = Account("lab", "ann")
    return Want(JobId(home, number), account, resources, None, 1.0, 0.0, count, stamp=number)


def summary(machines: int, cluster: str = "east", broker: str = "e0") -> Summary:
    free = tuple([Vacancy(machines, Resources(machines))] if machines else [])
    return Summary(broker, cluster, free, (ONE,), 0)


def turn(core: Broker, steady_s: float, *messages: object) -> list:
    """What other machines are told in a turn in which these arrive: (machine, message).

    Without messages one arrives that changes nothing: a broker that nothing reaches is idle.
    """
    for message in messages or (LinkUp("w0"),):
        core.take(message, at(steady_s))
    return [(e.machine, e.message) for e in core.end_turn(at(steady_s)) if isinstance(e, Send)]


def told(sends: list, kind: type) -> list:
    return [message for _, message in sends if isinstance(message, kind)]


def answers(sends: list) -> list[tuple[str, int, int]]:
    """Who is told what became of a forward: (machine, the forward's number, how many wait)."""
    return [(to, m.number, m.count) for to, m in sends if isinstance(m, Returned)]


# --- rooms ---------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any),
    st.data(),
    st.integers(0, 1 << 30),
)
def test_a_split_is_proportional_to_within_what_does_not_divide(fits, data, seed):
    count = data.draw(st.integers(1, sum(fits)))
    shares = proportional(fits, count, Random(seed))
    assert sum(shares) == count
    for share, fit in zip(shares, fits, strict=True):
        assert fit * count // sum(fits) <= share <= fit


@given(st.integers(1, 20), AMOUNTS, AMOUNTS)
def test_machines_alike_hold_as_many_as_each_does_until_they_are_taken(machines, each, need):
    together = NOTHING
    for _ in range(machines):
        together = together.plus(each)
    room = RemoteCapacity(Vacancy(machines, together))
    count = room.fits(need)
    on_one = min(
        there // amount
        for (_, amount), (_, there) in zip(need.amounts(), each.amounts(), strict=True)
        if amount
    )
    assert count == machines * on_one
    for left in range(count, 0, -1):
        assert room.fits(need) >= left
        room.reserve(need, 1)


# --- what is passed on ---------------------------------------------------------------------------


def test_what_waits_goes_where_there_is_room_and_no_more_of_it():
    core = broker(EAST)
    sends = turn(core, 1.0, summary(3), want(1, count=5))
    [forward] = told(sends, Forward)
    assert (forward.want.count, forward.hops, forward.cluster) == (3, 1, "west")
    assert core.state.queues.entries[JobId("w0", 1)].count == 2
    assert not told(turn(core, 1.5, want(2)), Forward)  # the copy was counted down


def test_what_is_in_a_stopped_queue_is_passed_on_nowhere_and_goes_back_if_it_comes():
    core = broker(EAST, stopped=1)
    assert not told(turn(core, 1.0, summary(3), replace(want(1), queue=1)), Forward)
    guest = replace(want(7, home="e1"), queue=1)
    sends = turn(core, 2.0, Forward("e0", 1, "east", 1, guest))
    [returned] = told(sends, Returned)
    assert (returned.count, returned.reason.rule) == (1, Rule.QUEUE_STOPPED)


def test_a_task_is_passed_on_with_its_queue():
    core = broker(EAST)
    [forward] = told(turn(core, 1.0, summary(3), replace(want(1), queue=2)), Forward)
    assert forward.want.queue == 2


def test_what_is_returned_waits_again_and_is_not_sent_there_at_once():
    core = broker(EAST)
    [forward] = told(turn(core, 1.0, summary(3), want(1, count=3)), Forward)
    sends = turn(core, 1.2, Returned("e0", forward.number, 2))
    assert core.state.queues.entries[JobId("w0", 1)].count == 2
    assert not told(sends, Forward)
    assert not told(turn(core, 2.0, summary(9)), Forward)
    assert told(turn(core, 7.0, summary(9)), Forward)[0].want.count == 2


def test_a_cluster_whose_room_is_taken_up_is_not_looked_at_again():
    core = broker(EAST)
    turn(core, 1.0, summary(3), want(1, count=5))
    assert not core.federation.peers.known["east"].capacities


def test_what_waits_is_looked_through_again_only_after_something_changed(monkeypatch):
    looks: list[float] = []
    in_order = forwarding.in_order

    def counted(state, dice, now):
        looks.append(now.steady_s)
        return in_order(state, dice, now)

    monkeypatch.setattr(forwarding, "in_order", counted)
    core = broker(EAST)
    [forward] = told(turn(core, 1.0, summary(1), want(1)), Forward)
    turn(core, 1.5, Returned("e0", forward.number, 1), summary(9))
    assert looks == [1.0, 1.5]
    for steady_s in (2.0, 3.0, 4.0):
        assert not turn(core, steady_s)
    assert looks == [1.0, 1.5]
    assert told(turn(core, 6.0), Summary)
    assert looks == [1.0, 1.5]
    assert core.federation.next_s == 1.5 + forwarding.BUSY_S  # it may be asked again then
    assert told(turn(core, 1.5 + forwarding.BUSY_S), Forward)


def test_more_than_one_turn_passes_on_goes_in_the_next():
    core = broker(EAST)
    wants = want(1, count=200), want(2, count=56), want(3, count=44)
    first = told(turn(core, 1.0, summary(400), *wants), Forward)
    second = told(turn(core, 1.1), Forward)
    assert sum(forward.want.count for forward in first) == forwarding.TASKS_MAX
    assert sum(forward.want.count for forward in first + second) == 300


def test_of_so_many_jobs_it_is_known_who_returned_them(monkeypatch):
    monkeypatch.setattr(forwarding, "REFUSALS_MAX", 2)
    core = broker(EAST)
    unfit = Reason(Rule.REQUIREMENTS, "Speed > 2", "none there")
    for number in (1, 2, 3):
        sends = turn(core, float(number), summary(1), want(number))
        [forward] = told(sends, Forward)
        turn(core, number + 0.5, Returned("e0", forward.number, 1, unfit))
    told_why = [core.federation.explain(JobId("w0", number), 4.0)[0].had for number in (1, 2, 3)]
    assert ["its answer" in words for words in told_why] == [False, True, True]


def test_only_who_was_asked_can_return_it():
    core = broker(EAST)
    [forward] = told(turn(core, 1.0, summary(3), want(1, count=3)), Forward)
    turn(core, 1.2, Returned("n0", forward.number, 2))
    assert not core.state.queues.entries
    turn(core, 1.3, Returned("e0", forward.number, 2))
    assert core.state.queues.entries[JobId("w0", 1)].count == 2


def test_what_was_started_elsewhere_is_known_by_the_next_want():
    core = broker(EAST)
    [forward] = told(turn(core, 1.0, summary(3), want(1, count=5)), Forward)
    turn(core, 1.2, Returned("e0", forward.number, 0))
    turn(core, 1.3, replace(want(1, count=2), stamp=7))
    assert core.state.queues.entries[JobId("w0", 1)].count == 2
    turn(core, 60.0)  # nothing comes back
    assert core.state.queues.entries[JobId("w0", 1)].count == 2


def test_what_was_started_is_of_the_cluster_that_answered():
    core = broker(EAST, ClusterPeer("north", ("n0",)))
    sends = turn(core, 1.0, summary(1), summary(1, "north", "n0"), want(1, count=2))
    east, north = sorted(told(sends, Forward), key=lambda forward: forward.number)
    turn(core, 1.1, Returned("n0", north.number, 0))
    turn(core, 1.2, replace(want(1), stamp=7))  # north started one
    turn(core, 1.3, Returned("e0", east.number, 1))
    assert core.state.queues.entries[JobId("w0", 1)].count == 1


def test_a_forward_without_an_answer_is_said_again_to_whoever_is_broker_and_then_comes_back():
    core = broker(EAST)
    [first] = told(turn(core, 1.0, summary(1), want(1)), Forward)
    assert core.federation.peers.corrected("e0", "e1")
    again = [each for each in turn(core, 2.1) if isinstance(each[1], Forward)]
    assert again == [("e1", first)]
    turn(core, 11.5)
    assert core.state.queues.entries[JobId("w0", 1)].count == 1


def test_a_want_is_passed_on_with_all_that_it_says():
    core = broker(EAST)
    said = replace(want(1), user="ann-h", front=1, rank="KFlops", group="sem", grace_s=9.0)
    [forward] = told(turn(core, 1.0, summary(3), said), Forward)
    assert forward.want == replace(said, front=0)
    there = broker(EAST)
    there.take(Forward("e0", 4, "east", 1, forward.want), at(1.0))
    taken = there.state.queues.entries[said.job].want
    assert [getattr(taken, name) for name in Want.__struct_fields__] == [
        getattr(forward.want, name) for name in Want.__struct_fields__
    ]


def test_what_was_passed_on_of_a_home_that_is_gone_does_not_come_back():
    core = broker(EAST)
    assert told(turn(core, 1.0, summary(1), want(1, home="w1")), Forward)
    turn(core, 2.0, LinkDown("w1"))
    turn(core, 12.0, Wake(Part.BROKER))
    assert not core.state.queues.entries
    assert core.federation.next_s > 12.5  # nothing is to be said again


# --- guests --------------------------------------------------------------------------------------


def test_a_guest_that_cannot_start_is_returned_at_once_and_leaves_nothing_behind():
    core = broker(EAST)
    forward = Forward("e0", 4, "east", 1, want(1, count=2, home="e1"))
    sends = turn(core, 1.0, forward)
    [answer] = told(sends, Returned)
    assert (answer.number, answer.count) == (4, 2)
    assert answer.reason is not None  # there is no machine here at all
    assert not core.state.queues.entries


def test_a_forward_that_comes_twice_is_answered_twice_alike():
    core = broker(EAST)
    forward = Forward("e0", 4, "east", 1, want(1, count=2, home="e1"))
    assert told(turn(core, 1.0, forward), Returned) == told(turn(core, 2.0, forward), Returned)


@pytest.mark.parametrize(("hops", "goes_on"), [(1, True), (2, False)])
def test_a_guest_is_passed_on_once_more_and_never_back(hops, goes_on):
    core = broker(EAST, ClusterPeer("north", ("n0",)))
    turn(core, 1.0, summary(3), summary(3, "north", "n0"))
    sends = turn(core, 2.0, Forward("e0", 4, "east", hops, want(1, home="e1")))
    forwards = [(to, message.hops) for to, message in sends if isinstance(message, Forward)]
    assert forwards == ([("n0", 2)] if goes_on else [])
    assert bool(told(sends, Returned)) is not goes_on


@pytest.mark.parametrize("left", [0, 2])
def test_what_became_of_a_guest_at_the_second_hop_is_answered_in_the_same_turn(left):
    """Whether all of it has started there, or some waits: that is returned as well."""
    core = broker(EAST, ClusterPeer("north", ("n0",)))
    turn(core, 1.0, summary(3, "north", "n0"))
    sends = turn(core, 2.0, Forward("e0", 4, "east", 1, want(1, count=3, home="e1")))
    [forward] = told(sends, Forward)
    assert answers(turn(core, 2.1, Returned("n0", forward.number, left))) == [("e0", 4, left)]
    assert not core.state.queues.entries
    turn(core, 60.0, Wake(Part.BROKER))  # nor does it come back
    assert not core.state.queues.entries


# --- summaries -----------------------------------------------------------------------------------


def test_a_site_of_one_cluster_says_nothing():
    assert turn(broker(), 1.0, want(1)) == []


def test_summaries_come_each_half_minute_and_when_work_begins_to_wait():
    core = broker(EAST)
    assert told(turn(core, 1.0), Summary)
    assert not told(turn(core, 20.0), Summary)
    assert told(turn(core, 21.0, want(1)), Summary)[0].waiting == 1
    assert not told(turn(core, 40.0, want(2)), Summary)
    assert told(turn(core, 51.0), Summary)


def test_who_speaks_for_a_cluster_is_spoken_to_until_it_is_silent():
    core = broker(EAST)
    assert [to for to, _ in turn(core, 1.0)] == ["e0"]
    turn(core, 2.0, summary(0, broker="e1"))
    assert [to for to, _ in turn(core, 31.0)] == ["e1"]
    assert [to for to, _ in turn(core, 95.0)] == ["e0"]


def test_nobody_speaks_for_another():
    forward = Forward("e0", 4, "east", 1, want(1, home="e1"))
    assert is_authorized("e0", "w0", forward)
    assert not is_authorized("e1", "w0", forward)
    assert not is_authorized("e1", "w0", summary(1))
    assert is_authorized("e1", "w0", BrokerIs("e0"))


def test_a_broker_whose_cluster_is_alone_takes_no_task_of_another_and_answers_nothing():
    settings = BrokerSettings(Configuration(), order_named("fifo", OrderSettings(60.0)))
    alone = Broker(settings, Random(1), "w0")
    alone.peers_changed("west", (EAST,))
    forward = Forward("e0", 1, "east", 1, want(7, home="e0"))
    assert turn(alone, 1.0, summary(4), forward, Returned("e0", 1, 1, None)) == []
    assert not alone.state.queues.entries
    assert not alone.federation.corrected("e0", "e1")


def test_of_a_cluster_that_stays_silent_one_candidate_is_told_after_the_other():
    """Nobody probes machines of other clusters: the first that was told of may be dead."""
    core = broker(EAST)
    told_s = [0.0]
    addressed = [to for to, message in turn(core, 0.0) if isinstance(message, Summary)]
    while len(addressed) < 12:
        told_s.append(told_s[-1] + 30.0)
        sends = turn(core, told_s[-1])
        addressed += [to for to, message in sends if isinstance(message, Summary)]
        assert len(addressed) == len(told_s)
    assert addressed[0] == "e0"
    assert set(addressed) == {"e0", "e1"}
