"""Checks that machines learn when their owners are away, and that brokers hear of it (spec 016)."""

from __future__ import annotations

from math import fsum
from typing import NamedTuple

from iriai.machine.core import Machine
from iriai.model.instant import Instant
from iriai.model.owner import OwnerWord, SignKind
from iriai.node.suspending.giving_way import LEARNT_EVERY_S, GivingWay
from iriai.policy.owner.absence import COUNTS, HORIZON_S, KEPT
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.world import World

HOUR_S = 3_600.0
FADES = 0.84
"""No turn lets counts become less than this part of what they were: that of a week."""
SLACK_S = 0.5
LOST_H = LEARNT_EVERY_S / HOUR_S + 0.1
"""What a daemon that dies may not have stored, and a commit under way."""


class LearntState(NamedTuple):
    """What a machine had learnt after a turn."""

    core: Machine
    seen_s: float
    is_idle: bool
    hours: float
    returns: float


class AbsenceChecker:
    """Checks machines with an owner policy after their turns."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._last: dict[str, LearntState] = {}

    def check(self, machine: SimulatedMachine, owner: GivingWay, now: Instant) -> None:
        """Check a machine after a turn."""
        name, counts = machine.plan.name, KEPT.unpack(owner.absences.stored())
        is_idle = owner.presence.since_s is None
        state = LearntState(
            machine.core,
            owner.absences.seen_s,
            is_idle,
            fsum(counts[:COUNTS]),
            fsum(counts[COUNTS:]),
        )
        last = self._last.get(name)
        if last is not None and last.core is machine.core:
            self._check_learning(name, owner, last, state)
        elif last is not None:
            least = FADES * (last.hours - LOST_H)
            assert state.hours >= least, f"{name} has learnt {state.hours} h, and had {last.hours}"
        self._last[name] = state
        expected_s = machine.core.node.agreement.attributes(now.wall_s)["ExpectedIdle"]
        assert isinstance(expected_s, int)
        most_s = HORIZON_S if is_idle else 0.0
        assert 0 <= expected_s <= most_s, f"{name} expects {expected_s} s, idle: {is_idle}"
        self._check_brokers(name)

    def _check_learning(
        self, name: str, owner: GivingWay, last: LearntState, state: LearntState
    ) -> None:
        passed_s = state.seen_s - last.seen_s if last.is_idle else 0.0
        had_s, has_s = last.hours * HOUR_S, state.hours * HOUR_S
        least_s, most_s = FADES * (had_s + passed_s) - SLACK_S, had_s + passed_s + SLACK_S
        assert least_s <= has_s <= most_s, f"{name} counts {has_s} s idle, {had_s} + {passed_s}"
        presence = owner.presence
        kinds = [sign.kind for sign in owner.last if sign.at_s >= presence.last_s]
        # A word that was taken back is no sign, and shows that its owner is there.
        is_seen = presence.is_watched and kinds != [SignKind.START]
        is_return = last.is_idle and not state.is_idle
        is_return &= is_seen or presence.word is OwnerWord.HERE
        has_counted = state.returns > last.returns + 0.5
        assert has_counted == is_return, f"{name}: a return, {is_return}, is counted {has_counted}"

    def _check_brokers(self, name: str) -> None:
        """Check that each broker that knows the machine knows what it expects."""
        for machine in self._world.machines.values():
            broker = machine.core.own_broker if machine.is_up else None
            view = None if broker is None else broker.state.machines.get(name)
            if broker is None or view is None:
                continue
            is_known = view.expected_idle_s is not None and name in broker.state.index.owned
            assert is_known, f"{machine.plan.name} does not know when {name} is idle"
