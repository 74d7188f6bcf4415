"""The checker of what gives way and takes turns (docs/spec/013, section 7)."""

from __future__ import annotations

from iriai.broker.core import Broker
from iriai.broker.machines.machine_view import MachineView
from iriai.broker.queue.entries import QueuedJob
from iriai.broker.state.preemptible_claims import PreemptibleTask, Standing
from iriai.broker.state.reserved_heads import kept_for
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Part
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.world import World

TOGETHER_PART = 0.99
"""The part of the time in which the seats of a gang run together, once the broker has left their
turns unchanged for `SETTLES_S`."""
SETTLES_S = 10.0
MOVES_WITHIN_S = 1.0
"""How long after its time of residence a task may still be in its queue."""


class TurnChecker:
    """Checks the broker of each machine after its turns, and what machines run then."""

    def __init__(self, world: World, *, is_calm: bool) -> None:
        self._world = world
        self._is_calm = is_calm
        self._since_s: dict[PreemptibleTask, tuple[object, float]] = {}
        """By gang, its turn and since when it has had it."""
        self._over_s: dict[AttemptId, float] = {}
        """Since when each has resided in its queue for too long."""
        self._looks = self._together = 0

    def check(self, machine: SimulatedMachine, now: Instant) -> None:
        """Check a machine after a turn."""
        if Part.NODE in machine.plan.parts:
            self._check_residence(machine, now)
        broker = machine.core.own_broker
        if broker is None or not broker.state.preemptible.tasks:
            return
        if not broker.has_settled(now.steady_s):
            return
        broker.state.preemptible.check()
        self._check_standing(broker)
        for entry in broker.state.queues.entries.values():
            self._check_waiting(broker, entry)
        if self._is_calm:
            self._check_together(broker, now)

    def _check_residence(self, machine: SimulatedMachine, now: Instant) -> None:
        """Check that no task runs in a queue for longer than it may reside there."""
        node = machine.core.node
        for attempt in node.running():
            held = node.held(attempt)
            over_s = -node.residence.left_s(held, now.steady_s)
            if held.is_preempted or over_s <= 0.0:
                self._over_s.pop(attempt, None)
                continue
            since_s = self._over_s.setdefault(attempt, self._world.now_s)
            assert self._world.now_s - since_s <= MOVES_WITHIN_S, f"{attempt} stays {over_s:.1f} s"

    def _check_standing(self, broker: Broker) -> None:
        """Check that what stands could not run."""
        claims = broker.state.preemptible
        starting = broker.state.settings.configuration.starting_queues
        for task in claims.tasks:
            assert task.standing is not Standing.ASIDE, f"{list(task.seats)} is aside"
            is_idle = task.queue not in starting and task.standing is Standing.RUNS
            assert not (is_idle and task.is_granted), f"{list(task.seats)} runs, and is stopped"
            if task.standing is Standing.PREEMPTED and task.queue in starting:
                assert not claims.fits(task), f"{list(task.seats)} could run, and stands"

    def _check_waiting(self, broker: Broker, entry: QueuedJob) -> None:
        """Check that no task of a lower level runs in the place of one that waits."""
        state, kind, level = broker.state, entry.kind, entry.precedence.level
        is_plain = not (kind.is_wide or kind.key.exclusive or kind.key.is_guest)
        is_head = any(each.job == entry.want.job for each in state.heads.by_machine.values())
        if is_head or not is_plain or not kind.is_possible or state.cap_cpus is not None:
            return
        for view in state.machines.values():
            if not view.is_available or not view.capabilities or not kind.may_run_on(view.name):
                continue
            most = state.slots.most(view.pool)
            if most is not None and state.slots.running(view.pool) >= most:
                continue
            heads = [each.job for each in state.heads.by_job.values() if each.is_in(view.pool)]
            if view.name in state.heads.by_machine:
                heads.append(state.heads.by_machine[view.name].job)
            if any(state.queues.level_of(job) <= level for job in heads):
                continue
            room = view.calendar.free.plus(Resources(cpus=_lower_cpus(broker, view, level)))
            assert not kept_for(kind, view).fits_in(room), (
                f"{entry.want.job} of level {level} waits, and lower tasks run on {view.name}"
            )

    def _check_together(self, broker: Broker, now: Instant) -> None:
        """Look whether all seats of gangs run, or all stand."""
        for task in broker.state.preemptible.tasks:
            state = (task.turn, task.standing)
            known, since_s = self._since_s.get(task, (None, 0.0))
            if known != state:
                self._since_s[task] = state, now.steady_s
                continue
            seats = [(s.view.name, key) for key, s in task.seats.items()]
            if len(seats) < 2 or now.steady_s - since_s < SETTLES_S or task.turn.is_whole:
                continue
            runs = [self._executes(name, key) for name, key in seats]
            if None not in runs:
                self._looks += 1
                self._together += len(set(runs)) == 1

    def _executes(self, name: str, key: object) -> bool | None:
        launcher = self._world.machines[name].launcher
        process = launcher.running.get(key) if isinstance(key, AttemptId) else None
        now_s = self._world.now_s
        if process is None or process.is_asked(now_s) or process.frozen_since_s is not None:
            return None
        return process.executes(now_s)

    def end(self) -> None:
        """Check that gangs ran together."""
        assert self._together >= self._looks * TOGETHER_PART - 1, (
            f"gangs ran together in {self._together} of {self._looks} looks"
        )


def _lower_cpus(broker: Broker, view: MachineView, level: int) -> int:
    """Return the cpus on a machine of running tasks that a task of that level may take."""
    freed_cpus, every, kept = 0, dict[int, int](), dict[int, int]()
    for key, task in broker.state.preemptible.by_machine.get(view.name, {}).items():
        cpus, is_lower = task.seats[key].resources.cpus, task.level > level and task.is_granted
        if task.standing is not Standing.RUNS or key not in view.calendar:
            continue
        if not task.is_gang:
            freed_cpus += cpus * is_lower
            continue
        every[task.row] = every.get(task.row, 0) + cpus
        kept[task.row] = kept.get(task.row, 0) + cpus * (not is_lower)
    return freed_cpus + max(every.values(), default=0) - max(kept.values(), default=0)
