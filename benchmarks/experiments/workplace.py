"""One machine with all parts of the product and people at it, in virtual time."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.config.reader import Configuration
from iriai.model.ids import Account
from iriai.model.resources import Resources
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.work import ProcessModel, Work, plain_job
from iriai.sim.world.world import World

MACHINE = "ume"
GROUP = "lab"


class Workplace:
    """One machine and its users. Times are those of the world, from 0."""

    def __init__(self, cpus: int, configuration: Configuration, seed: int) -> None:
        self.world = World(seed)
        plan = MachinePlan(MACHINE, Resources(cpus), configuration=configuration)
        self.machine = self.world.add(plan)
        self.processes: list[ProcessModel] = []
        """Whatever started, in that order."""
        self.submitted_s: dict[int, float] = {}
        """By the number of the job."""
        self.machine.launcher.on_start = self.processes.append

    def submit(self, user: str, run_s: float, tasks: int = 1, urgency: float = 1.0) -> int:
        """Submit tasks of one cpu now; return the number of the job."""
        spec = plain_job(Account(GROUP, user), Resources(1), run_s, tasks)
        spec = replace(spec, urgency=urgency)
        job = self.world.submit(MACHINE, spec, Work(run_s))
        assert job is not None, "the machine is up all the time"
        self.submitted_s[job.number] = self.world.now_s
        return job.number

    def wait_s(self, process: ProcessModel) -> float:
        """Return the seconds from the submission of its job to its start."""
        return process.started_s - self.submitted_s[process.attempt.number]
