"""Actions of users and faults as data; a story is a list of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from iriai.config.live_settings import checked, merged, with_settings
from iriai.machine.outbox import Turn
from iriai.model.claim import Phase
from iriai.model.instant import Instant
from iriai.model.owner import OwnerWord, SignKind
from iriai.model.problem import Problem
from iriai.model.records import (
    Attempted,
    ClaimStored,
    Decided,
    JobEvent,
    Record,
    SeatEnded,
)
from iriai.model.state import TaskState
from iriai.model.suspension import SuspendReason
from iriai.protocol.messages.effects import LoadMeasured, OwnerSaid, Part
from iriai.sim.faults.reserving import RESERVING_STEPS, modify, reserve, reserving_step_of
from iriai.sim.faults.sleeping import sleeps
from iriai.sim.faults.user_requests import AskedReservation, ChangedReservation, Submission
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.world import World

PING_S = 3.0
"""Seconds after which others notice that a daemon is stopped."""
WRITES_WITHIN_S = 60.0
"""Seconds after which a daemon that writes nothing is spared."""
REPORTED_S = 30.0
"""Seconds within which all events of a launcher are reported and durable on any disk."""
HEARD_S = 0.5
"""Seconds after which a daemon that stands still is told again what it has not heard."""
LOOK_S = 1.0
"""Between two looks for a condition."""
BY = "someone"
BOUNDED_POOL, HALF_OF_THE_MEMORY = "lab", "512M"


@dataclass(frozen=True, slots=True)
class Happening:
    """An action of a user or a fault, at one machine, with its duration."""

    at_s: float
    kind: str
    """A key of `KINDS`."""
    machine: str
    lasts_s: float = 0.0
    other: str = ""
    """The machine at the other end, of what happens to a link."""
    number: int = 0
    """The number of a job, or of turns."""
    submission: Submission | None = None
    asked: AskedReservation | ChangedReservation | None = None

    @property
    def action(self) -> Action:
        """What is done when its time comes."""
        return KINDS[self.kind]

    def __str__(self) -> str:
        words = [f"{self.at_s:9.3f}", self.machine, self.kind]
        if self.other:
            words.append(self.other)
        if self.submission is not None:
            words.append(str(self.submission))
        elif self.asked is not None:
            words.append(str(self.asked))
        elif self.number:
            words.append(str(self.number))
        if self.lasts_s:
            words.append(f"for {self.lasts_s:.3f} s")
        return " ".join(words)


OF_MACHINES = (SuspendReason.OWNER, SuspendReason.SLICE)
"""Reasons that a machine gives by itself; those of queues are the broker's."""


def enter(world: World, happening: Happening) -> None:
    """Schedule a happening at its time."""
    action = partial(happening.action, world, world.machines[happening.machine], happening)
    world.agenda.at(happening.at_s, action)


# --- people --------------------------------------------------------------------------------------


