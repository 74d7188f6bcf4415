"""Small mistakes about owners; each is found where machines have some."""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from iriai.broker.usage.usage import UsageAccounts
from iriai.model.owner import NO_CONDITIONS, SignKind, StandingOrder
from iriai.model.records import OwnerWordGiven
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendReason
from iriai.node.metering import Meter
from iriai.node.suspending.giving_way import GivingWay
from iriai.node.suspending.suspended_claims import NodeSuspensions
from iriai.policy.accounting.refunds import ReturnedCharges
from iriai.policy.owner.owner_steps import OwnerStep, OwnerSteps
from iriai.policy.owner.presence import Presence
from iriai.protocol.messages.effects import FreezeAttempt, TerminateAttempt, WatchOwner
from tests.mutants.mutants import Patch, around, effects, instead, lost_effect, lost_record, nothing


def _over_in_any_case(whole, order, number, exempt, signs, *, suspends, are_over):
    """A sign that comes while the node decides is forgotten."""
    return whole(
        order,
        number,
        exempt,
        order.signs if are_over else signs,
        suspends=suspends,
        are_over=are_over,
    )


def _known_at_once(giving_way):
    """A daemon that was restarted lets go on what its launcher keeps frozen."""
    giving_way._ordered, giving_way._is_known = None, True


def _without_owner(effect):
    if type(effect) is not FreezeAttempt or SuspendReason.OWNER not in effect.reasons:
        return effect
    reasons = tuple(each for each in effect.reasons if each is not SuspendReason.OWNER)
    return replace(effect, reasons=reasons)


def _nobody_exempt(effect):
    return replace(effect, exempt=()) if type(effect) is WatchOwner else effect


def _never_evicted(effect):
    is_eviction = type(effect) is TerminateAttempt and effect.cause is EndCause.EVICTED
    return None if is_eviction else effect


def _given_alone(whole, suspensions, attempts, reason, now, *, is_given, **more):
    if is_given or reason is not SuspendReason.OWNER:
        whole(suspensions, attempts, reason, now, is_given=is_given, **more)


def _spared(whole, suspensions, held, words, **more):
    """A task that skips being suspended stays as it is."""
    if not held.claim.no_suspend:
        whole(suspensions, held, words, **more)


def _sleeps_on(giving_way, _event, _now):
    """It sleeps, and takes no notice."""


def _hears_nothing_stored(giving_way, given, now):
    """A daemon that was restarted goes by signs alone."""
    giving_way.given = given


def _unseen(presence, now_s, *, is_watched):
    presence.is_watched = True
    presence.look(now_s)


def _sooner(presence, now_s):
    """It counts as left alone after half the time."""
    return not presence.is_watched or now_s < presence.last_s + presence._continue_s / 2


def _returned_for_any_reason(meter, held, event, ran_s, now):
    """Whatever is evicted is returned."""
    meter.read(held, ran_s, event.usage.cpu_s, now)
    if event.cause is EndCause.EVICTED:
        meter._return(held, event, now)


def _unwatched(effect):
    return replace(effect, conditions=NO_CONDITIONS) if type(effect) is WatchOwner else effect


def _seldom(effect):
    if type(effect) is not WatchOwner:
        return effect
    return replace(effect, conditions=effect.conditions._replace(repeat_s=60.0))


OWNERS: dict[str, Patch] = {
    "nobody looks for conditions": effects(_unwatched),
    "a condition that lasts is told too seldom": effects(_seldom),
    "a sensor of a condition is taken for one that sees people": instead(
        SignKind, "is_condition", property(lambda _kind: False)
    ),
    "what owners destroy is not returned": instead(Meter, "_return", nothing),
    "what is evicted for another reason is returned": instead(
        Meter, "ended", _returned_for_any_reason
    ),
    "a broker counts nothing that was returned": instead(UsageAccounts, "_return", nothing),
    "all that owners destroy on a day is returned": around(
        ReturnedCharges,
        "at",
        lambda whole, every, wall_s, _most_s, decay: whole(every, wall_s, inf, decay),
    ),
    "the launcher has no standing order": lost_effect(WatchOwner),
    "a launcher lets tasks go on whatever came since": around(
        StandingOrder, "take", _over_in_any_case
    ),
    "a launcher freezes nothing at a sign": instead(
        StandingOrder, "keeps", lambda _order, _attempt: False
    ),
    "tasks of exempt users are frozen at a sign": effects(_nobody_exempt),
    "what stands for its owner never goes on": around(NodeSuspensions, "give", _given_alone),
    "a machine counts as left alone too soon": instead(Presence, "_is_in_use", _sooner),
    "the owner's word is not heard": instead(Presence, "say", nothing),
    "nothing is vacated": instead(
        OwnerSteps,
        "step",
        lambda policy, used_s: OwnerStep.SUSPEND if policy.suspend_s <= used_s else OwnerStep.NONE,
    ),
    "what skips being suspended is not vacated": around(NodeSuspensions, "vacate", _spared),
    "a daemon that comes back does not go by its owner's word": instead(
        GivingWay, "restore", _hears_nothing_stored
    ),
    "the owner's word is not kept": lost_record(OwnerWordGiven),
    "a sensor that fails is taken for nobody there": instead(Presence, "watched", _unseen),
    "tasks stay although the machine is about to sleep": instead(
        GivingWay, "_falls_asleep", _sleeps_on
    ),
    "the node does not wake when its owner has left": instead(
        GivingWay, "next_s", lambda _giving_way, _now_s: None
    ),
}
"""By what is wrong."""
