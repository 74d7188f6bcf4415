"""Offers of nodes against exhaustive search: found wherever there are some, and keeping (f)."""

from __future__ import annotations

from itertools import combinations
from math import inf
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from iriai.broker.machines.beside_bookings import EARLIER_S
from iriai.broker.machines.machine_view import MachineView
from iriai.broker.state.state import BrokerState
from iriai.config.sections import ReservationsSection
from iriai.model.ids import Account, ReservationId
from iriai.model.ranks import RankShape
from iriai.model.reservation import ReservationTerms
from iriai.model.resources import Resources
from iriai.policy.placement.calendar import END_SLACK_S
from iriai.policy.placement.pool_plan import PoolHead
from iriai.protocol.messages.reservations import BookedTime, NodesOffered, SeekNodes
from tests.broker.lone_broker import LoneBroker, as_running, want
from tests.support.told import HOME, WALL_S, only

NAMES = ("akebi", "kaki", "momo", HOME)
# Claims end at multiples of 30 s, bookings 10 s later, and requests another 10: none meets another.
TIMES = st.integers(1, 10).map(lambda each: 30.0 * each)
CPUS = st.integers(1, 4)


class Span(NamedTuple):
    """What is taken from when until when."""

    from_s: float
    to_s: float
    cpus: int


class Story(NamedTuple):
    capacities: list[int]
    claims: list[tuple[int, int, float | None]]
    """Machine, cpus, end."""
    bookings: list[tuple[int, int, float, float]]
    """Machine, cpus, start, length."""
    waiting: list[tuple[int, float | None, int]]
    """Cpus of each rank, limit, ranks."""
    nodes: int
    cpus: int | None
    start_s: float
    length_s: float
    largest: bool
    """Whether only machines of four cpus will do."""


WHERE = st.integers(0, 3)
STORIES = st.builds(
    Story,
    st.lists(st.sampled_from((2, 4, 4)), min_size=2, max_size=4),
    st.lists(st.tuples(WHERE, CPUS, st.none() | TIMES), max_size=5),
    st.lists(st.tuples(WHERE, CPUS, TIMES, TIMES), max_size=4),
    st.lists(st.tuples(CPUS, st.none() | TIMES, st.sampled_from((1, 1, 2, 4))), max_size=3),
    st.integers(1, 3),
    st.none() | CPUS,
    TIMES.map(lambda each: each - 10.0),
    TIMES.map(lambda each: each + 30.0),
    st.booleans(),
)


def used(spans: list[Span], moment_s: float) -> int:
    return sum(each.cpus for each in spans if each.from_s <= moment_s < each.to_s)


def fits(capacity: int, spans: list[Span], added: Span) -> bool:
    """Whether there is room for one more at each moment at which something changes."""
    moments = {added.from_s, *(m for each in spans for m in (each.from_s, each.to_s))}
    within = [each for each in moments if added.from_s <= each < added.to_s]
    return all(used(spans, each) + added.cpus <= capacity for each in within)


class Exhaustive:
    """What a broker has, and every choice of machines tried."""

    def __init__(self, state: BrokerState, story: Story) -> None:
        self.state, self.story = state, story
        self.taken = {name: taken_of(view) for name, view in state.machines.items()}
        self.heads = {
            head.machine: Span(head.start_s, end_of(head), head.resources.cpus)
            for head in state.heads.by_machine.values()
        }
        self.pool_heads = list(state.heads.by_job.values())

    def capacity(self, name: str) -> int:
        return self.state.machines[name].calendar.capacity.cpus

    def is_able(self, name: str, booked: Span) -> bool:
        capacity = self.capacity(name)
        if booked.cpus > capacity or (self.story.largest and capacity < 4):
            return False
        kept = [self.heads[name]] if name in self.heads else []
        return fits(capacity, [*self.taken[name], *kept], booked)

    def keeps(self, head: PoolHead, chosen: dict[str, Span]) -> bool:
        """Whether a parallel task still starts when it was to."""
        ranks = 0
        for name in self.taken:
            if name not in self.heads:
                spans = [*self.taken[name], *([chosen[name]] if name in chosen else [])]
                ranks += max(
                    count
                    for count in range(5)
                    if not count
                    or fits(
                        self.capacity(name),
                        spans,
                        Span(head.start_s, end_of(head), count * head.need.cpus),
                    )
                )
        return ranks >= head.shape.least

    def is_sound(self, names: tuple[str, ...], start_s: float, end_s: float) -> bool:
        booked = {
            name: Span(start_s, end_s, self.story.cpus or self.capacity(name)) for name in names
        }
        is_able = all(self.is_able(name, span) for name, span in booked.items())
        return is_able and all(self.keeps(head, booked) for head in self.pool_heads)

    def exists(self, start_s: float, end_s: float) -> bool:
        return any(
            self.is_sound(names, start_s, end_s)
            for names in combinations(sorted(self.taken), self.story.nodes)
        )

    def starts(self) -> list[float]:
        """The moments from which there may be more room than before."""
        spans = [each for some in self.taken.values() for each in some]
        ends = [*(each.to_s for each in (*spans, *self.heads.values()))]
        ends += [end_of(head) for head in self.pool_heads]
        return sorted(each for each in ends if self.story.start_s < each < 10_000.0)


