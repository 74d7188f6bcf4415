"""Invariants of several machines together, true at all times (docs/spec/001, section 10).

Machines do not see each other's state; a message may be in transit, or lost. The invariants here
hold nevertheless. Each function raises AssertionError if its invariant is broken; none changes
anything. `checks` has those within one machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from iriai.home.core import Home
from iriai.machine.core import Machine
from iriai.model.ids import AttemptId, TaskId
from iriai.model.instant import Instant
from iriai.model.reason import Rule
from iriai.model.state import TaskState
from iriai.protocol.messages.effects import Part


def check_cluster(machines: Mapping[str, Machine], now: Mapping[str, Instant]) -> None:
    """Check all machines whose daemons are up, by name; `now` is the time of each clock."""
    parts = {name: each.parts for name, each in machines.items()}
    homes = {name: each.home for name, each in machines.items() if Part.HOME in parts[name]}
    live: dict[TaskId, tuple[AttemptId, dict[AttemptId, str]]] = {}
    for name, machine in machines.items():
        its = parts[name]
        _check_parts(machine, its)
        if Part.NODE in its:
            for attempt in machine.node.live(now[name]):
                _check_alone(live, name, attempt)
                _check_wanted(homes, name, attempt)
        if Part.BROKER in its:
            _check_reasons(machine, now[name])


def _check_parts(machine: Machine, parts: tuple[Part, ...]) -> None:
    """Check (a) and (c) of each part: capacity, sums of tasks, leases of offline machines."""
    if Part.NODE in parts:
        machine.node.check()
    if Part.HOME in parts:
        machine.home.check()
    if Part.BROKER in parts:
        machine.broker.check()


def _check_alone(
    live: dict[TaskId, tuple[AttemptId, dict[AttemptId, str]]], name: str, attempt: AttemptId
) -> None:
    """Check (b): at most one attempt of a task may run, and each seat of it on one machine."""
    whole = attempt.seat(0)
    known, seats = live.setdefault(attempt.task, (whole, {}))
    assert known == whole, f"{attempt} on {name} beside {known} on {list(seats.values())}"
    assert attempt not in seats, f"{attempt} on {name} and on {seats[attempt]}"
    seats[attempt] = name


def _check_wanted(homes: Mapping[str, Home], name: str, attempt: AttemptId) -> None:
    """Check (b): a home has not given up an attempt that may still run."""
    home = homes.get(attempt.home)
    if home is None:
        return
    job = home.jobs.get(attempt.number)
    task = job.tasks.get(attempt.index) if job is not None else None
    assert task is not None, f"{attempt} is live on {name}, and its task is over"
    assert task.state is not TaskState.QUEUED, f"{attempt} is live on {name}, and its task waits"
    assert task.attempt == attempt.attempt, f"{attempt} is live on {name} beside {task.attempt}"
    assert task.has_seat(attempt.rank), f"{attempt} is live on {name}, and its home has its end"
    meant = task.machine_of(attempt.rank)
    assert meant == name, f"{attempt} is live on {name}, its home means {meant}"
    assert task.is_decided, f"{attempt} is live on {name}, and its home has not decided"


def _check_reasons(machine: Machine, now: Instant) -> None:
    """Check (h): every task that waits at a broker has a reason."""
    broker = machine.broker
    for job in broker.state.queues.entries:
        reasons = broker.explain(job, now)
        assert reasons, f"{job} waits for nothing"
        assert all(isinstance(reason.rule, Rule) for reason in reasons)
