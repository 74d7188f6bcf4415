"""Checks that tasks give way to owners, and go on (docs/spec/016, section 7)."""

from __future__ import annotations

from math import inf

from iriai.model.instant import Instant
from iriai.model.suspension import SuspendReason
from iriai.node.metering import HeldClaim
from iriai.node.suspending.giving_way import GivingWay
from iriai.policy.owner.owner_judge import POLL_S
from iriai.protocol.messages.effects import Part
from iriai.sim.faults.checkers.absence_checker import AbsenceChecker
from iriai.sim.faults.owners import RESUME_IDLE_S, SUSPEND_IDLE_S
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.world import World

FOLLOWS_S = 3.0
"""Until a daemon that is there has followed what it knows, beside the time of its commits."""
TOLD_PART = 0.25
"""Of the time after which use is over, a condition that lasts is told again."""


class OwnerChecker:
    """Checks machines with an owner policy after their turns."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._absences = AbsenceChecker(world)
        self._wrong_s: dict[tuple[str, str], float] = {}
        """By machine and what is wrong there, since when."""

    def check(self, machine: SimulatedMachine, now: Instant) -> None:
        """Check a machine after a turn."""
        if Part.NODE not in machine.plan.parts or machine.core.node.owner is None:
            return
        owner = machine.core.node.owner
        self._check_reflex(machine, owner, now)
        self._absences.check(machine, owner, now)
        self._is_late(machine, "in use", self._is_used_for_nothing(machine, owner, now))
        self._is_late(machine, "deaf to its owner", self._is_deaf(machine, owner, now))
        self._is_late(machine, "free, and sees nobody", self._is_blind(machine, owner))
        unheeded = self._is_unheeded(machine, owner)
        told_s = owner.policy.continue_s * TOLD_PART
        self._is_late(machine, "free, and a condition holds", unheeded, also_s=told_s)
        for held in map(machine.core.node.held, machine.core.node.running()):
            self._check_claim(machine, owner, held, now)

    def _check_reflex(self, machine: SimulatedMachine, owner: GivingWay, now: Instant) -> None:
        """Check (o): after a sign nothing runs that gives way, whatever became of the daemon."""
        launcher, now_s = machine.launcher, self._world.now_s
        seen_s = launcher.owner_seen_s
        if owner.policy.suspends_at_once:
            seen_s = max(seen_s, launcher.woke_s)  # after sleep nobody knows who is there
        until_s = seen_s + owner.policy.continue_s
        if not launcher.is_up or launcher.is_stopped or now.steady_s >= until_s:
            return
        for attempt, process in launcher.running.items():
            if process.executes(now_s) and not process.is_asked(now_s):
                user = process.spec.user
                assert owner.policy.exempts(user), (
                    f"{attempt} of {user} runs under the owner of {machine.plan.name}"
                )

    def _is_used_for_nothing(
        self, machine: SimulatedMachine, owner: GivingWay, now: Instant
    ) -> bool:
        """Return whether a machine counts as in use though nobody was seen for long enough."""
        launcher, presence = machine.launcher, owner.presence
        if not machine.core.node.has_launcher or not launcher.is_up or launcher.is_stopped:
            return False
        last_s = max(launcher.owner_seen_s, presence.last_s)
        is_quiet = now.steady_s > last_s + owner.policy.continue_s
        is_by_signs = presence.word is None and not launcher.sensor_fails
        return presence.since_s is not None and is_quiet and is_by_signs

    def _is_blind(self, machine: SimulatedMachine, owner: GivingWay) -> bool:
        """Return whether a machine counts as left alone, though none of its sensors works."""
        launcher, presence = machine.launcher, owner.presence
        is_there = launcher.is_up and not launcher.is_stopped and machine.core.node.has_launcher
        return (
            is_there and launcher.sensor_fails and presence.word is None
        ) and presence.since_s is None

    def _is_unheeded(self, machine: SimulatedMachine, owner: GivingWay) -> bool:
        """Return whether a machine counts as left alone, though a condition holds that counts."""
        launcher, presence = machine.launcher, owner.presence
        is_there = launcher.is_up and not launcher.is_stopped and machine.core.node.has_launcher
        holds = bool(machine.conditions)
        return is_there and holds and presence.word is None and presence.since_s is None

    def _is_deaf(self, machine: SimulatedMachine, owner: GivingWay, now: Instant) -> bool:
        """Return whether a daemon does not go by what its owner told it."""
        if machine.owner_word is None:
            return False
        core, word, until_s = machine.owner_word
        stored = None if owner.given is None else owner.given.word
        is_heard = core is machine.core or stored is word  # or it died before that was durable
        is_in_force = is_heard and now.wall_s < until_s
        return is_in_force and owner.presence.word is not word

    def _check_claim(
        self, machine: SimulatedMachine, owner: GivingWay, held: HeldClaim, now: Instant
    ) -> None:
        """Check (p) and (q): a claim stands for its owner while that is due, and no longer."""
        attempt = held.claim.attempt
        used_s = owner.presence.used_s(now.steady_s)
        is_exempt = owner.policy.exempts(held.claim.user)
        reasons = () if held.suspension is None else held.suspension.reasons
        is_given = SuspendReason.OWNER in reasons
        is_ending = held.stop is not None
        due_s = inf if used_s is None or is_exempt else used_s - owner.policy.suspend_s
        is_awake = machine.sleep_announced_to is not machine.core
        is_free = used_s is None and owner.judge is None and is_awake
        stands = is_given and not is_ending and (is_free or is_exempt)
        stands |= is_exempt and machine.launcher.is_kept_by_owner(attempt)
        self._is_late(machine, f"{attempt} stands for nobody", stands)
        runs = used_s is not None and not is_exempt and due_s > 0.0
        runs &= not (is_given or is_ending) and machine.core.node.has_launcher
        runs &= held.is_ordered or not held.claim.no_suspend  # it is ended once it is ordered
        self._is_late(machine, f"{attempt} was not suspended", runs)
        sleeps = machine.sleep_announced_to is machine.core and not is_exempt
        sleeps &= held.is_ordered and not is_ending and machine.core.node.has_launcher
        self._is_late(machine, f"{attempt} did not leave before sleep", sleeps)
        last_s = min(owner.policy.vacate_s, owner.policy.discard_s)
        stays = used_s is not None and not is_exempt and used_s > last_s
        stays &= held.is_ordered and not is_ending and machine.core.node.has_launcher
        self._is_late(machine, f"{attempt} was not vacated", stays)
        if owner.judge is None or is_exempt or is_ending or owner.presence.word is not None:
            return
        if owner.is_about_to_sleep:
            return  # all stand, until they have left
        # Signs while the owner was away by their word do not count as use, but are times.
        seen_s = max((sign.at_s for sign in owner.last), default=-inf)
        idle_s = now.steady_s - max(seen_s, owner.presence.last_s)
        is_there = machine.core.node.has_launcher and owner.presence.is_watched
        runs = is_there and held.is_ordered and not is_given and idle_s < SUSPEND_IDLE_S
        self._is_late(machine, f"{attempt} was not suspended by an expression", runs)
        is_alone = owner.judge.busy_s(now.steady_s) == 0.0 and idle_s > RESUME_IDLE_S + 1 + POLL_S
        stands = is_there and is_given and is_alone
        self._is_late(machine, f"{attempt} stands though an expression lets it go on", stands)

    def _is_late(
        self, machine: SimulatedMachine, words: str, is_wrong: bool, *, also_s: float = 0.0
    ) -> None:
        """Fail if something is wrong for too long."""
        key = machine.plan.name, words
        if not is_wrong:
            self._wrong_s.pop(key, None)
            return
        since_s = self._wrong_s.setdefault(key, self._world.now_s)
        most_s = FOLLOWS_S + 2 * machine.plan.sync_s + also_s
        lasted_s = self._world.now_s - since_s
        assert lasted_s <= most_s, f"{words} on {machine.plan.name} for {lasted_s:.1f} s"
