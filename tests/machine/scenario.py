"""Random stories of one machine: what people do, what breaks, and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.config.reader import Configuration
from iriai.config.sections import GroupSection, OrderSection
from iriai.home.job import JobState
from iriai.model.alteration import Alteration
from iriai.model.ids import JobId
from iriai.model.job import Condition, Dependency
from iriai.model.problem import Problem, Refused
from iriai.model.state import EndCause
from tests.support.virtual import HOME, SUCCESS, VirtualMachine, Work

PATIENCE_S = 20_000.0
"""More than all work of the longest story takes on the smallest machine."""


@dataclass
class Room:
    """A machine and the jobs that were handed in there."""

    machine: VirtualMachine
    jobs: list[JobId]

    def pick(self, choice: int) -> JobState | None:
        """One of the jobs, if it has not finished."""
        if not self.jobs:
            return None
        number = self.jobs[choice % len(self.jobs)].number
        return self.machine.machine.home.jobs.get(number)

    def is_feasible(self, job: JobState) -> bool:
        """Whether the machine and the running cap would ever let a task of the job start."""
        asked = job.spec.resources
        cap_cpus = self.machine.configuration.order.running_cap_cpus
        cpus = self.machine.capacity.cpus if job.spec.exclusive else asked.cpus
        is_within_cap = cap_cpus is None or cpus <= cap_cpus
        jobs = self.machine.machine.home.jobs
        awaited = (jobs.get(dependency.number) for dependency in job.open_after)
        return (
            asked.fits_in(self.machine.capacity)
            and is_within_cap
            and all(other is None or self.is_feasible(other) for other in awaited)
        )


@dataclass(frozen=True)
class Submit:
    user: str
    cpus: int
    gpus: int
    tasks: int
    limit_s: float | None
    work: Work
    held: bool
    urgency: float
    max_restarts: int | None
    throttle: int | None
    exclusive: bool
    after: tuple[Condition, int] | None

    def act(self, room: Room) -> None:
        on = None if self.after is None else room.pick(self.after[1])
        after = (Dependency(self.after[0], HOME, on.number),) if self.after and on else ()
        if on is not None and on.spoilt_by is not None:
            after = ()  # it may be settled already, and refused
        room.jobs.append(
            room.machine.submit(
                self.user,
                cpus=self.cpus,
                gpus=self.gpus,
                tasks=self.tasks,
                limit_s=self.limit_s,
                work=self.work,
                held=self.held,
                urgency=self.urgency,
                max_restarts=self.max_restarts,
                throttle=self.throttle if self.tasks > 1 else None,
                exclusive=self.exclusive,
                after=after,
            )
        )


@dataclass(frozen=True)
class Alter:
    """Somebody changes what a job asks for, if it waits."""

    choice: int
    cpus: int
    throttle: int | None
    urgency: float
    on: int | None

    def act(self, room: Room) -> None:
        job = room.pick(self.choice)
        if job is None:
            return
        on = None if self.on is None else room.pick(self.on)
        after = () if on is None else (Dependency(Condition.ANY, HOME, on.number),)
        wanted = Alteration(
            resources=replace(job.spec.resources, cpus=self.cpus),
            throttle=self.throttle if job.spec.is_array else None,
            urgency=self.urgency,
            after=after,
        )
        try:
            room.machine.machine.home.alter(job.number, wanted, "someone")
        except Refused as problem:
            assert problem.code in {"nothing-waits", "cycle"}  # noqa: PT017


@dataclass(frozen=True)
class Wait:
    seconds: float

    def act(self, room: Room) -> None:
        room.machine.wait(self.seconds)


@dataclass(frozen=True)
class Cancel:
    choice: int
    indices: tuple[int, ...]

    def act(self, room: Room) -> None:
        job = room.pick(self.choice)
        if job is not None:
            room.machine.machine.home.cancel(job.number, self.indices, "someone")


@dataclass(frozen=True)
class HoldOrRelease:
    choice: int

    def act(self, room: Room) -> None:
        job = room.pick(self.choice)
        if job is None:
            return
        home = room.machine.machine.home
        try:
            (home.release if job.held else home.hold)(job.number, "someone")
        except Problem:
            assert not job.waiting


@dataclass(frozen=True)
class Restart:
    """The daemon dies: between two turns, or in one, before its records are kept or after."""

    is_durable: bool | None

    def act(self, room: Room) -> None:
        if self.is_durable is None:
            room.machine.restart()
        else:
            room.machine.crash(is_durable=self.is_durable)


@dataclass(frozen=True)
class Launcher:
    """The launcher dies, or a new one comes up; or both daemon and launcher die."""

    with_daemon: bool

    def act(self, room: Room) -> None:
        machine = room.machine
        if not machine.launcher.is_up:
            machine.start_launcher()
        elif self.with_daemon:
            machine.launcher.die(machine.now_s)
            machine.restart()
        else:
            machine.kill_launcher()


@dataclass(frozen=True)
class Refusing:
    """The launcher can start nothing for a while, or can again."""

    def act(self, room: Room) -> None:
        launcher = room.machine.launcher
        launcher.refuses = "" if launcher.refuses else "no space left"


Action = Submit | Wait | Cancel | HoldOrRelease | Alter | Restart | Launcher | Refusing

ends = st.sampled_from([SUCCESS, SUCCESS, (EndCause.FAILED, 3, None)])
works = st.builds(
    Work,
    st.sampled_from([0.0, 1.0, 3.0, 15.0, 40.0]),
    ends,
    st.booleans(),
    st.just(1.0),
    st.just(0.0),
)
submissions = st.builds(
    Submit,
    user=st.sampled_from(["ann", "bob", "eve"]),
    cpus=st.sampled_from([1, 1, 1, 2, 3, 4, 8, 9]),
    gpus=st.sampled_from([0, 0, 0, 1]),
    tasks=st.sampled_from([1, 1, 2, 3, 7]),
    limit_s=st.sampled_from([None, 5.0, 20.0, 60.0]),
    work=works,
    held=st.sampled_from([False, False, False, True]),
    urgency=st.sampled_from([1.0, 1.0, 2.0]),
    max_restarts=st.sampled_from([None, 0, 1]),
    throttle=st.sampled_from([None, None, 1, 2]),
    exclusive=st.sampled_from([False] * 6 + [True]),
    after=st.sampled_from([None] * 3 + [(each, n) for each in Condition for n in (0, 1)]),
)
waits = st.builds(Wait, st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0, 30.0]))
choices = st.integers(0, 9)
indices = st.sampled_from([(), (), (0,), (1,), (2, 3), (2, 9)])
peaceful = st.one_of(
    submissions,
    submissions,
    waits,
    waits,
    st.builds(Cancel, choices, indices),
    st.builds(HoldOrRelease, choices),
    st.builds(
        Alter,
        choices,
        cpus=st.sampled_from([1, 2, 4]),
        throttle=st.sampled_from([None, 1, 2]),
        urgency=st.sampled_from([1.0, 3.0]),
        on=st.sampled_from([None, None, 0, 1, 2]),
    ),
)
troubles = st.one_of(
    st.builds(Restart, st.sampled_from([None, False, True])),
    st.builds(Launcher, st.booleans()),
    st.builds(Refusing),
)
actions = st.lists(st.one_of(peaceful, peaceful, peaceful, troubles), min_size=5, max_size=60)

orders = st.builds(
    OrderSection,
    name=st.sampled_from(["lottery", "stride", "paper000", "fifo"]),
    running_cap_cpus=st.sampled_from([None, None, 3, 6]),
    half_life_s=st.sampled_from([604_800.0, 300.0]),
    window_s=st.sampled_from([None, None, 300.0]),
)
groups = st.sampled_from([{}, {"lab": GroupSection(2.0, {"ann": 2.0})}])
rooms = st.builds(
    lambda cpus, gpus, order, group_rights, seed: Room(
        VirtualMachine(
            cpus,
            gpus=gpus,
            configuration=Configuration(order=order, groups=group_rights),
            seed=seed,
        ),
        [],
    ),
    cpus=st.sampled_from([1, 2, 4, 8]),
    gpus=st.sampled_from([0, 2]),
    order=orders,
    group_rights=groups,
    seed=st.integers(0, 99),
)


def play(room: Room, story: Sequence[Action]) -> None:
    """Act; each turn is checked."""
    for action in story:
        action.act(room)
    room.machine.turn()


def end_all_troubles(room: Room) -> None:
    """From here on everything works."""
    machine = room.machine
    machine.launcher.refuses = ""
    if not machine.launcher.is_up:
        machine.start_launcher()
    for job in list(machine.machine.home.jobs.values()):
        if job.held:
            machine.machine.home.release(job.number, "someone")
