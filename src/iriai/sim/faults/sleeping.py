"""Machines with owners that sleep, past leases too (docs/spec/016, section 5)."""

from __future__ import annotations

from functools import partial

from iriai.protocol.messages.effects import MachineSleeps, MachineWakes
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.world import World

DELAY_S = 8.0
"""For how long a login manager puts sleep off."""
MISSED_S = 3.0
"""Until others notice that a machine is away."""


def sleeps(world: World, machine: SimulatedMachine, lasts_s: float, *, is_announced: bool) -> None:
    """Let a machine sleep for so long; `is_announced`: it has a login manager that says so."""
    if not _is_awake(world, machine) or machine.core.node.owner is None:
        return
    begins_s = 0.0
    if is_announced:
        begins_s = DELAY_S
        machine.sleep_announced_to = machine.core
        world.arrive(machine, MachineSleeps(DELAY_S))
    world.agenda.after(begins_s, partial(_falls_asleep, world, machine, lasts_s, is_announced))


def _is_awake(world: World, machine: SimulatedMachine) -> bool:
    """Return whether all of it runs; what is away sleeps as it is."""
    launcher = machine.launcher
    is_there = machine.is_up and launcher.is_up and machine.plan.name not in world.gone
    return is_there and not (machine.is_stopped or launcher.is_stopped)


def _falls_asleep(
    world: World, machine: SimulatedMachine, lasts_s: float, is_announced: bool
) -> None:
    machine.sleep_announced_to = None
    if not _is_awake(world, machine):
        return
    machine.launcher.sleep(world.now_s)
    world.stop(machine)
    world.agenda.after(MISSED_S, partial(_is_missed, world, machine, machine.turns))
    world.agenda.after(lasts_s, partial(_wakes, world, machine, is_announced))


def _is_missed(world: World, machine: SimulatedMachine, turns: int) -> None:
    if machine.is_stopped and machine.turns == turns:
        world.network.break_all_of(machine.plan.name)


def _wakes(world: World, machine: SimulatedMachine, is_announced: bool) -> None:
    """Let its launcher go on before its daemon: it has the higher priority."""
    if machine.launcher.is_stopped:
        machine.wake_launcher(world.now_s)
    world.wake(machine)
    if is_announced and machine.is_up:
        world.arrive(machine, MachineWakes())
    world.touch(machine)
