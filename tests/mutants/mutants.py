"""Mutants of the cores, by name. Each is one small mistake, and nothing else is different.

A home that tells no broker that is back is none of them: it says all again within half a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from iriai.broker.core import Broker
from iriai.broker.intake.reports import NodeReports
from iriai.broker.state.state import BrokerState
from iriai.home import leases as home_leases
from iriai.home.attempts import Attempts, NodeSessions
from iriai.home.core import Home
from iriai.home.job import JobState
from iriai.machine.core import Machine
from iriai.model.records import (
    AttemptResult,
    ClaimsDropped,
    ClaimStored,
    Incarnated,
    JobAccepted,
    JobEvent,
    JobFinished,
    LedgerRow,
    Resumed,
)
from iriai.model.state import EndCause
from iriai.node.admission import Admission
from iriai.node.attempt_ends import AttemptEnds
from iriai.node.claims import Claims, LeaseRenewal
from iriai.node.core import Node
from iriai.node.metering import HeldClaim, Meter, UsageCounters
from iriai.node.offer_builder import Capabilities
from iriai.protocol.messages.effects import (
    ForgetAttempt,
    LaunchAttempt,
    Part,
    Persist,
    RenewLeases,
    Send,
    WakeAt,
)
from iriai.protocol.messages.scheduling import (
    Acknowledge,
    Counted,
    End,
    Idle,
    Match,
    Refusal,
    Renew,
    Renewed,
    Run,
    Want,
)

Patch = Callable[[pytest.MonkeyPatch], None]
MUTANTS: dict[str, Patch] = {}
"""Each makes the mutant for as long as the patch lasts."""


def mutant(name: str) -> Callable[[Patch], Patch]:
    """Enter a mutant."""

    def enter(patch: Patch) -> Patch:
        assert name not in MUTANTS
        MUTANTS[name] = patch
        return patch

    return enter


def around(owner: type, method: str, changed: Callable[..., Any]) -> Patch:
    """`method` is `changed` instead, which is given the original first."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        whole = getattr(owner, method)
        monkeypatch.setattr(owner, method, lambda *args, **more: changed(whole, *args, **more))

    return patch


def instead(owner: Any, method: str, changed: Callable[..., Any]) -> Patch:
    """`method` is `changed` instead."""
    return lambda monkeypatch: monkeypatch.setattr(owner, method, changed)


def effects(altered: Callable[[Any], Any]) -> Patch:
    """Each effect of a core becomes what `altered` makes of it; None: it is lost."""

    def take(whole, machine, asked):
        made = [altered(effect) for effect in asked]
        whole(machine, [effect for effect in made if effect is not None])

    return around(Machine, "_route", take)


def lost_message(kind: type) -> Patch:
    """A part forgets to say something."""
    return effects(lambda e: None if type(e) is Send and type(e.message) is kind else e)


def lost_record(kind: type) -> Patch:
    """A part forgets to have something kept."""
    return effects(lambda e: None if type(e) is Persist and type(e.record) is kind else e)


def late_record(kind: type) -> Patch:
    """A part lets others act on what is not durable yet."""
    return effects(
        lambda e: Persist(e.record, False) if type(e) is Persist and type(e.record) is kind else e
    )


def lost_effect(kind: type) -> Patch:
    """A part forgets to ask for something."""
    return effects(lambda e: None if type(e) is kind else e)


def lost_alarm(part: Part) -> Patch:
    """A part forgets to have itself woken."""
    return effects(lambda e: None if type(e) is WakeAt and e.part is part else e)


def nothing(*_args: Any) -> None:
    """In place of what should be done."""


for kind in (Acknowledge, End, Refusal, Renew, Renewed, Run, Match, Want, Idle, Counted):
    MUTANTS[f"{kind.__name__} is never sent"] = lost_message(kind)
for kind in (JobEvent, JobFinished, AttemptResult, ClaimStored, ClaimsDropped, LedgerRow):
    MUTANTS[f"{kind.__name__} is never kept"] = lost_record(kind)
for kind in (Incarnated, JobAccepted, Resumed):
    MUTANTS[f"{kind.__name__} is never kept"] = lost_record(kind)
MUTANTS["JobAccepted is not waited for"] = late_record(JobAccepted)
for kind in (ForgetAttempt, LaunchAttempt, RenewLeases):
    MUTANTS[f"{kind.__name__} is never ordered"] = lost_effect(kind)
for part in (Part.NODE, Part.HOME):
    MUTANTS[f"the alarm of the {part} is never set"] = lost_alarm(part)


def _confirmed_by_itself(whole, leases, now_s):
    """All that waits for a home's word starts without."""
    for name, renew in whole(leases, now_s):
        for held in leases.of(name):
            held.leased_steady_s = now_s
        yield name, renew


def _with_nothing_charged(held):
    held.charged_s = held.metered_s = 0.0
    return held


def _as_completed(end):
    if end.result.cause is not EndCause.MEMORY_LIMIT:
        return end
    return replace(end, result=replace(end.result, cause=EndCause.COMPLETED))


def _halved_each_other_time(row):
    return replace(row, counter=row.counter / 2) if row.runs % 2 else row


