"""The checker of what gives way and takes turns (docs/spec/013, section 11)."""

from __future__ import annotations

from iriai.broker.core import Broker
from iriai.broker.machines.machine_view import MachineView
from iriai.broker.queue.entries import QueuedJob
from iriai.broker.state.preemptible_task import PreemptibleTask, Standing
from iriai.broker.state.reserved_heads import kept_for
from iriai.model.claim import Claim
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.model.turn import ALWAYS, NEVER, ROWS_MAX
from iriai.node.suspending.cycle import ERROR_PART_MAX
from iriai.protocol.messages.effects import Part
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.world import World

TOGETHER_PART = 0.99
"""The part of the time in which the seats of a gang run together, once the broker has left their
turns unchanged for `SETTLES_S`."""
SETTLES_S = 10.0
MOVES_WITHIN_S = 1.0
"""How long after its time of residence a task may still be in its queue."""
FOLLOWS_S = 5.0
"""How long a machine that its broker reaches may do something else than that says, beside the time
that messages take: several commits."""
PHASE_TOLERANCE_S = 0.5
"""How far slices may be from the broker's clock, beside `ERROR_PART_MAX` of one: machines compare
them each 30 s, and clocks of the simulator drift apart by less than 0.8 % (`scenario.DRIFT_MAX`).
"""


