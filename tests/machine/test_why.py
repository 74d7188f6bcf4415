"""`why` names the one cause: without it, and nothing else changed, the job starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.config.reader import Configuration
from iriai.config.sections import OrderSection
from iriai.model.alteration import Alteration
from iriai.model.ids import AttemptId, JobId
from iriai.model.job import Condition, Dependency
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from iriai.model.state import EndCause, TaskState
from iriai.protocol.messages.effects import TerminateAttempt
from tests.support.virtual import VirtualMachine

CPUS = 8
LONG_S = 1000.0


@dataclass
class Waiting:
    """A job that waits, and how to take each cause away."""

    machine: VirtualMachine
    job: JobId
    head: JobId | None = None

    def has_started(self) -> bool:
        self.machine.wait(0.0)
        return self.machine.state(self.job) in (TaskState.RUNNING, TaskState.FINISHED)

    def main_reason(self) -> Rule:
        self.machine.turn()
        return self.machine.why(self.job)[0]

    def remove(self, rule: Rule) -> None:
        """Take away what `rule` names, and nothing else."""
        removals: dict[Rule, Callable[[], None]] = {
            Rule.HELD: self.release,
            Rule.DEPENDENCY: self.end_others,
            Rule.NO_MACHINE_LARGE_ENOUGH: self.enlarge,
            Rule.MACHINE_BUSY: self.end_all,
            Rule.RUNNING_CAP: self.lift_cap,
            Rule.RESERVED_HEAD_AHEAD: self.cancel_head,
        }
        removals[rule]()

    def release(self) -> None:
        self.machine.machine.home.release(self.job.number, "ann")

    def end_others(self) -> None:
        """All that the job waits for ends."""
        others = [dependency.number for dependency in self.machine.job(self.job).open_after]
        for attempt in list(self.machine.launcher.running):
            if attempt.number in others:
                self.end(attempt)

    def enlarge(self) -> None:
        """Another machine in its place, with as much more as the job asks for."""
        asked = self.machine.job(self.job).spec.resources
        self.machine.capacity = self.machine.capacity.plus(asked)
        self.machine.restart()

    def end_all(self) -> None:
        for attempt in list(self.machine.launcher.running):
            self.end(attempt)

    def end(self, attempt: AttemptId) -> None:
        """Cancel an attempt that runs."""
        order = TerminateAttempt(attempt, EndCause.CANCELLED, 0.0)
        self.machine.launcher.order(order, self.machine.now_s)

    def lift_cap(self) -> None:
        configuration = self.machine.configuration
        order = replace(configuration.order, running_cap_cpus=None)
        self.machine.restart(replace(configuration, order=order))

    def cancel_head(self) -> None:
        assert self.head is not None
        self.machine.cancel(self.head)


def empty(cap_cpus: int | None = None, seed: int = 1) -> VirtualMachine:
    order = OrderSection(running_cap_cpus=cap_cpus)
    return VirtualMachine(CPUS, configuration=Configuration(order=order), seed=seed)


def check(waiting: Waiting, rule: Rule) -> None:
    """The job waits for `rule` alone."""
    assert waiting.main_reason() is rule
    assert not waiting.has_started()
    waiting.remove(rule)
    assert waiting.has_started()


def any_of(*jobs: JobId) -> tuple[Dependency, ...]:
    return tuple(Dependency(Condition.ANY, job.home, job.number) for job in jobs)


users = st.sampled_from(["ann", "bob"])
cpus = st.integers(1, CPUS)
limits = st.sampled_from([None, 60.0, LONG_S])


@given(user=users, asked=cpus, limit_s=limits)
def test_held(user, asked, limit_s):
    machine = empty()
    job = machine.submit(user, cpus=asked, limit_s=limit_s, held=True)
    check(Waiting(machine, job), Rule.HELD)


@given(user=users, others=st.integers(1, 3), limit_s=limits)
def test_dependency(user, others, limit_s):
    machine = empty()
    awaited = [machine.submit("eve", run_s=LONG_S) for _ in range(others)]
    machine.turn()
    job = machine.submit(user, limit_s=limit_s, after=any_of(*awaited))
    check(Waiting(machine, job), Rule.DEPENDENCY)


@given(at_once=st.integers(1, CPUS - 1), lifts=st.booleans())
def test_array_throttle(at_once, lifts):
    """One task more starts when one of them ends, or when the throttle is raised by one."""
    machine = empty()
    job = machine.submit("ann", tasks=CPUS + 5, run_s=LONG_S, throttle=at_once)
    machine.wait(1.0)
    assert machine.why(job) == [Rule.ARRAY_THROTTLE]
    assert len(machine.running()) == at_once
    if lifts:
        machine.machine.home.alter(job.number, Alteration(throttle=at_once + 1), "ann")
    else:
        first = next(iter(machine.launcher.running))
        machine.launcher.order(TerminateAttempt(first, EndCause.CANCELLED, 0.0), machine.now_s)
    machine.wait(1.0)
    assert len(machine.starts(job)) == at_once + 1


@given(user=users, excess=st.integers(1, 9), resource=st.sampled_from(["cpus", "memory", "gpus"]))
def test_no_machine_large_enough(user, excess, resource):
    machine = empty()
    asked = {
        "cpus": {"cpus": CPUS + excess},
        "memory": {"memory_bytes": machine.capacity.memory_bytes + excess},
        "gpus": {"gpus": excess},
    }[resource]
    machine.submit("eve", cpus=3, run_s=LONG_S)
    check(Waiting(machine, machine.submit(user, **asked)), Rule.NO_MACHINE_LARGE_ENOUGH)


@given(user=users, running=st.lists(cpus, min_size=1, max_size=6), asked=cpus, limit_s=limits)
def test_machine_busy(user, running, asked, limit_s):
    machine = empty()
    taken = 0
    for claimed in running:
        if taken + claimed <= CPUS:
            machine.submit("eve", cpus=claimed, run_s=LONG_S)
            taken += claimed
    machine.turn()
    job = machine.submit(user, cpus=max(asked, CPUS - taken + 1), limit_s=limit_s)
    check(Waiting(machine, job), Rule.MACHINE_BUSY)


@given(cap_cpus=st.integers(1, CPUS - 1), asked=cpus, limit_s=limits)
def test_running_cap(cap_cpus, asked, limit_s):
    machine = empty(cap_cpus=cap_cpus)
    runs = max(0, min(cap_cpus, CPUS - asked))  # so that the machine itself has room
    machine.submit("ann", tasks=max(runs, 1), run_s=LONG_S, held=not runs)
    machine.turn()
    job = machine.submit("ann", cpus=max(asked, cap_cpus - runs + 1), limit_s=limit_s)
    check(Waiting(machine, job), Rule.RUNNING_CAP)


@given(
    running=st.integers(1, CPUS - 1),
    head_cpus=cpus,
    limits_s=st.sampled_from([(None, None), (300.0, None), (300.0, LONG_S)]),
    user=users,
)
def test_reserved_head_ahead(running, head_cpus, limits_s, user):
    """It fits now, but would outlast the head's start and takes more than the head leaves."""
    machine = empty()
    machine.submit("eve", cpus=running, run_s=LONG_S, limit_s=limits_s[0])
    machine.turn()
    head = machine.submit("zoe", cpus=max(head_cpus, CPUS - running + 1))
    machine.turn()
    spare = CPUS - machine.job(head).spec.resources.cpus
    assume(spare < CPUS - running)
    job = machine.submit(user, cpus=spare + 1, limit_s=limits_s[1])
    check(Waiting(machine, job, head), Rule.RESERVED_HEAD_AHEAD)