def _forgetting_attempts(whole, home, stored):
    stored.events = []
    whole(home, stored)


def _by_number(nodes, attempt):
    job = nodes._jobs.get(attempt.number)
    if job is None or attempt.home != nodes._home or attempt.index not in job.tasks:
        return None
    return job


def _forgetting_promise(whole, home, promise, now):
    whole(home, promise, now)
    job = home.jobs.get(promise.job.number)
    if job is not None:
        job.promised_wall_s = None


def _one_more(job):
    job.waiting += 1


def _granting_what_is_not_free(monkeypatch):
    """Beside a broker that forgets what runs, which alone costs refusals: stale views are rare."""
    monkeypatch.setattr(Admission, "_lacks", nothing)
    monkeypatch.setattr(NodeReports, "_running", nothing)


NAMED: dict[str, Patch] = {
    # --- node
    "a node ignores that an end is stored": instead(AttemptEnds, "acknowledge", nothing),
    "a node grants what is not free": _granting_what_is_not_free,
    "a node keeps the claim of what has ended": instead(AttemptEnds, "_free", nothing),
    "a node starts at once what is to wait for a place": around(
        Claims, "grant", lambda whole, *args, is_ahead: whole(*args, is_ahead=False)
    ),
    "a node forgets what waits for a place": instead(Node, "_see_to_waiting", nothing),
    "a node says nothing again when a link is back": instead(Node, "_link_up", nothing),
    "a node does not report anew to a broker that is back": instead(Node, "resend_report", nothing),
    "a node does not compare claims with what runs": instead(Node, "_reconcile", nothing),
    "a node asks for no lease": instead(LeaseRenewal, "due", lambda *_: iter(())),
    "a node takes any answer for a renewal of today": around(
        HeldClaim, "renew", lambda whole, held, asked_s, now_s: whole(held, now_s + 60.0, now_s)
    ),
    "a node confirms its leases itself": around(LeaseRenewal, "due", _confirmed_by_itself),
    "a node that comes back has charged nothing": around(
        HeldClaim, "restored", lambda whole, *args: _with_nothing_charged(whole(*args))
    ),
    "a node forgets who was charged when it comes back": around(
        UsageCounters, "__init__", lambda whole, ledger, fading, _rows: whole(ledger, fading, ())
    ),
    "a counter falls": around(
        UsageCounters, "_row", lambda whole, *args: _halved_each_other_time(whole(*args))
    ),
    "what ran is charged twice": around(
        Meter,
        "read",
        lambda whole, meter, held, ran_s, cpu_s, now: whole(meter, held, 2 * ran_s, cpu_s, now),
    ),
    "what is used beyond the claim is not charged": around(
        Meter,
        "read",
        lambda whole, meter, held, ran_s, _cpu_s, now: whole(meter, held, ran_s, 0.0, now),
    ),
    "a machine whose prolog failed goes on": instead(Node, "_prolog_failed", nothing),
    "every restart is of the same incarnation": around(
        Capabilities, "__init__", lambda whole, each, _incarnation, rng: whole(each, 1, rng)
    ),
    # --- home
    "an attempt is numbered twice": instead(JobState, "next_attempt", lambda *_: 1),
    "a home gives up before the lease is over": instead(home_leases, "patience_s", lambda _s: 3.0),
    "a home counts leases from their first run alone": instead(
        home_leases.Leases, "answer", nothing
    ),
    "a home that comes back leases nothing": instead(NodeSessions, "rejoin", nothing),
    "a home that comes back makes new attempts of all": around(
        Home, "_restore", _forgetting_attempts
    ),
    "a home does not acknowledge what it knows": around(
        Attempts,
        "ended",
        lambda whole, each, end, now: each.nodes.current(end.attempt) and whole(each, end, now),
    ),
    "a home takes the end of any attempt for that of the last": around(
        NodeSessions, "current", lambda _whole, nodes, attempt: _by_number(nodes, attempt)
    ),
    "a home does not say what it wants after an end": around(
        Attempts,
        "_end",
        lambda whole, each, *args: (whole(each, *args), each._requests._due.clear()),
    ),
    "a task that was ended for its memory is taken for completed": around(
        Attempts,
        "ended",
        lambda whole, each, end, now: whole(each, _as_completed(end), now),
    ),
    "a lost task is not repeated": around(
        JobState,
        "_is_repeated",
        lambda whole, job, task, cause: cause is not EndCause.LOST and whole(job, task, cause),
    ),
    "a promise is forgotten": around(
        Home,
        "_promise",
        _forgetting_promise,
    ),
    "a task that starts still waits": around(
        JobState, "attempted", lambda whole, job, *args: (whole(job, *args), _one_more(job))
    ),
    # --- broker
    "a broker does not hear of ends": around(
        NodeReports,
        "receive",
        lambda whole, reports, idle, now: whole(reports, replace(idle, ended=()), now),
    ),
    "a broker keeps in mind what waited when it begins": instead(BrokerState, "end_ahead", nothing),
    "a broker explains nothing": instead(Broker, "explain", lambda *_: []),
}
MUTANTS |= NAMED
