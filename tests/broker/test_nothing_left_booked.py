"""Beside bookings nothing starts that does not fit, nothing is left, and no promise moves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from iriai.broker.queue.entries import QueuedJob
from iriai.broker.state.state import TURN_WORK_MAX
from iriai.model.ids import ReservationId
from iriai.model.resources import Resources
from tests.broker.booked_nodes import BookedNodes
from tests.broker.many_machines import KINDS


@dataclass(frozen=True)
class BookedAct:
    """One thing that happens; numbers choose among what is there."""

    what: str
    which: int
    user: str
    cpus: int
    limit_s: float | None
    count: int
    seconds: float
    length_s: float
    is_exclusive: bool
    is_evictable: bool


acts = st.builds(
    BookedAct,
    what=st.sampled_from(
        ["submit"] * 4
        + ["inside"] * 2
        + ["end"] * 2
        + ["book"] * 4
        + ["later"] * 4
        + ["give back", "withdraw"]
    ),
    which=st.integers(0, 99),
    user=st.sampled_from(["ann", "bob", "eve"]),
    cpus=st.integers(1, 8),
    limit_s=st.sampled_from([None, 10.0, 30.0, 100.0, 300.0]),
    count=st.sampled_from([1, 1, 3]),
    seconds=st.sampled_from([1.0, 10.0, 60.0, 200.0]),
    length_s=st.sampled_from([60.0, 100.0, 300.0]),
    is_exclusive=st.sampled_from([False] * 5 + [True]),
    is_evictable=st.booleans(),
)
sections = st.fixed_dictionaries(
    {
        "order": st.sampled_from(["lottery", "fifo"]),
        "backfill": st.sampled_from(["easy", "easy", "none"]),
        "seed": st.integers(0, 3),
        "turn_work_max": st.sampled_from([1, TURN_WORK_MAX]),
    }
)


def play(room: BookedNodes, act: BookedAct) -> None:
    """Where it makes sense."""
    name = f"m{act.which % len(room.nodes)}"
    node = room.nodes[name]
    match act.what:
        case "submit":
            room.submit(
                act.user,
                cpus=act.cpus,
                limit_s=act.limit_s,
                count=act.count,
                exclusive=act.is_exclusive,
                is_evictable=act.is_evictable,
            )
        case "inside":
            of = ReservationId("ume", 1 + act.which % (room.reservations + 1))
            room.submit(
                act.user,
                cpus=act.cpus,
                limit_s=act.limit_s,
                count=act.count,
                exclusive=act.is_exclusive,
                reservation=of,
            )
        case "end" if node.running:
            room.end(node, list(node.running)[act.which % len(node.running)])
        case "withdraw" if room.wants:
            room.withdraw(1 + act.which % len(room.wants))
            room.promised_s.pop(1 + act.which % len(room.wants), None)
        case "book":
            whole = None if act.is_exclusive else act.cpus
            room.book(act.seconds, act.length_s, 1 + act.which % 2, whole)
        case "give back" if room.bookings[name]:
            held = list(room.bookings[name])
            room.give_back(node, held[act.which % len(held)])
        case "later":
            room.advance(act.seconds)
        case _:
            pass


def left_over(room: BookedNodes) -> list[QueuedJob]:
    """What could start now, by every rule, asked for each task and machine."""
    state, found = room.state, []
    for entry in state.queues.entries.values():
        kind = entry.kind
        if kind.key.reservation is not None:
            if state.placement.inside.seats(kind, room.broker.now_s):
                found.append(entry)
        elif any(state.placement.admits(view, kind) for view in state.machines.values()):
            found.append(entry)
    return found


@settings(max_examples=150, deadline=None)
@given(section=sections, story=st.lists(acts, max_size=40))
def test_after_each_turn_nothing_that_waits_could_start(section, story):
    room = BookedNodes(*KINDS, KINDS[1], **section)
    room.report_all()
    for act in story:
        play(room, act)
        assert not left_over(room), f"after {act}"


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 3), story=st.lists(acts, max_size=25))
def test_a_plan_starts_nothing_that_does_not_fit_either(seed, story):
    room = BookedNodes(Resources(4), Resources(8), seed=seed, backfill="conservative")
    room.report_all()
    for act in story:
        is_whole = act.is_exclusive and act.what == "book"
        play(room, replace(act, count=1, is_exclusive=is_whole))