class TurnChecker:
    """Checks the broker of each machine after its turns, and what machines run then."""

    def __init__(self, world: World, *, is_calm: bool) -> None:
        self._world = world
        self._is_calm = is_calm
        self._since_s: dict[PreemptibleTask, tuple[object, float]] = {}
        """By gang, its turn and since when it has had it."""
        self._over_s: dict[AttemptId, float] = {}
        """Since when each has resided in its queue for too long."""
        self._broker: Broker | None = None
        """The last that told machines of turns."""
        self._wrong_s: dict[tuple[str, object], float] = {}
        """By machine and claim, since when it does something else than that told it."""
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
        claims = broker.state.preemptible
        claims.check()
        assert not claims.rows.unsettled, f"the rows of {list(claims.rows.unsettled)} are old"
        assert claims.next_s > now.steady_s, "a task counts in another queue by now"
        self._check_standing(broker, now.steady_s)
        self._check_rows(broker)
        self._check_told(machine, broker)
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

    def _check_standing(self, broker: Broker, now_s: float) -> None:
        """Check that what stands could not run, or that its machine had no cpus for it."""
        claims = broker.state.preemptible
        starting = broker.state.settings.configuration.starting_queues
        for task in claims.tasks:
            assert task.standing is not Standing.ASIDE, f"{list(task.seats)} is aside"
            is_idle = task.queue not in starting and task.standing is Standing.RUNS
            is_idle &= task.queue in claims.modes
            assert not (is_idle and task.is_granted), f"{list(task.seats)} runs, and is stopped"
            may_run = task.queue in starting and task.not_before_s <= now_s
            may_run &= not broker.state.has_news_of_tasks  # a pass is due
            if task.standing is Standing.PREEMPTED and may_run:
                assert not claims.fits(task), f"{list(task.seats)} could run, and stands"
                assert not self._fits_before_lower(broker, task), (
                    f"{list(task.seats)} stands while lower tasks run in its place"
                )

    def _fits_before_lower(self, broker: Broker, task: PreemptibleTask) -> bool:
        """Return whether a task would have its cpus if those of lower levels had not."""
        needed: dict[str, int] = {}
        for seat in task.seats.values():
            cpus = 0 if seat.is_ending else seat.resources.cpus - seat.gathered_cpus
            needed[seat.view.name] = needed.get(seat.view.name, 0) + cpus
        views = {seat.view.name: seat.view for seat in task.seats.values()}
        return all(
            cpus <= views[name].calendar.free.cpus + _lower_cpus(broker, views[name], task.level)
            for name, cpus in needed.items()
        )

    def _check_rows(self, broker: Broker) -> None:
        """Check that all that is to run in a row of a machine has its cpus there."""
        for name, claims in broker.state.preemptible.by_machine.items():
            view = broker.state.machines.get(name)
            if view is None or view.calendar.free.cpus < 0:
                continue
            loads, room = [0] * ROWS_MAX, view.calendar.free.cpus
            for key, task in claims.items():
                if task.is_in_row(key) and key in view.calendar:
                    room += view.calendar.held_by(key).cpus
                    for row in range(ROWS_MAX):
                        is_its_row = task.turn.needed >> row & 1
                        loads[row] += is_its_row * task.seats[key].resources.cpus
            assert max(loads) <= room, f"rows of {name} have {loads} of {room} cpus"

    # --- what machines do ------------------------------------------------------------------------

    def _check_told(self, machine: SimulatedMachine, broker: Broker) -> None:
        """Check that each machine that is reached does what it was told."""
        if self._broker is not broker:
            self._broker = broker
            self._wrong_s.clear()
        wrong: dict[tuple[str, object], str] = {}
        for name, known in broker.state.preemptible.by_machine.items():
            there, view = self._world.machines[name], broker.state.machines.get(name)
            if view is None or view.is_away or not self._hears(machine, there):
                continue
            held = {claim.attempt: claim for claim in there.core.node.claims()}
            for key, task in known.items():
                claim = held.get(key) if isinstance(key, AttemptId) else None
                words = "" if claim is None else self._difference(machine, there, task, claim)
                if words:
                    wrong[name, key] = words
        now_s, network = self._world.now_s, self._world.network
        most_s = FOLLOWS_S + 3 * network.round_trip_s + 2 * network.plan.late_s
        self._wrong_s = {place: self._wrong_s.get(place, now_s) for place in wrong}
        for (name, seat), since_s in self._wrong_s.items():
            assert now_s - since_s <= most_s, f"{seat} on {name} {wrong[name, seat]}"

    def _hears(self, broker: SimulatedMachine, there: SimulatedMachine) -> bool:
        names = broker.plan.name, there.plan.name
        is_linked = broker is there or self._world.network.is_linked(*names)
        return there.is_up and not there.is_stopped and is_linked

    def _difference(
        self, broker: SimulatedMachine, there: SimulatedMachine, task: PreemptibleTask, claim: Claim
    ) -> str:
        """Return what a claim does that it was not told; empty: nothing."""
        launcher, now_s = there.launcher, self._world.now_s
        if not there.core.node.has_launcher or not launcher.is_up or launcher.is_stopped:
            return ""
        is_preempted = claim.suspension is not None and claim.suspension.is_preempted
        if not is_preempted and there.core.node.held(claim.attempt).stop is not None:
            return ""  # what is being ended is frozen no more
        if (task.turn == NEVER) is not is_preempted:
            return "stands, and is to run" if is_preempted else "runs, and is to stand"
        turn = ALWAYS if claim.turn is None else claim.turn.turn
        if is_preempted or (turn.is_whole and task.turn.is_whole):
            return ""
        if turn != task.turn:
            return f"has {turn}, and is to have {task.turn}"
        process = launcher.running.get(claim.attempt)
        if process is None or process.is_asked(now_s):
            return ""
        model = process.turns
        if model is None or model.mask != turn.mask:
            return f"runs by {model}, and has {turn}"
        cycle, quantum_s = model.cycles.at(now_s), claim.turn.quantum_s if claim.turn else 1.0
        row_0_s = cycle.begin_s(cycle.slice_at(now_s) - cycle.row_at(now_s))
        period_s = quantum_s * turn.rows
        early_s = broker.clock.at(row_0_s).wall_s % period_s
        off_s = min(early_s, period_s - early_s)
        is_late = off_s > ERROR_PART_MAX * quantum_s + PHASE_TOLERANCE_S
        return f"has its turn {off_s:.3f} s too early or late" if is_late else ""

    def _check_waiting(self, broker: Broker, entry: QueuedJob) -> None:
        """Check that no task of a lower level runs in the place of one that waits."""
        state, kind, level = broker.state, entry.kind, entry.precedence.level
        is_plain = not (kind.is_wide or kind.key.exclusive or kind.key.is_guest)
        is_head = any(each.job == entry.want.job for each in state.heads.by_machine.values())
        is_plain &= entry.want.reservation is None
        is_plain &= not broker.has_own_policy
        if is_head or not is_plain or not kind.is_possible or state.cap_cpus is not None:
            return
        for view in state.machines.values():
            if not view.is_available or not view.capabilities or not kind.may_run_on(view.name):
                continue
            if view.calendar.bookings:  # beside which it may not fit
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
        cpus = task.seats[key].resources.cpus
        gives_way = task.queue in broker.state.preemptible.modes and task.is_granted
        is_lower = gives_way and task.level > level and not task.seats[key].is_ending
        if not task.needs_cpus(task.seats[key]) or key not in view.calendar:
            continue
        if not task.is_gang:
            freed_cpus += cpus * is_lower
            continue
        every[task.row] = every.get(task.row, 0) + cpus
        kept[task.row] = kept.get(task.row, 0) + cpus * (not is_lower)
    return freed_cpus + max(every.values(), default=0) - max(kept.values(), default=0)
