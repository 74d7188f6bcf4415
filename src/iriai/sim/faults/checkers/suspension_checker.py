"""What is checked of suspended tasks: (l) and (n) of docs/spec/012, section 9.

`checker` has (m), which is about results.
"""

from __future__ import annotations

from iriai.machine.core import Machine
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.suspension import OF_QUEUES, Reasons, SuspendReason
from iriai.node.metering import HeldClaim
from iriai.node.suspension import OF_THE_MOMENT
from iriai.protocol.messages.effects import Part
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.work import ProcessModel
from iriai.sim.world.world import World

FOLLOWS_S = 3.0
"""How long a launcher may take to follow the reasons of a claim: the slowest commit, and more."""
EVICTS_S = 10.0
"""How long a task may stay suspended beyond what its user is allowed."""


class SuspensionChecker:
    """Judges what runs by the reasons that were given, and those by who took them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cores: dict[str, Machine] = {}
        self._reasons: dict[str, dict[AttemptId, Reasons]] = {}
        """By machine, the reasons of each claim after its last turn."""
        self._wrong_s: dict[AttemptId, tuple[int, float]] = {}
        """The order that the launcher of each claim does not follow yet, and since when."""
        self._overdue_s: dict[AttemptId, float] = {}
        """Since when each is suspended for longer than its user is allowed."""

    def check(self, machine: SimulatedMachine, now: Instant) -> None:
        """Check a machine after a turn."""
        if Part.NODE not in machine.plan.parts:
            return
        suspended = machine.core.node.suspended
        if not suspended and not self._reasons.get(machine.plan.name):
            return
        self._check_taken(machine, suspended)
        for attempt, held in suspended.items():
            self._check_followed(machine, attempt, held)
            self._check_bound(machine, attempt, held, now)

    def _check_taken(
        self, machine: SimulatedMachine, suspended: dict[AttemptId, HeldClaim]
    ) -> None:
        """Check that only who gave a reason took it; a daemon forgets those of the moment alone."""
        name = machine.plan.name
        before = self._reasons.get(name, {})
        if self._cores.get(name) is not machine.core:
            self._cores[name] = machine.core
            for attempt in before:  # of which the new daemon may know nothing
                self._forget(attempt)
            before = {
                claim.attempt: tuple(
                    each for each in claim.suspension.reasons if each not in OF_THE_MOMENT
                )
                for claim in machine.store.load().claims
                if claim.suspension is not None
            }
        reasons = {
            attempt: held.suspension.reasons
            for attempt, held in suspended.items()
            if held.suspension is not None
        }
        for attempt, were in before.items():
            if attempt not in machine.core.node.running():
                continue
            for reason in were:
                is_taken = machine.taken_s.get(reason) == self._world.now_s
                is_there = reason in reasons.get(attempt, ())
                is_of_others = reason is SuspendReason.USER or reason in OF_QUEUES
                is_of_others |= machine.core.node.owner is not None  # of which its own checker is
                assert is_there or is_taken or is_of_others, (
                    f"{attempt} has lost {reason} on {name}"
                )
        self._reasons[name] = reasons

    def _check_followed(
        self, machine: SimulatedMachine, attempt: AttemptId, held: HeldClaim
    ) -> None:
        """Check (l) and (n): what has a reason does not run, and what has none does."""
        launcher, now_s = machine.launcher, self._world.now_s
        process = launcher.running.get(attempt)
        is_there = launcher.is_up and not launcher.is_stopped and held.started_wall_s is not None
        suspension = held.suspension
        is_right = (
            process is None
            or suspension is None
            or not is_there
            or process.is_asked(now_s)
            or (process.frozen_since_s is not None)
            == bool(suspension.reasons or launcher.is_kept_by_owner(attempt))
        )
        if is_right or suspension is None:
            self._wrong_s.pop(attempt, None)
            return
        number, since_s = self._wrong_s.get(attempt, (0, now_s))
        if number != suspension.number:  # it could not follow that one before
            since_s = now_s
        self._wrong_s[attempt] = suspension.number, since_s
        lasted_s = now_s - max(since_s, launcher.woken_s)
        assert lasted_s <= FOLLOWS_S, f"{attempt} does not follow {suspension}"

    def _check_bound(
        self, machine: SimulatedMachine, attempt: AttemptId, held: HeldClaim, now: Instant
    ) -> None:
        """Check that no user keeps a task suspended for longer than is allowed."""
        suspension, launcher = held.suspension, machine.launcher
        most_s = machine.core.node.settings.user_suspend_max_s
        is_there = launcher.is_up and not launcher.is_stopped and attempt in launcher.running
        if (
            suspension is None
            or held.stop is not None
            or not is_there
            or suspension.total_by_user_s(now.steady_s) <= most_s
        ):
            self._overdue_s.pop(attempt, None)
            return
        since_s = self._overdue_s.setdefault(attempt, self._world.now_s)
        lasted_s = self._world.now_s - since_s
        assert lasted_s <= EVICTS_S, f"{attempt} is suspended, {lasted_s:.0f} s longer than allowed"

    def ended(self, process: ProcessModel) -> None:
        """Forget a process that has ended."""
        self._forget(process.attempt)

    def _forget(self, attempt: AttemptId) -> None:
        self._wrong_s.pop(attempt, None)
        self._overdue_s.pop(attempt, None)
