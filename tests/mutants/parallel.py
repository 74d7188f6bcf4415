"""Small mistakes about attempts of several seats; each is found from a seed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.home import parallel_attempt
from iriai.home.attempts import Attempts
from iriai.home.node_sessions import NodeSessions
from iriai.home.parallel_attempt import ParallelAttempt
from iriai.model.claim import Phase
from iriai.model.records import ClaimStored, Decided, JobEvent
from iriai.node.claims import Claims
from iriai.node.core import Node
from iriai.node.holds import Holds
from iriai.node.metering import HeldClaim
from iriai.protocol.messages.effects import Persist, Send
from iriai.protocol.messages.scheduling import Match, Run
from tests.mutants.mutants import Patch, around, effects, instead, nothing


def _phase_without_confirmations(attempt: ParallelAttempt) -> Phase:
    return Phase.STARTED if attempt.is_decided else Phase.HELD


def _is_decided_late(effect):
    is_decision = (
        type(effect) is Persist
        and type(effect.record) is JobEvent
        and type(effect.record.change) is Decided
    )
    return Persist(effect.record, urgent=False) if is_decision else effect


def _without_confirmations(effect):
    is_confirmed = (
        type(effect) is Persist
        and type(effect.record) is ClaimStored
        and effect.record.claim.phase is Phase.CONFIRMED
    )
    return None if is_confirmed else effect


def _with_a_rank_less(effect):
    """The broker gives the last of several seats one rank less, or leaves it out."""
    if type(effect) is not Send or type(effect.message) is not Match:
        return effect
    *first, last = effect.message.seats
    if not first:
        return effect
    seats = [*first, last._replace(ranks=last.ranks - 1)] if last.ranks > 1 else first
    return Send(effect.machine, effect.part, replace(effect.message, seats=tuple(seats)))


def _of_the_first_rank(whole, claims, run: Run, now, *, is_ahead):
    return whole(claims, replace(run, ranks=1), now, is_ahead=is_ahead)


def _seats_that_nobody_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(Attempts, "suits", lambda *_: True)(monkeypatch)
    effects(_with_a_rank_less)(monkeypatch)


def _all_decided(whole, attempts, now):
    for job in attempts._jobs.values():
        for task in job.tasks.values():
            if task.parallel is not None:
                task.parallel.is_decided = True
    whole(attempts, now)


def _spec_of_each_phase(whole, node, run: Run, held: HeldClaim, now):
    held.spec = run.spec
    whole(node, run, held, now)


PARALLEL: dict[str, Patch] = {
    "a home has an attempt start that is not confirmed": instead(
        ParallelAttempt, "phase", property(_phase_without_confirmations)
    ),
    "a decision is not waited for": effects(_is_decided_late),
    "a machine starts what it only holds": instead(
        HeldClaim, "may_start", property(lambda held: not held.claim.is_ahead)
    ),
    "what is held never ends": instead(Holds, "over", lambda *_: []),
    "a confirmation is not kept": effects(_without_confirmations),
    "the end of a seat ends no other": instead(NodeSessions, "stop_seats", nothing),
    "an attempt is over with its first seat": instead(
        ParallelAttempt, "is_over", property(lambda attempt: bool(attempt.ends.over))
    ),
    "a home that comes back takes all attempts for decided": around(
        Attempts, "rejoin", _all_decided
    ),
    "an attempt completes though a seat of it failed": instead(
        parallel_attempt, "_decides", lambda result, *_, **__: not result.attempt.rank
    ),
    "an attempt starts with fewer ranks than it has": _seats_that_nobody_checks,
    "a seat takes what one rank needs": around(Claims, "_claim", _of_the_first_rank),
    "a seat starts before it knows which others there are": around(
        Node, "_run_again", _spec_of_each_phase
    ),
    "a home does not count how long seats are held": instead(
        Attempts, "give_up_undecided", nothing
    ),
}
