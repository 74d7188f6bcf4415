"""Small mistakes about suspended tasks; each is found from a seed in which some are suspended."""

from __future__ import annotations

from iriai.broker.scheduling import plan_policy, scheduling_pass
from iriai.broker.scheduling.scheduling_pass import SchedulingPass
from iriai.model.suspension import NO_REASONS
from iriai.node.metering import HeldClaim
from iriai.node.suspending import suspended_claims
from iriai.node.suspending.suspended_claims import NodeSuspensions
from iriai.node.suspension import Suspension
from iriai.protocol.messages.effects import FreezeAttempt
from tests.mutants.mutants import Patch, around, effects, instead, nothing


def _with_time_frozen(held: HeldClaim, now_s: float) -> float:
    began_s = held.started_steady_s
    return 0.0 if began_s is None else max(0.0, now_s - began_s)


def _without_cpus(whole, suspensions, returned, now):
    held = suspensions._live(returned.attempt)
    if held is not None and held.suspension is not None:
        held.suspension.freed_cpus = 0
    whole(suspensions, returned, now)


def _without_thaw(effect):
    is_thaw = type(effect) is FreezeAttempt and not effect.reasons
    return None if is_thaw else effect


def _never_vacated(monkeypatch) -> None:
    for module in (scheduling_pass, plan_policy):
        monkeypatch.setattr(module, "vacate", lambda *_: [])


SUSPENDED: dict[str, Patch] = {
    "what a machine keeps frozen goes on when its user wants that": instead(
        suspended_claims,
        "with_reason",
        lambda reasons, reason, *, is_given: (
            (*reasons, reason)
            if is_given and reason not in reasons
            else reasons
            if is_given
            else NO_REASONS
        ),
    ),
    "a user may keep a task suspended for ever": instead(NodeSuspensions, "evict_overdue", nothing),
    "time frozen is charged as if the task had run": instead(
        HeldClaim, "ran_so_far_s", _with_time_frozen
    ),
    "a task goes on without its cpus": around(NodeSuspensions, "_return_cpus", _without_cpus),
    "a task that goes on passes what was promised": instead(
        SchedulingPass, "_tolerates", lambda *_: True
    ),
    "a node that comes back forgets what is suspended": instead(
        Suspension, "restored", staticmethod(lambda *_: Suspension())
    ),
    "nothing is ever thawed": effects(_without_thaw),
    "what is kept beyond its end is never vacated": _never_vacated,
}