@given(
    held=st.booleans(),
    awaits=st.booleans(),
    excess=st.sampled_from([0, 0, 3]),
    cap_cpus=st.sampled_from([None, 2]),
    running=st.integers(0, CPUS),
    with_head=st.booleans(),
    limit_s=limits,
)
def test_of_several_causes_each_is_named_once(
    held, awaits, excess, cap_cpus, running, with_head, limit_s
):
    """Taking away what is named, one after the other, starts the job in as many steps."""
    machine = empty(cap_cpus=None)
    if running:
        machine.submit("eve", cpus=running, run_s=LONG_S)
        machine.turn()
    head = machine.submit("zoe", cpus=CPUS) if with_head and running else None
    machine.turn()
    order = OrderSection(running_cap_cpus=cap_cpus)
    machine.restart(Configuration(order=order))
    asked = CPUS + excess if excess else 3
    after = any_of(*machine.running()[:1]) if awaits else ()
    job = machine.submit("ann", cpus=asked, held=held, limit_s=limit_s, after=after)
    waiting = Waiting(machine, job, head)
    named: list[Rule] = []
    while not waiting.has_started():
        rule = waiting.main_reason()
        assert rule not in named or rule is Rule.MACHINE_BUSY, f"{rule} again, after {named}"
        assert len(named) < 7, named
        named.append(rule)
        waiting.remove(rule)
    assert (Rule.HELD in named) == held
    assert (Rule.DEPENDENCY in named) == bool(after)
    assert (Rule.NO_MACHINE_LARGE_ENOUGH in named) == bool(excess)


def test_a_task_that_runs_waits_for_nothing():
    machine = empty()
    job = machine.submit("ann")
    machine.wait(1.0)
    assert machine.why(job) == []


def test_an_array_waits_for_its_first_waiting_task():
    machine = empty()
    job = machine.submit("ann", tasks=CPUS + 3)
    machine.wait(1.0)
    [reason] = machine.machine.explain(job.number, machine.now)
    assert reason.rule is Rule.MACHINE_BUSY
    assert reason.had == "0 cpus free; waiting tasks: 3, accounts: 1"


def test_while_starts_fail_that_is_why():
    machine = empty()
    machine.launcher.refuses = "no space left on device"
    job = machine.submit("ann")
    machine.wait(0.5)
    [reason] = machine.machine.explain(job.number, machine.now)
    assert reason.rule is Rule.BACKED_OFF
    assert "no space left" in reason.had
    machine.launcher.refuses = ""
    machine.wait(5.0)
    assert machine.state(job) is TaskState.RUNNING


def test_without_a_launcher_that_is_why():
    machine = empty()
    machine.kill_launcher()
    job = machine.submit("ann")
    machine.turn()
    assert machine.why(job) == [Rule.NO_LAUNCHER]


def test_resources_that_nobody_has_are_named():
    machine = empty()
    named = Resources(1, named=(("licence", 2),))
    job = machine.submit("ann")
    machine.wait(0.0)
    spec = replace(machine.job(job).spec, resources=named)
    other = machine.machine.submit(spec, (), machine.now)
    machine.turn()
    [reason] = machine.machine.explain(other.number, machine.now)
    assert reason.rule is Rule.NO_MACHINE_LARGE_ENOUGH
    assert (reason.needed, reason.had) == ("2 licence", "the machine has 0 licence")
