"""Search for faults: runs many seeds, and shrinks the story of one that fails.

Safety is looked at after every turn. Then the faults stop, and every feasible job must end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from iriai.protocol.messages.effects import Delivered, LinkDown, LinkUp
from iriai.sim.faults.actions import Happening, end_all, enter
from iriai.sim.faults.checker import Checker
from iriai.sim.faults.scenario import FAULTS_UNTIL_S, Scenario, scenario_of
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.work import ProcessModel
from iriai.sim.world.world import World


def failure_of(play: Callable[[], None]) -> str | None:
    """Play a world to its end; return what fails, or None."""
    try:
        play()
    except AssertionError as error:
        return str(error) or "an assertion without a word"
    except Exception as error:  # noqa: BLE001 - whatever a core raises is a fault of it
        return f"{type(error).__name__}: {error}"
    return None


PATIENCE_S = 2_000.0
"""More than all work of the longest story takes on the smallest machine, leases included."""
TURNS_MAX = 4_000
"""More turns of all machines than any story has, ..."""
TURNS_PER_S = 2
"""... and for each second, since reservations make it longer, and leases are renewed meanwhile."""
BEATS_PER_S = 4
"""The turns to allow for each second and machine, where machines watch their broker."""
CHECK_EACH_S = 20.0
"""Seconds between two checks whether all jobs have ended."""
HEALED_S = 60.0
"""Time after the last fault after which all machines are linked again."""
STORY_LINES_MAX = 200
"""The last lines of a story: what led to the failure is among them."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A seed that fails, with its message, its events and its story."""

    seed: int
    message: str
    happenings: tuple[Happening, ...]
    """The events without which it does not fail."""
    story: tuple[str, ...]
    """The events of the run, one line each."""


def run(
    seeds: Iterable[int],
    done: Callable[[int, Counterexample | None], None],
    *,
    through_wire: bool = False,
) -> list[Counterexample]:
    """Try each seed, call `done` after each, and return the shrunk failures.

    `through_wire`: in all of them messages become bytes on their way, not in one of five.
    """
    failures = []
    for seed in seeds:
        scenario = scenario_of(seed)
        scenario = replace(scenario, through_wire=scenario.through_wire or through_wire)
        failure = None if fails(scenario) is None else shrunk(scenario)
        if failure is not None:
            failures.append(failure)
        done(seed, failure)
    return failures


def fails(scenario: Scenario, tell: Tell | None = None) -> str | None:
    """Play a scenario; return what fails, or None. `tell` is called with each line of the story."""
    return failure_of(partial(_play, scenario, tell))


def shrunk(scenario: Scenario) -> Counterexample:
    """Return the failure of a scenario with as few events as it needs."""
    happenings = list(scenario.happenings)
    kind = _kind(fails(scenario))
    size = max(1, len(happenings) // 2)
    while size:
        start = 0
        while start < len(happenings):
            fewer = happenings[:start] + happenings[start + size :]
            if _kind(fails(replace(scenario, happenings=tuple(fewer)))) == kind:
                happenings = fewer
            else:
                start += size
        size //= 2
    least = replace(scenario, happenings=tuple(happenings))
    story: list[str] = []
    message = fails(least, story.append)
    assert message is not None, "the same scenario went well the second time"
    return Counterexample(scenario.seed, message, least.happenings, tuple(story[-STORY_LINES_MAX:]))


def _kind(message: str | None) -> str | None:
    """Return a message without its numbers, which is alike for alike failures."""
    return None if message is None else "".join(c for c in message if not c.isdigit())[:60]


def _play(scenario: Scenario, tell: Tell | None) -> None:
    world = scenario.world()
    calm_from_s = FAULTS_UNTIL_S + HEALED_S
    checker = Checker(world, is_calm=scenario.is_calm, calm_from_s=calm_from_s)
    if tell is not None:
        _narrate(world, scenario, tell)
    play(world, scenario, checker)


def play(world: World, scenario: Scenario, checker: Checker) -> None:
    """Let all of a scenario happen, and check its world until all jobs have ended.

    Raises:
        AssertionError: an invariant is broken.
    """
    for happening in scenario.happenings:
        enter(world, happening)
    world.run_until(FAULTS_UNTIL_S)
    if not scenario.is_calm:  # it breaks links, so that a promise may have to be put off
        end_all(world)
    ahead_s = (each.lasts_s for each in scenario.happenings if each.kind == "clock-steps")
    until_s = world.now_s + PATIENCE_S + sum(each for each in ahead_s if each > 0.0)
    while checker.unfinished() or not world.network.is_whole:
        assert world.now_s < until_s, f"never end: {', '.join(checker.unfinished())}"
        world.run_until(world.now_s + CHECK_EACH_S)
        turns = sum(machine.turns for machine in world.machines.values())
        beats = int(world.now_s) * BEATS_PER_S * world.members.count
        most = TURNS_MAX + beats + int(world.now_s) * TURNS_PER_S
        assert turns < most, f"never come to rest: {turns} turns"
    world.run_until(world.now_s + CHECK_EACH_S)
    checker.check_end()


def _narrate(world: World, scenario: Scenario, tell: Tell) -> None:
    """Call `tell` with a line for each event of the world."""
    for happening in scenario.happenings:
        world.agenda.at(happening.at_s, partial(tell, f"** {happening}"))
    arrive = world.network.on_arrival

    def arrives(machine: SimulatedMachine, event: Delivered | LinkUp | LinkDown) -> None:
        name, what = machine.plan.name, str(event)
        if isinstance(event, Delivered):
            name, what = f"{event.sender} -> {name}", str(event.message)
        tell(f"{world.now_s:9.3f} {name}: {what}")
        arrive(machine, event)

    world.network.on_arrival = arrives
    for machine in world.machines.values():
        _narrate_launcher(world, machine, tell)


def _narrate_launcher(world: World, machine: SimulatedMachine, tell: Tell) -> None:
    launcher, name = machine.launcher, machine.plan.name
    on_start, on_end = launcher.on_start, launcher.on_end

    def starts(process: ProcessModel) -> None:
        tell(f"{world.now_s:9.3f} {name} starts {process.attempt}")
        on_start(process)

    def ends(process: ProcessModel) -> None:
        tell(f"{world.now_s:9.3f} {name}: {process.attempt} is over, {process.end[0]}")
        on_end(process)

    launcher.on_start, launcher.on_end = starts, ends
