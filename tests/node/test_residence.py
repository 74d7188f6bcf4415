"""A task that has run long enough in its queue goes on in the next lower one (paper 002)."""

from __future__ import annotations

import msgspec
import pytest

from iriai.model.records import ClaimStored
from iriai.model.suspension import SuspendReason
from iriai.model.turn import NEVER, RowSet
from iriai.model.usage import Usage
from iriai.node.queues import NodeQueues
from iriai.protocol.messages.effects import (
    AttemptFrozen,
    AttemptsSampled,
    AttemptStarted,
    LauncherAttached,
    Part,
    Wake,
    WakeAt,
)
from iriai.protocol.messages.scheduling import ClaimTurn, Cycle
from iriai.protocol.messages.suspension import Suspended
from tests.node.lone_node import LoneNode
from tests.support.told import WALL_S, attempt, only, spec

RESIDENCE_S = 60.0


def started(**options) -> LoneNode:
    """A task of queue 0 runs; a minute in queue 0, and two in queue 1, are the most."""
    queues = NodeQueues(
        modes={0: "exclusive", 1: "exclusive"},
        charge_factors={1: 0.5},
        residences_s={0: RESIDENCE_S, 1: 2 * RESIDENCE_S},
    )
    node = LoneNode(2, queues=queues, **options)
    node.run(1, spec(queue=0))
    node.tell(AttemptStarted(attempt(1), WALL_S + node.now_s))
    return node


def passes(node: LoneNode, seconds: float):
    """So much time passes; the node is woken."""
    node.wait(seconds)
    return node.tell(Wake(Part.NODE))


def queue_of(node: LoneNode) -> int:
    return node.node.held(attempt(1)).claim.queue


def test_it_stays_until_its_time_is_over():
    node = started()
    passes(node, RESIDENCE_S - 0.5)
    assert queue_of(node) == 0
    passes(node, 0.5)
    assert queue_of(node) == 1


def test_its_clock_begins_anew_in_the_next_queue_and_in_the_last_it_stays():
    node = started()
    passes(node, RESIDENCE_S)
    passes(node, 2 * RESIDENCE_S - 1.0)
    assert queue_of(node) == 1
    passes(node, 1.0)
    assert queue_of(node) == 2
    passes(node, 1e6)
    assert queue_of(node) == 2


def test_the_node_is_woken_for_it():
    node = started()
    passes(node, 30.0)
    node.node.is_idle = False
    woken = [each.steady_s for each in node.settle().others if isinstance(each, WakeAt)]
    assert not woken or min(woken) <= node.now_s + 30.0


def test_home_and_broker_are_told_and_it_is_stored_first():
    node = started()
    said = passes(node, RESIDENCE_S)
    stored = said.records
    assert any(isinstance(each, ClaimStored) and each.claim.queue == 1 for each in stored)
    moved = only(said.home, Suspended)
    assert (moved.moved_to, moved.reasons) == (1, ())
    (running,) = node.idle.changed
    assert running.queue == 1


def test_time_that_it_stands_does_not_count():
    node = started()
    passes(node, 30.0)
    node.tell(Cycle(1, turns=(ClaimTurn(attempt(1), NEVER),)))
    reasons = (SuspendReason.HIGHER_QUEUE,)
    node.tell(AttemptFrozen(attempt(1), 1, reasons, 0.0, node.now_s))
    passes(node, 1e4)
    assert queue_of(node) == 0
    node.tell(Cycle(2))
    node.tell(AttemptFrozen(attempt(1), 2, (), 1e4, node.now_s))
    passes(node, 29.0)
    assert queue_of(node) == 0
    passes(node, 1.5)
    assert queue_of(node) == 1


def test_time_out_of_its_turn_does_not_count():
    node = started()
    node.tell(Cycle(1, turns=(ClaimTurn(attempt(1), RowSet(2, 0b01)),)))
    passes(node, 2 * RESIDENCE_S - 4.0)
    assert queue_of(node) == 0
    for _ in range(12):
        passes(node, 0.5)
    assert queue_of(node) == 1


def test_a_new_daemon_goes_on_counting():
    node = started()
    passes(node, RESIDENCE_S)
    passes(node, RESIDENCE_S)
    claims = tuple(node.node.claims())
    queues = node.node.settings.queues
    later = LoneNode(
        2, queues=queues, claims=claims, attached=False, now_s=node.now_s, incarnation=2
    )
    later.tell(LauncherAttached(((attempt(1), WALL_S),)))
    passes(later, RESIDENCE_S - 2.0)
    assert queue_of(later) == 1
    passes(later, 2.0)
    assert queue_of(later) == 2


def test_it_is_charged_by_the_factor_of_the_queue_that_it_is_in():
    node = started()
    passes(node, RESIDENCE_S)
    node.tell(AttemptsSampled(((attempt(1), Usage()),)))
    before_s = node.node.held(attempt(1)).charged_s
    node.wait(10.0)
    node.tell(AttemptsSampled(((attempt(1), Usage()),)))
    more_s = node.node.held(attempt(1)).charged_s - before_s
    assert more_s == pytest.approx(5.0)


def test_without_a_time_of_residence_nobody_moves():
    node = LoneNode(2)
    node.run(1, spec(queue=0))
    node.tell(AttemptStarted(attempt(1), WALL_S + node.now_s))
    passes(node, 1e6)
    assert queue_of(node) == 0


def test_what_another_machine_s_queue_says_is_bounded():
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(
            {"attempt": attempt(1), "machine": "m", "change": 0, "moved_to": 64}, Suspended
        )