def taken_of(view: MachineView) -> list[Span]:
    claims = [Span(-inf, end_s, each.cpus) for _, each, end_s in view.calendar.in_order()]
    booked = [Span(each.from_s, each.end_s, each.resources.cpus) for each in view.calendar.bookings]
    return claims + booked


def end_of(head) -> float:
    return head.start_s + (inf if head.stay_s is None else head.stay_s)


def told(story: Story, section: ReservationsSection) -> LoneBroker:
    """A broker that knows all of a story; what would exceed a machine is left out."""
    broker = LoneBroker(reservations=section)
    for place, capacity in enumerate(story.capacities):
        spans: list[Span] = []
        running, booked = [], []
        for number, (where, cpus, end_s) in enumerate(story.claims):
            span = Span(-inf, end_s or inf, cpus)
            if where == place and fits(capacity, spans, span._replace(from_s=0.0)):
                spans.append(span)
                job = want(100 + number, "zoe", cpus=cpus)
                running.append(as_running(job, ends_in_s=end_s))
        for number, (where, cpus, start_s, length_s) in enumerate(story.bookings):
            span = Span(start_s + 10.0, start_s + length_s + 10.0, cpus)
            if where == place and fits(capacity, spans, span):
                spans.append(span)
                of = ReservationId("yama", number)
                booked.append(BookedTime(of, Resources(cpus), span.from_s + 1.0, span.to_s))
        free = capacity - used(spans, 0.0)
        fields = {"capacity": Resources(capacity), "began": running, "bookings": tuple(booked)}
        broker.tell(broker.idle(free, machine=NAMES[place], **fields))
    waiting = [
        want(
            number,
            cpus=cpus,
            limit_s=None if limit_s is None else limit_s - END_SLACK_S,
            shape=RankShape(ranks, ranks),
        )
        for number, (cpus, limit_s, ranks) in enumerate(story.waiting, start=1)
    ]
    broker.tell(*waiting)
    return broker


def asked(broker: LoneBroker, story: Story, *, is_earliest: bool) -> NodesOffered:
    terms = ReservationTerms(
        Account("lab", "ann"),
        "ann",
        WALL_S + story.start_s,
        WALL_S + story.start_s + story.length_s,
        story.nodes,
        None if story.cpus is None else Resources(story.cpus),
        requirements="Cpus >= 4" if story.largest else "",
        is_earliest=is_earliest,
    )
    return only(broker.tell(SeekNodes(ReservationId(HOME, 7), 1, terms)).home, NodesOffered)


@given(STORIES)
def test_nodes_are_offered_where_there_are_some_and_only_there(story):
    broker = told(story, ReservationsSection())
    search = Exhaustive(broker.broker.state, story)
    end_s = story.start_s + story.length_s
    machines = asked(broker, story, is_earliest=False).machines
    assert bool(machines) is search.exists(story.start_s, end_s)
    assert not machines or search.is_sound(machines, story.start_s, end_s)


@given(STORIES)
def test_no_start_is_earlier_than_the_earliest_that_is_offered(story):
    broker = told(story, ReservationsSection())
    search = Exhaustive(broker.broker.state, story)
    found = asked(broker, story, is_earliest=True)
    starts = [story.start_s, *(each + 3 * EARLIER_S for each in search.starts())]
    least_s = next((s for s in starts if search.exists(s, s + story.length_s)), None)
    if least_s is None:
        assert not found.machines
    else:
        start_s = found.start_wall_s - WALL_S
        assert found.machines
        assert start_s <= least_s
        assert search.is_sound(found.machines, start_s, start_s + story.length_s)
