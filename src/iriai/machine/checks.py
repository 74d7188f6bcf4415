"""Invariants of one machine's parts together, true after each turn (docs/spec/001, section 10).

Invariants of a single part are in its own `check`. Each function raises AssertionError if its
invariant is broken; none changes anything.
"""

from __future__ import annotations

from iriai.broker.core import Broker
from iriai.home.core import Home
from iriai.model.ids import AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.reason import Rule
from iriai.model.snapshot import StoredState
from iriai.model.state import TaskState
from iriai.node.core import Node


def check_attempts(node: Node, home: Home) -> None:
    """Check (b): each live claim is the current attempt of its task, and the reverse."""
    live = {attempt for attempt in node.running() if attempt.home == home.name}
    current = {
        AttemptId(home.name, number, index, task.attempt, rank)
        for number, job in home.jobs.items()
        for index, task in job.tasks.items()
        if task.state is not TaskState.QUEUED
        for rank, machine in task.seats()
        if machine == node.settings.machine
    }
    assert live == current, f"claims {live}, attempts of the home {current}"


def check_stored(node: Node | None, home: Home | None, stored: StoredState) -> None:
    """Check (c): the store would now return the state of the parts that the machine has.

    Only after all records of the parts have been written.
    """
    if home is not None:
        name = home.name
        reserved = (stored.reservations, stored.next_reservation)
        again = Home(name, stored.next_number, stored.jobs, stored.ended, *reserved)
        assert list(again.jobs) == list(home.jobs), f"{name}: jobs {list(home.jobs)} are not kept"
        for number, job in home.jobs.items():
            is_replay = again.jobs[number].equals(job)
            assert is_replay, f"{name}-{number} is not the replay of its events"
        assert again.reserved == home.reserved, f"{name}: reservations differ"
    if node is not None:
        name = node.settings.machine
        assert stored.drained == node.drained, f"{name}: stored as drained: {stored.drained}"
        word = stored.owner_word if node.owner is None else node.owner.given
        assert stored.owner_word == word, f"{name}: stored word of its owner {stored.owner_word}"
        learnt = stored.absences if node.owner is None else node.owner.learnt
        assert stored.absences == learnt, f"{name}: stored absences of its owner differ"
        claims = {claim.attempt: claim for claim in node.claims()}
        kept = {claim.attempt: claim for claim in stored.claims}
        assert kept == claims, f"{name}: claims {list(claims)}, stored {list(kept)}"
        booked = {booking.reservation: booking for booking in node.bookings.stored()}
        found = {booking.reservation: booking for booking in stored.bookings}
        assert found == booked, f"{name}: bookings {list(booked)}, stored {list(found)}"
        rows = {row.account: row for row in node.ledger.rows()}
        assert {row.account: row for row in stored.ledger} == rows, f"{name}: counters {rows}"


def check_views(node: Node, home: Home, broker: Broker) -> None:
    """Check that the broker agrees with node and home after the messages of a turn."""
    view = broker.state.machines[node.settings.machine]
    assert not view.matched, f"matches under way after the turn: {view.matched}"
    assert list(view.calendar) == node.running(), "claims that the broker knows"
    assert view.calendar.free == node.calendar.free, "what the broker thinks is free"
    wanted = {
        JobId(home.name, number): (job.ready, min(job.ready, job.requeued))
        for number, job in home.jobs.items()
        if job.ready
    }
    known = {
        job: (e.count, e.front)
        for job, e in broker.state.queues.entries.items()
        if job.home == home.name
    }
    assert known == wanted, f"the broker knows of {known}, the home has {wanted}"


def check_reasons(home: Home, broker: Broker, now: Instant) -> None:
    """Check (h): every waiting task has a reason, and a possible one."""
    for number, job in home.jobs.items():
        if not job.waiting:
            continue
        reasons = home.explain(number) or broker.explain(JobId(home.name, number), now)
        assert reasons, f"job {number} waits for nothing"
        assert reasons[0].rule is not Rule.STARTING, f"job {number} could start: {reasons}"
