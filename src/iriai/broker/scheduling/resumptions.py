"""Suspended claims in a pass: which take their cpus again, and which must give up what they keep.

A user's own suspension moves nobody's promise (docs/spec/012, section 6). A claim that waits for
its cpus takes them before tasks that wait in the queue, and after what was promised to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from msgspec.structs import replace

from iriai.broker.machines.machine_view import MATCH_UNTIL_S, MachineView
from iriai.broker.state.state import BrokerState
from iriai.broker.state.suspended_claims import KnownSuspension
from iriai.model.resources import Resources
from iriai.policy.placement.policy_api import PlannedStart
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.suspension import ReturnCpus, Vacate

PROMISE_SLACK_S = 1.0
"""Two moments so near each other are one."""


class Resumption(NamedTuple):
    """Cpus that a suspended claim takes."""

    known: KnownSuspension
    cpus: int
    stay_s: float | None
    """For how long it has them at most; None: open."""
    kept_until_s: float
    """Until when others counted on that it keeps the rest, on the steady clock."""

    @property
    def order(self) -> Send:
        """Return the order to its machine."""
        view, running = self.known
        return Send(view.name, Part.NODE, ReturnCpus(running.attempt, self.cpus))

    def needed_at(self, start_s: float) -> Resources:
        """Return what the claim holds at `start_s`, which nobody who planned counted on."""
        taken = Resources(cpus=self.cpus)
        is_counted = self.kept_until_s > start_s + PROMISE_SLACK_S
        return taken if is_counted else taken.plus(self.known.running.kept)


Tolerates = Callable[[Resumption], bool]
"""Whether a claim may take cpus, and delays no promise by that."""


def resume(state: BrokerState, now_s: float, tolerates: Tolerates) -> Iterator[Resumption]:
    """Give claims that wait for their cpus those that are free; yield each as it takes them.

    Everywhere in the same order, so that no two each wait for what the other has taken already.
    """
    full: dict[str, None] = {}
    for attempt in sorted(state.suspended.resuming):
        known = state.suspended.claims[attempt]
        view, suspended = known.view, known.running.suspended
        if view.name in full or suspended is None or view.is_away:
            continue
        if state.preemptible.tasks and state.preemptible.stands(attempt):
            continue  # its queue keeps it from running, whatever it has
        full[view.name] = None  # for those behind it, unless it gets all
        if state.suspended.refused_s and not state.suspended.may_return(attempt, now_s):
            continue
        cpus = min(suspended.freed_cpus, max(0, state.preemptible.free_for(attempt, view)))
        is_whole = cpus == suspended.freed_cpus
        stay_s = suspended.left_s if is_whole else None
        resumption = Resumption(known, cpus, stay_s, view.calendar.end_s(attempt))
        if not cpus or not tolerates(resumption):
            continue
        if is_whole:
            del full[view.name]
        _take(state, known, cpus, stay_s, now_s)
        yield resumption


def _take(
    state: BrokerState, known: KnownSuspension, cpus: int, stay_s: float | None, now_s: float
) -> None:
    view, running = known
    assert running.suspended is not None
    state.suspended.returned.setdefault(running.attempt, known)
    left_cpus = running.suspended.freed_cpus - cpus
    suspended = running.suspended._replace(freed_cpus=left_cpus, is_resuming=left_cpus > 0)
    state.claim_changed(view, replace(running, suspended=suspended, ends_in_s=stay_s), now_s)
    state.index.changed(view)


def tolerated_by_plans(promised: Sequence[PlannedStart], now_s: float) -> Tolerates:
    """Return the rule beside promises of a whole policy: what outlasts one may delay it."""

    def tolerates(resumption: Resumption) -> bool:
        stay_s, view = resumption.stay_s, resumption.known.view
        end_s = inf if stay_s is None else now_s + stay_s
        return all(
            each.start_s is None or not _concerns(each, view) or end_s <= each.start_s
            for each in promised
        )

    return tolerates


def _concerns(promise: PlannedStart, view: MachineView) -> bool:
    return promise.machine == view.name if promise.machine else promise.pool in ("", view.pool)


def vacate(state: BrokerState, now_s: float, promised: Sequence[PlannedStart]) -> list[Send]:
    """Return the orders to end claims that keep, past their ends, what others were promised."""
    orders: list[Send] = []
    for view, running in state.suspended.kept_by_users():
        attempt, suspended = running.attempt, running.suspended
        asked_s = state.suspended.vacated_s.get(attempt, -inf)
        if suspended is None or view.is_away or now_s < asked_s + MATCH_UNTIL_S:
            continue
        end_s = view.calendar.end_s(attempt)
        if now_s < end_s - suspended.ending_s or not any(
            each.start_s is not None
            and each.start_s <= max(now_s, end_s) + PROMISE_SLACK_S
            and _concerns(each, view)
            for each in promised
        ):
            continue
        state.suspended.vacated_s[attempt] = now_s
        orders.append(Send(view.name, Part.NODE, Vacate(attempt)))
    return orders


def next_vacation_s(state: BrokerState, now_s: float) -> float:
    """Return when the next suspended claim may have to give up what it keeps."""
    moments = (
        view.calendar.end_s(running.attempt) - running.suspended.ending_s
        for view, running in state.suspended.kept_by_users()
        if running.suspended is not None
    )
    return min((at_s for at_s in moments if at_s > now_s), default=inf)
