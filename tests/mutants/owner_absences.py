"""Small mistakes about when owners are away; found in worlds of minutes, or of a day."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.broker.machines.machine_index import MachineIndex
from iriai.model.records import AbsencesLearnt
from iriai.node.suspending import giving_way
from iriai.node.suspending.giving_way import GivingWay
from iriai.policy.owner.absence import Absences
from iriai.protocol.messages.effects import Send
from iriai.protocol.messages.scheduling import Idle
from tests.mutants.mutants import Patch, around, effects, instead, lost_record, nothing


def _untold(effect):
    if type(effect) is not Send or type(effect.message) is not Idle:
        return effect
    return replace(effect, message=replace(effect.message, expected_idle_s=None))


def _any_use(whole, absences, steady_s, wall_s, *, is_idle, is_return=True):
    """The begin of a watch is taken for an owner who is back."""
    whole(absences, steady_s, wall_s, is_idle=is_idle, is_return=True)


def _idle_from_now(whole, absences, steady_s, wall_s, **more):
    """Each look is taken for the begin of an idle time."""
    if absences._since_s is not None:
        absences._since_s = absences.seen_s = steady_s
    whole(absences, steady_s, wall_s, **more)


ABSENCES: dict[str, Patch] = {
    "what is learnt of absences is not kept": lost_record(AbsencesLearnt),
    "a machine in use expects to be idle": instead(
        Absences, "expected_s", lambda _absences, _steady_s, _wall_s: 60.0
    ),
    "no return of an owner is learnt": instead(Absences, "_returned", nothing),
    "any use is taken for a return": around(Absences, "look", _any_use),
    "idle time is not counted": instead(Absences, "_pass", nothing),
    "idle time between two looks is not counted": around(Absences, "look", _idle_from_now),
    "a broker forgets how long owners stay away": instead(MachineIndex, "expect_owner", nothing),
    "reports do not say how long owners stay away": effects(_untold),
}
"""By what is wrong."""
ABSENCES_BY_DAY: dict[str, Patch] = {
    "a daemon that comes back has learnt nothing": instead(GivingWay, "remember", nothing),
    "what is learnt is stored once": lambda monkeypatch: monkeypatch.setattr(
        giving_way, "LEARNT_EVERY_S", 1e9
    ),
}
"""Those that a world of minutes does not show."""
