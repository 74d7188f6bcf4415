"""Stories of output from a seed: all tasks print, much breaks, and users read what was printed."""

from __future__ import annotations

from iriai.home.output_copies import CopyKey
from iriai.machine.core import Machine
from iriai.model.ids import AttemptId
from iriai.model.job import OUTPUTS
from iriai.protocol.messages.effects import Part
from iriai.sim.faults.checker import Checker
from iriai.sim.faults.scenario import Scenario, scenario_of
from iriai.sim.faults.search import failure_of, play
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.world import World
from tests.sim.electing import elected
from tests.sim.followed_output import FollowedOutput, printed

READ_EACH_S = 2.0
"""Time between two questions of a client."""
PATIENCE_S = 400.0
"""Seconds after the end of all jobs in which all that they printed can be read."""


def fails(seed: int) -> str | None:
    """Play the world of a seed, where even ones elect their broker; return what fails, or None."""
    return failure_of(lambda: _play(scenario_of(seed) if seed % 2 else elected(seed)))


def _play(scenario: Scenario) -> None:
    world = scenario.world()
    checker = Checker(world, is_calm=scenario.is_calm)
    readers = OutputReaders(world)
    play(world, scenario, checker)
    readers.finish()


class _Reader:
    """A client that reads one output of an attempt from its beginning."""

    def __init__(self, key: CopyKey, machine: str) -> None:
        self.key = key
        self.machine = machine
        self.offset = 0
        self.asked: Machine | None = None
        """The daemon that was asked for it after the attempt was over."""
        self.is_done = False
        self.problem = ""
        """Why the rest is lost, by the home's word."""


class OutputReaders:
    """Users who read the output of their tasks: first while they run, then of all that ended."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._output = FollowedOutput(world)
        self._readers: dict[CopyKey, _Reader] = {}
        world.agenda.after(READ_EACH_S, self._look)

    def finish(self) -> None:
        """Read all output of what has ended once more, and check it.

        Raises:
            AssertionError: it is not what was printed, or is lost without a word.
        """
        self._readers.clear()
        until_s = self._world.now_s + PATIENCE_S
        self._world.run_until(self._world.now_s + READ_EACH_S)
        while any(not each.is_done for each in self._readers.values()):
            left = [str(key) for key, each in self._readers.items() if not each.is_done]
            assert self._world.now_s < until_s, f"output never ends: {', '.join(left)}"
            self._world.run_until(self._world.now_s + READ_EACH_S)
        for reader in self._readers.values():
            is_here = reader.machine not in self._world.gone
            words = f"{reader.machine} is there, and the output of {reader.key} is lost"
            assert not (is_here and reader.problem), words

    def _look(self) -> None:
        self._world.agenda.after(READ_EACH_S, self._look)
        for machine in self._world.present():
            if machine.is_up and not machine.is_stopped and Part.HOME in machine.plan.parts:
                for attempt, name in self._followed(machine):
                    for kind in OUTPUTS:
                        key = CopyKey(attempt, kind)
                        reader = self._readers.setdefault(key, _Reader(key, name))
                        if not reader.is_done:
                            self._read(machine, reader)

    def _followed(self, home: SimulatedMachine) -> list[tuple[AttemptId, str]]:
        """Return the attempts that were given to a machine, with its name."""
        found = {
            AttemptId(home.plan.name, number, index, task.attempt): task.machine
            for number, job in home.core.home.jobs.items()
            for index, task in job.tasks.items()
            if task.machine
        }
        found |= {each.attempt: each.machine for each in home.store.results.values()}
        return list(found.items())

    def _read(self, home: SimulatedMachine, reader: _Reader) -> None:
        """Ask for more, and check the answer."""
        name, key, machine = home.plan.name, reader.key, reader.machine
        is_over = not home.core.home.waits_for(key.attempt)
        if is_over and reader.asked is not home.core:
            reader.asked = home.core
            self._output.follow(name, key.attempt, machine)
        piece = self._output.read(name, key, machine, reader.offset)
        while piece.content:
            end = reader.offset + len(piece.content)
            is_right = piece.content == printed(key, reader.offset, end)
            assert is_right, f"{name} tells what {key} did not print at {reader.offset}"
            reader.offset = end
            piece = self._output.read(name, key, machine, reader.offset)
        if piece.is_complete and is_over:
            reader.is_done, reader.problem = True, piece.problem
            stored = self._output.files(machine).size_bytes(*key)
            words = f"{name} tells {reader.offset} of {stored} bytes of {key} as all"
            assert reader.problem or reader.offset == stored, words
