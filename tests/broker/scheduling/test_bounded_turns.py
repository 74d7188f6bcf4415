"""However much could start at once, a turn ends soon, and the next goes on where it was left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iriai.broker.machines import pool_rooms
from iriai.broker.scheduling.scheduling_pass import DRAW_WORK
from iriai.broker.state import parallel_placement
from iriai.model.ranks import RankShape
from iriai.model.resources import Resources
from iriai.policy.placement.seats import rank_fit
from iriai.protocol.messages.effects import Part, Wake, WakeAt
from iriai.protocol.messages.scheduling import Match, Promise
from tests.broker.lone_broker import LoneBroker, as_running, matches, want
from tests.broker.many_machines import KINDS, ManyMachines
from tests.support.told import attempt, job, told

wants = st.lists(
    st.builds(
        dict,
        user=st.sampled_from(["ann", "bob", "eve"]),
        resources=st.builds(Resources, st.integers(1, 9), st.just(0), st.sampled_from([0, 0, 1])),
        limit_s=st.sampled_from([None, 10.0, 30.0]),
        count=st.integers(1, 4),
        urgency=st.sampled_from([1.0, 2.0]),
    ),
    max_size=25,
)


def idle_machines(broker: LoneBroker, count: int) -> list:
    """So many, of the kinds in turn, with nothing on them."""
    kinds = [KINDS[number % len(KINDS)] for number in range(count)]
    return [
        broker.idle(kind.cpus, machine=f"m{number}", capacity=kind)
        for number, kind in enumerate(kinds)
    ]


@given(
    jobs=wants,
    machines=st.integers(1, 12),
    order=st.sampled_from(["lottery", "stride", "fifo"]),
    cap_cpus=st.sampled_from([None, 5]),
    backfill=st.sampled_from(["easy", "none"]),
    turn_work_max=st.integers(1, 100),
)
def test_many_small_turns_decide_what_one_long_turn_does(
    jobs, machines, order, cap_cpus, backfill, turn_work_max
):
    said = []
    for work_max in (turn_work_max, 10**9):
        section = {"order": order, "cap_cpus": cap_cpus, "backfill": backfill}
        broker = LoneBroker(turn_work_max=work_max, **section)
        asked = [want(number + 1, **each) for number, each in enumerate(jobs)]
        home = broker.tell(*idle_machines(broker, machines), *asked).home
        said.append([[each for each in home if type(each) is kind] for kind in (Match, Promise)])
    in_turns, at_once = said
    assert in_turns == at_once


def test_a_turn_starts_a_few_and_asks_to_be_woken_at_once():
    broker = LoneBroker(turn_work_max=5 * DRAW_WORK)
    effects = broker.turn(*idle_machines(broker, 8), want(count=1000, user="ann"))
    started = [each for each in told(effects).home if isinstance(each, Match)]
    assert 0 < len(started) <= 5
    assert effects[-1] == WakeAt(Part.BROKER, broker.now_s)
    assert len(told(broker.turn(Wake(Part.BROKER))).home) == 5


def test_another_turn_of_the_same_moment_has_no_more_to_spend():
    broker = LoneBroker(turn_work_max=5 * DRAW_WORK)
    broker.turn(*idle_machines(broker, 30), want(count=1000))
    assert broker.turn(want(2)) == []
    broker.now_s += 0.001
    assert len(told(broker.turn(want(3))).home) == 5


def test_what_arrives_between_two_turns_is_in_the_next_draw():
    room = ManyMachines(*[Resources(4)] * 30, turn_work_max=2 * DRAW_WORK, order="fifo")
    room.report_all()
    broker = room.broker
    broker.turn(want(1, count=10), want(2, count=10))
    matched = told(broker.turn(want(3, urgency=5.0), Wake(Part.BROKER))).home
    assert [match.job.number for match in matched] == [3, 1]


def test_thousands_of_needs_of_parallel_tasks_do_not_make_a_pass_long(monkeypatch):
    """One home asks for ranks with another amount of memory each: what fits where is not kept."""
    looks = []

    def counted(need, free):
        looks.append(need)
        return rank_fit(need, free)

    machines, needs = 40, 1_000
    broker = LoneBroker(order="fifo")
    capacity, part = Resources(4, 16 << 30), Resources(3, 8 << 30)
    for number in range(machines):
        held = want(9_000 + number, resources=part)
        busy = as_running(held, attempt_id=attempt(9_000 + number))
        fields = {"machine": f"m{number}", "capacity": capacity, "began": (busy,)}
        broker.tell(broker.idle(1, **fields))
    wide = RankShape(43, 43)  # as many cpus are free, but not the memory beside each
    broker.tell(*[want(n, resources=Resources(1, (5 << 30) + n), shape=wide) for n in range(needs)])
    monkeypatch.setattr(parallel_placement, "NEW_NEEDS_LOOKS_MAX", 10 * machines)
    monkeypatch.setattr(pool_rooms, "rank_fit", counted)
    over = broker.idle(1, whole=False, machine="m0", capacity=capacity, ended=(attempt(9_000),))
    broker.tell(over)
    assert 0 < len(looks) <= 20 * machines
    assert len(broker.broker.state.queues.entries) == needs
    [match] = matches(broker.tell(want(5_000, urgency=9.0)))
    assert match.job == job(5_000)