def _submit(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    submission = happening.submission
    assert submission is not None
    if submission.reservation is None:
        world.submit(machine.plan.name, submission.spec(), submission.work)
        return
    try:
        world.submit(machine.plan.name, submission.spec(), submission.work)
    except Problem:  # the reservation may be over, or not for that user
        return


def asks(world: World, machine: SimulatedMachine, action: Callable[[], object]) -> None:
    """Send a request of a user to a daemon, which may refuse it."""
    if not machine.is_up or machine.is_stopped:
        return
    try:
        action()
    except Problem:
        return
    machine.asked()
    world.touch(machine)


def _cancel(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    asks(world, machine, lambda: machine.core.home.cancel(happening.number, (), BY))


def _cancel_running(world: World, machine: SimulatedMachine, _happening: Happening) -> None:
    """Cancel the first task that is not queued."""

    def cancel() -> None:
        for number, job in machine.core.home.jobs.items():
            for index, task in job.tasks.items():
                if task.state is not TaskState.QUEUED:
                    machine.core.home.cancel(number, (index,), BY)
                    return

    asks(world, machine, cancel)


def _suspend(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Suspend what runs of one job, and let it go on after `lasts_s`."""
    if not machine.is_up or machine.is_stopped:
        return
    running = [number for number, job in machine.core.home.jobs.items() if job.active]
    if running:
        number = running[happening.number % len(running)]
        set_suspended(world, machine, number, is_wanted=True)
        later = partial(set_suspended, world, machine, number, is_wanted=False)
        world.agenda.after(happening.lasts_s, later)


def set_suspended(world: World, machine: SimulatedMachine, number: int, *, is_wanted: bool) -> None:
    """Let a user suspend the running tasks of a job, or have them go on."""
    asks(
        world,
        machine,
        lambda: machine.core.home.suspend(number, (), BY, is_wanted=is_wanted),
    )


def _freezes(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Let the machine give all that it runs a reason, and take it after `lasts_s`."""
    reason = OF_MACHINES[happening.number % len(OF_MACHINES)]
    set_reason(world, machine, reason, is_given=True)
    later = partial(set_reason, world, machine, reason, is_given=False)
    world.agenda.after(happening.lasts_s, later)


def set_reason(
    world: World, machine: SimulatedMachine, reason: SuspendReason, *, is_given: bool
) -> None:
    """Let a machine give a reason to all that it runs, or take it."""

    def act() -> None:
        node, now = machine.core.node, machine.clock.at(world.now_s)
        if reason is SuspendReason.OWNER and node.owner is not None:
            return  # which goes by signs
        node.suspend(node.running(), reason, now, is_given=is_given)
        if not is_given:
            machine.taken_s[reason] = world.now_s

    asks(world, machine, act)


def _reserve(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Ask for a reservation, and wait for the answer as long as the daemon lives."""
    asks(world, machine, partial(reserve, world, machine, happening.asked))


def _modify(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Change a reservation, and wait for the answer as long as the daemon lives."""
    asks(world, machine, partial(modify, world, machine, happening.number, happening.asked))


def _give_back(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Cancel a reservation, or end an open one."""
    reservations, now = machine.core.home.reservations, machine.clock.at(world.now_s)
    giving = reservations.cancel if happening.kind == "cancel-reservation" else reservations.end
    asks(world, machine, lambda: giving(happening.number, BY, now))


def _hold(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    number = happening.number
    asks(world, machine, lambda: machine.core.home.hold(number, BY))
    later = partial(asks, world, machine, lambda: machine.core.home.release(number, BY))
    world.agenda.after(happening.lasts_s, later)


def _drain(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    now = machine.clock.at(world.now_s)
    asks(world, machine, lambda: machine.core.node.drain("work on it", BY, now))
    world.agenda.after(happening.lasts_s, partial(_resume, world, machine))


def _resume(world: World, machine: SimulatedMachine) -> None:
    now = machine.clock.at(world.now_s)
    asks(world, machine, lambda: machine.core.node.resume(BY, now))


def _owner_works(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    cpus = float(machine.plan.capacity.cpus)
    for load, after_s in ((cpus * 2, 0.0), (0.0, happening.lasts_s)):
        world.agenda.after(after_s, partial(_measured, world, machine, load))


def _measured(world: World, machine: SimulatedMachine, load: float) -> None:
    if machine.is_up:
        world.arrive(machine, LoadMeasured(load, load))


def _owner_comes(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Let the owner use the machine, with a sign each few tenths of a second."""
    every_s = happening.number / 10
    for count in range(1 + int(happening.lasts_s / every_s)):
        world.agenda.after(count * every_s, partial(_gives_sign, world, machine))


def _gives_sign(world: World, machine: SimulatedMachine) -> None:
    if machine.plan.name not in world.gone:
        machine.owner_gives_sign(world.now_s)
        world.touch(machine)


def _owner_says(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Let the owner say that they are here, or away, and take it back later."""
    word = tuple(OwnerWord)[happening.number % 2]
    vacates = happening.number % 3 == 0
    _said(world, machine, OwnerSaid(word, happening.lasts_s * 2, vacates))
    world.agenda.after(happening.lasts_s, partial(_said, world, machine, OwnerSaid(None, inf)))


def _said(world: World, machine: SimulatedMachine, event: OwnerSaid) -> None:
    is_awake = machine.is_up and not machine.launcher.is_asleep
    if is_awake and machine.core.node.owner is not None:
        machine.launcher.owner_said(event.word, event.for_s, world.now_s)
        until_s = machine.clock.at(world.now_s).wall_s + event.for_s
        machine.owner_word = (machine.core, event.word, until_s)
        world.arrive(machine, event)


def _sensor_fails(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    have_sensor(world, machine, works=False)
    world.agenda.after(happening.lasts_s, partial(have_sensor, world, machine, works=True))


def _condition_holds(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Let a condition hold; its sensor looks once a second, and tells it again and again."""
    kind = (SignKind.BATTERY, SignKind.PROGRAM)[happening.number % 2]
    until_s = world.now_s + happening.lasts_s
    for count in range(1 + int(happening.lasts_s / LOOK_S)):
        world.agenda.after(count * LOOK_S, partial(_looks, world, machine, kind, until_s))
    world.agenda.after(happening.lasts_s, partial(_looks, world, machine, kind, until_s))


def _looks(world: World, machine: SimulatedMachine, kind: SignKind, until_s: float) -> None:
    if machine.plan.name not in world.gone:
        machine.looks_for(kind, world.now_s, holds=world.now_s < until_s)
        world.touch(machine)


def have_sensor(world: World, machine: SimulatedMachine, *, works: bool) -> None:
    """Let what notices the owner of a machine work, or fail."""
    machine.have_sensor(world.now_s, works=works)
    world.touch(machine)


def _machine_sleeps(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Let a machine with an owner sleep; its login manager says so before, or it has none."""
    sleeps(world, machine, happening.lasts_s, is_announced=happening.number % 2 == 0)


# --- what breaks ---------------------------------------------------------------------------------


def _daemon_dies(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    world.go_down(machine, happening.number)
    world.agenda.after(happening.lasts_s, partial(world.start_machine, machine))


def _daemon_dies_writing(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Kill the daemon as soon as it has written records that are not durable yet."""
    watch = DeathInWriting(world, machine, happening)
    world.watchers.append(watch)
    world.agenda.after(WRITES_WITHIN_S, watch.end)


def _dies_in_phase(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Kill the daemon as soon as it has gone one step with an attempt of several seats."""
    kept_turns, step = divmod(happening.number, PHASE_STEPS)
    happening = replace(happening, number=kept_turns)
    world.watchers.append(_DeathInPhase(world, machine, happening, step))


@dataclass(eq=False, slots=True)
class DeathInWriting:
    """A watcher that kills a daemon in its next write; see `World.watchers`."""

    world: World
    machine: SimulatedMachine
    happening: Happening

    def is_time(self, turn: Turn) -> bool:
        """Return whether the machine, after this turn of it, dies."""
        return bool(self.machine.store.unsynced)

    def __call__(self, turned: SimulatedMachine, turn: Turn, _now: Instant) -> None:
        """Look at a turn, and kill the daemon if it is time."""
        if turned is self.machine and self.is_time(turn):
            self.end()
            dies = partial(_daemon_dies, self.world, turned, self.happening)
            self.world.agenda.after(0.0, dies)

    def end(self) -> None:
        """Stop watching."""
        if self in self.world.watchers:
            self.world.watchers.remove(self)


@dataclass(eq=False, slots=True)
class _DeathInPhase(DeathInWriting):
    """A watcher that kills a daemon after a step with an attempt of several seats."""

    step: int = 0

    def is_time(self, turn: Turn) -> bool:
        """Return whether the machine, after this turn of it, dies."""
        return any(_step_of(record) == self.step for record in turn.records)


def _dies_reserving(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Kill the daemon as soon as it has gone one step with a reservation, or with a booking."""
    kept_turns, step = divmod(happening.number, RESERVING_STEPS)
    happening = replace(happening, number=kept_turns)
    world.watchers.append(_DeathReserving(world, machine, happening, step))


@dataclass(eq=False, slots=True)
class _DeathReserving(DeathInWriting):
    """A watcher that kills a daemon after a step with a reservation."""

    step: int = 0

    def is_time(self, turn: Turn) -> bool:
        """Return whether the machine, after this turn of it, dies."""
        return any(reserving_step_of(record) == self.step for record in turn.records)


def _step_of(record: Record) -> int | None:
    """Return the number of the step that a record is, of a home or of a node; None: of neither."""
    if isinstance(record, ClaimStored):
        claim = record.claim
        is_of_several = claim.phase is not Phase.STARTED or claim.ranks > 1 or claim.attempt.rank
        return claim.phase.value if is_of_several else None  # 1, 2, 3
    if isinstance(record, JobEvent):
        change = record.change
        if isinstance(change, Attempted) and len(change.seats) > 1:
            return 0
        if isinstance(change, Decided):
            return 4
        if isinstance(change, SeatEnded):
            return 5
    return None


PHASE_STEPS = 6


def _power_fails(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    world.power_off(machine, happening.number)
    world.agenda.after(happening.lasts_s, partial(world.power_on, machine))


def _is_gone(world: World, machine: SimulatedMachine, _happening: Happening) -> None:
    """Switch the machine off for ever."""
    world.power_off(machine)
    world.gone[machine.plan.name] = None
    world.network.leave(machine.plan.name)


def _is_forgotten(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Let an operator forget a machine, which may come back all the same."""
    now = machine.clock.at(world.now_s)
    asks(world, machine, lambda: machine.core.forget(happening.other, now))


def _daemon_stops(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    if machine.is_up and not machine.is_stopped:
        world.stop(machine)
        world.agenda.after(PING_S, partial(_is_missed, world, machine, machine.turns))
        world.agenda.after(happening.lasts_s, partial(world.wake, machine))


def _is_missed(world: World, machine: SimulatedMachine, turns: int) -> None:
    if machine.is_stopped and machine.turns == turns:
        world.network.break_all_of(machine.plan.name)


def _launcher_dies(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    if machine.launcher.is_up:
        machine.kill_launcher(world.now_s)
        world.touch(machine)
        world.agenda.after(happening.lasts_s, partial(start_launcher, world, machine))


def start_launcher(world: World, machine: SimulatedMachine) -> None:
    """Start the launcher of a machine if it does not run."""
    if not machine.launcher.is_up:
        machine.start_launcher(world.now_s)
        world.touch(machine)


def _launcher_stops(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    machine.launcher.stop(world.now_s)
    world.agenda.after(happening.lasts_s, partial(wake_launcher, world, machine))


def wake_launcher(world: World, machine: SimulatedMachine) -> None:
    """Resume a launcher that was stopped."""
    if machine.launcher.is_stopped:
        machine.wake_launcher(world.now_s)
        world.touch(machine)


def _starts_nothing(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    machine.launcher.refuses = "no space left"
    world.agenda.after(happening.lasts_s, partial(setattr, machine.launcher, "refuses", ""))


def _prolog_fails(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Let prologs fail, which drains the machine, and resume it after `lasts_s`."""

    def is_mended() -> None:
        machine.launcher.fails_prolog = False
        _resume(world, machine)

    machine.launcher.fails_prolog = True
    world.agenda.after(happening.lasts_s, is_mended)


def _program_is_missing(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Let each task that starts within `lasts_s` fail at once."""
    machine.launcher.fails_at_once = True
    mend = partial(setattr, machine.launcher, "fails_at_once", False)
    world.agenda.after(happening.lasts_s, mend)


def _queue_stops(world: World, _machine: SimulatedMachine, happening: Happening) -> None:
    """Let a queue start nothing for a while; each machine that answers hears of it at once."""
    _set_for_a_while(world, happening, "queues", str(happening.number), ("state", "enabled"))


def _pool_has_less(world: World, _machine: SimulatedMachine, happening: Happening) -> None:
    """Let jobs of the bounded pool have half of the memory for a while, as `_queue_stops`."""
    _set_for_a_while(world, happening, "pools", BOUNDED_POOL, ("memory", HALF_OF_THE_MEMORY))


def _set_for_a_while(
    world: World, happening: Happening, section: str, name: str, setting: tuple[str, str]
) -> None:
    change = checked(section, name, [setting])
    changed = (merged(None, change, BY, world.now_s),)
    for after_s, settings in ((0.0, changed), (happening.lasts_s, ())):
        world.agenda.after(after_s, partial(setattr, world, "settings", settings))
        for each in world.machines.values():
            world.agenda.after(after_s, partial(_configure, world, each))


def _configure(world: World, machine: SimulatedMachine) -> None:
    """Tell a daemon what is set now; one that stands still, once it goes on."""
    if machine.is_up and machine.is_stopped:
        world.agenda.after(HEARD_S, partial(_configure, world, machine))
        return
    configuration = with_settings(machine.plan.configuration, world.settings)
    asks(world, machine, lambda: machine.core.configured(configuration))


def _clock_steps(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    """Set the wall clock of a machine, forward or back by `lasts_s`."""
    machine.set_clock(machine.clock.stepped(world.now_s, happening.lasts_s))


def _link_breaks(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    world.network.break_link(machine.plan.name, happening.other)


def _link_is_cut(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    ends = machine.plan.name, happening.other
    world.network.cut(*ends)
    world.agenda.after(happening.lasts_s, partial(world.network.heal, *ends))


Action = Callable[[World, SimulatedMachine, Happening], None]

KINDS: Mapping[str, Action] = {
    "submit": _submit,
    "cancel": _cancel,
    "cancel-running": _cancel_running,
    "hold": _hold,
    "reserve": _reserve,
    "modify-reservation": _modify,
    "cancel-reservation": _give_back,
    "end-reservation": _give_back,
    "suspend": _suspend,
    "freezes": _freezes,
    "drain": _drain,
    "owner": _owner_works,
    "owner-comes": _owner_comes,
    "owner-says": _owner_says,
    "sensor-fails": _sensor_fails,
    "machine-sleeps": _machine_sleeps,
    "condition-holds": _condition_holds,
    "daemon-dies": _daemon_dies,
    "dies-writing": _daemon_dies_writing,
    "dies-in-phase": _dies_in_phase,
    "dies-reserving": _dies_reserving,
    "daemon-stops": _daemon_stops,
    "launcher-dies": _launcher_dies,
    "launcher-stops": _launcher_stops,
    "power-fails": _power_fails,
    "gone": _is_gone,
    "forgotten": _is_forgotten,
    "starts-nothing": _starts_nothing,
    "prolog-fails": _prolog_fails,
    "program-missing": _program_is_missing,
    "queue-stops": _queue_stops,
    "pool-has-less": _pool_has_less,
    "clock-steps": _clock_steps,
    "link-breaks": _link_breaks,
    "link-is-cut": _link_is_cut,
}
OF_NODES = frozenset(
    {"drain", "owner", "launcher-dies", "launcher-stops", "starts-nothing", "prolog-fails"}
    | {"program-missing", "freezes", "owner-comes", "owner-says", "sensor-fails"}
    | {"condition-holds", "machine-sleeps"}
)
"""Kinds that only happen where tasks run."""


def end_all(world: World) -> None:
    """End all faults and release all jobs that are held."""
    for watch in list(world.watchers):
        if isinstance(watch, DeathInWriting):
            watch.end()
    world.settings = ()
    for machine in world.present():
        machine.set_clock(machine.clock.set_right(world.now_s))
        machine.launcher.refuses = ""
        machine.launcher.fails_prolog = machine.launcher.fails_at_once = False
        world.power_on(machine)
        start_launcher(world, machine)
        wake_launcher(world, machine)
        if machine.is_stopped:
            world.wake(machine)
        _configure(world, machine)
        if Part.NODE in machine.plan.parts:
            _measured(world, machine, 0.0)
            _resume(world, machine)
            for reason in OF_MACHINES:
                set_reason(world, machine, reason, is_given=False)
            have_sensor(world, machine, works=True)
            _said(world, machine, OwnerSaid(None, inf))
            # A prolog that failed just now is told a moment later.
            world.agenda.after(REPORTED_S, partial(_resume, world, machine))
        if Part.HOME in machine.plan.parts:
            for number, job in list(machine.core.home.jobs.items()):
                if job.held:
                    release = partial(machine.core.home.release, number, BY, is_operator=True)
                    asks(world, machine, release)
                set_suspended(world, machine, number, is_wanted=False)
    world.members.end_suspicions()
    world.network.heal_all()
