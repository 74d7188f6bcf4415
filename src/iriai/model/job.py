"""A submitted job: its tasks differ only in their index."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec

from iriai.model.batch_variables import BatchVariables
from iriai.model.bounds import Count, Many, Name, QueueIndex, Real, Text, Urgency, Word
from iriai.model.ids import Account, AttemptId, JobId, ReservationId, TaskId, parse_id
from iriai.model.pool_room import NO_LIMITS, MachineLimits
from iriai.model.problem import UsageProblem
from iriai.model.ranks import ONE, STAGES_MAX, RankShape
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.submission import Binding, Interaction, Layout, NotifyOn

LIMIT_MAX = 1e10
"""Seconds, or processes: three hundred years, and more than there can be. Larger numbers only
overflow."""

Limit = Annotated[float, msgspec.Meta(gt=0.0, le=LIMIT_MAX)]
"""Seconds of a duration, from another machine."""
Grace = Annotated[float, msgspec.Meta(ge=0.0, le=LIMIT_MAX)]
"""The same, or 0."""

EXIT_CODE_MAX = 255
ExitCode = Annotated[int, msgspec.Meta(ge=1, le=EXIT_CODE_MAX)]
"""Of a program that did not succeed."""
SAVED_SOONEST_S = 1.0
"""A task that says sooner that it has saved itself has failed: else one that says so at once runs
for ever, and what it takes are starts, which cost others more than work."""

INPUT, OUTPUT, ERROR, TERMINAL = "in", "out", "err", "tty"
"""Standard input, output and error; a terminal, which is all three, and whose output is kept as
`out`."""
OUTPUTS = (OUTPUT, ERROR)
STREAM_BYTES_MAX = 1 << 30
"""Of one output: a task that prints more is ended. Nobody reads more, and a task can write files of
its user's."""


def can_be_kept(limit: float | None) -> bool:
    """Return whether the value is a valid limit, or none (None)."""
    return limit is None or 0 < limit <= LIMIT_MAX


def limits_problem(spec: JobSpec) -> str:
    """Return which limit of a job is invalid, for people; empty: all are valid."""
    for name in ("time_limit_s", "cpu_limit_s", "process_limit", "lease_s"):
        limit = getattr(spec, name)
        if not can_be_kept(limit):
            return f"{name} is {limit}, which is not above 0 and at most {LIMIT_MAX:g}"
    if not 0 <= spec.kill_grace_s <= LIMIT_MAX:
        return f"kill_grace_s is {spec.kill_grace_s}, which is not from 0 to {LIMIT_MAX:g}"
    return ""


DEPENDENCIES_MAX = 1000
"""Dependencies of one job: each is notified, and `show` lists them. For more use an array: one
dependency on it covers all of its tasks."""
FORM = "write ok:ume-42, any:ume-42.7 or fail:ume-42,ume-43"


class Condition(StrEnum):
    """The required end of a dependency."""

    OK = "ok"
    """Every task of the target completed."""
    ANY = "any"
    """The target ended, with any result."""
    FAIL = "fail"
    """The target ended without completing."""

    def holds(self, cause: EndCause) -> bool:
        """Return whether an end with this (worst) cause meets the condition."""
        if self is Condition.ANY:
            return True
        return (cause is EndCause.COMPLETED) is (self is Condition.OK)


_NEEDED = {
    Condition.OK: "to complete",
    Condition.ANY: "to end",
    Condition.FAIL: "to end in any way but completed",
}
_ENDED = {
    EndCause.COMPLETED: "completed",
    EndCause.FAILED: "failed",
    EndCause.CANCELLED: "was cancelled",
    EndCause.LOST: "was lost",
}


class Dependency(NamedTuple):
    """A job, or a task of it, and how it must end."""

    condition: Condition
    home: Name
    number: Count
    task: Count | None = None
    """Index of a task; None: the whole job."""

    @property
    def on(self) -> JobId | TaskId:
        """Return the job or task that is waited for."""
        if self.task is None:
            return JobId(self.home, self.number)
        return TaskId(self.home, self.number, self.task)

    @property
    def needed(self) -> str:
        """Return the required event as text."""
        return f"{self.on} {_NEEDED[self.condition]}"

    def failed_text(self, cause: EndCause) -> str:
        """Return the text that it ended with `cause`, and the dependency can never hold."""
        ended = _ENDED.get(cause, f"ended at its {cause.replace('-', ' ')}")
        return f"dependency {self.on} {ended}"

    def __str__(self) -> str:
        return f"{self.condition}:{self.on}"


def parse_dependencies(text: str) -> tuple[Dependency, ...]:
    """Return the dependencies in `ok:ID[,ID...]`.

    Raises:
        UsageProblem: it has no known condition, or no list of ids follows.
    """
    word, colon, ids = text.partition(":")
    if not colon or word not in tuple(Condition) or not ids:
        raise UsageProblem("bad-dependency", f"'{text}' is not a dependency", FORM)
    condition = Condition(word)
    found = []
    for each in ids.split(","):
        try:
            parsed = parse_id(each.strip())
        except UsageProblem as problem:
            raise UsageProblem(
                "bad-dependency", f"'{text}' is not a dependency: {problem.message}", FORM
            ) from None
        task = parsed.index if isinstance(parsed, TaskId) else None
        found.append(Dependency(condition, parsed.home, parsed.number, task))
    return tuple(found)


def joined_dependencies(texts: tuple[str, ...] | list[str]) -> tuple[Dependency, ...]:
    """Return the dependencies of several texts, each once, in order; raise `UsageProblem`."""
    found = dict.fromkeys(each for text in texts for each in parse_dependencies(text))
    if len(found) > DEPENDENCIES_MAX:
        raise UsageProblem(
            "too-many-dependencies",
            f"{len(found)} dependencies are more than the limit of {DEPENDENCIES_MAX}",
            "wait for one array, or for a job that waits for some of them",
        )
    return tuple(found)


DEFAULT_LEASE_S = 1200.0
"""Longer: tasks survive longer breaks between machines; shorter: tasks of a dead machine are rerun
sooner. Twenty minutes outlast the restart of a machine, and of most networks."""
SINGLE_TASK = ((0, 0, 1),)
"""The index ranges of a job that is not an array: task 0 alone."""


class JobSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """One submission, with every default already applied by its home.

    Texts that may be long or secret (environment, script, standard input) are stored once by their
    digest, unreadable to others; here is only the digest, empty for none.
    """

    account: Account
    """The account that is charged."""
    user: Text
    """The Unix user as whom the tasks run: the submitting user, as the kernel identified it."""
    name: Text
    command: Annotated[tuple[Text, ...], Many]
    """The argument vector; with a script, the script's arguments."""
    working_directory: Text
    resources: Resources = Resources()
    """Of each rank."""
    array: Annotated[tuple[tuple[Count, Count, Count], ...], Many] = SINGLE_TASK
    """Ranges (first, last, step) of task indices, ascending and disjoint; last is included."""
    is_array: bool = False
    time_limit_s: Real | None = None
    """Wall time of an attempt; None is without limit."""
    cpu_limit_s: Real | None = None
    process_limit: Count | None = None
    environment: Word = ""
    script: Word = ""
    stdin: Word = ""
    output: Text = ""
    """Pattern of the output file; relative to the working directory; see `expand_pattern`."""
    error: Text = ""
    """Pattern of the file for standard error; empty: merged into the output."""
    max_restarts: Count | None = None
    """The number of lost attempts that are repeated; None: no bound."""
    urgency: Urgency = 1.0
    held: bool = False
    """True if the job was submitted held."""
    interaction: Interaction = Interaction.BATCH
    takes_input: bool = False
    """True if the client sends standard input or what is typed. That cannot be read twice: such a
    job is not rerun."""
    window: tuple[Count, Count] = (0, 0)
    """Rows and columns of its terminal when it starts; 0: the kernel's default."""
    kill_grace_s: Real = 10.0
    """Time between the request to end (SIGTERM) and SIGKILL."""
    lease_s: Real | None = None
    """How long an attempt on another machine than its home's goes on without contact between them,
    and so how long the home waits before it reruns the task. None: `DEFAULT_LEASE_S`."""
    throttle: Count | None = None
    """The number of its tasks that may hold a claim at once; None: no limit."""
    after: Annotated[tuple[Dependency, ...], Many] = ()
    """The dependencies that must hold before any of its tasks may start; all of them."""
    exclusive: bool = False
    """True if each of its tasks takes a whole machine, which is empty when it starts."""
    notify: Text = ""
    """The action when it has finished: a command, or `mailto:ADDRESS`; empty: nothing."""
    notify_on: NotifyOn = NotifyOn.END
    requirements: Text = ""
    """The ClassAd expression that must be true of a machine that runs it; empty: none."""
    rank: Text = ""
    """The preference among machines; larger is better."""
    batch: BatchVariables | None = None
    """The submission's values for a script for Slurm or PBS; None: it is for neither."""
    shape: RankShape = ONE
    """How many ranks each task has, and how they lie on machines."""
    across_pools: bool = False
    """True if the machines of a task may be of several pools."""
    layout: Layout = Layout.RANKS
    keep_going: bool = False
    """True if the end of a rank, whatever its cause, does not end the others."""
    bind: Binding | None = None
    """None: as the machine does it."""
    pipes: Annotated[
        tuple[Annotated[tuple[Text, ...], Many], ...], msgspec.Meta(max_length=STAGES_MAX)
    ] = ()
    """The commands of a parallel pipe, in order, in place of `command`; empty: it is none."""
    queue: QueueIndex = 0
    limits: MachineLimits = NO_LIMITS
    """What its queue permits on each machine, as it was admitted; `resources` are within that."""
    no_suspend: bool = False
    """True if it is vacated where it would be suspended for the owner of a machine (spec 016)."""
    checkpoint_exit: ExitCode | None = None
    """The exit code with which a task says that it has saved itself, and is to be run again; None:
    it never says so."""
    reservation: ReservationId | None = None
    """The reservation in which its tasks run; None: in none."""
    or_queue: bool = False
    """True if what waits at the end of the reservation waits on, as tasks of none."""
    evictable: bool | None = None
    """Whether a task may start that would have to leave for a booking; None: if it has no time
    limit."""

    @property
    def is_evictable(self) -> bool:
        """Whether a task of it may start that has to leave for a booking (docs/spec/017)."""
        return self.time_limit_s is None if self.evictable is None else self.evictable

    @property
    def streams_each(self) -> bool:
        """Whether each rank has streams of its own, which are kept; else at most rank 0."""
        return self.interaction is Interaction.STREAM and self.layout is Layout.RANKS

    @property
    def text_digests(self) -> tuple[str, ...]:
        """Return the digests of its texts that are stored apart, each once."""
        return tuple(filter(None, dict.fromkeys((self.environment, self.script, self.stdin))))


def end_by_itself(spec: JobSpec, exit_code: int | None, ran_s: float) -> tuple[EndCause, str]:
    """Return the cause of the end of a task that nobody ended, and for people what it says.

    `exit_code` is None if a signal ended it; `ran_s` is how long it ran, the time frozen apart.
    """
    if exit_code is None or exit_code != spec.checkpoint_exit:
        return EndCause.FAILED if exit_code != 0 else EndCause.COMPLETED, ""
    if ran_s >= SAVED_SOONEST_S:
        return EndCause.EVICTED, f"it has saved itself (exit code {exit_code})"
    least = f"less than {SAVED_SOONEST_S:g} s after its start"
    return EndCause.FAILED, f"it says that it has saved itself (exit code {exit_code}) {least}"


def task_count(array: tuple[tuple[int, int, int], ...]) -> int:
    """Return the number of tasks in the ranges of `array`."""
    return sum((last - first) // step + 1 for first, last, step in array)


def task_indices(array: tuple[tuple[int, int, int], ...]) -> Iterator[int]:
    """Yield the indices of `array` in ascending order."""
    for first, last, step in array:
        yield from range(first, last + 1, step)


def expand_pattern(pattern: str, attempt: AttemptId, seat: int | None = None) -> str:
    """Return the file name for one attempt, or a rank of it.

    %j job id, %t task index, %r rank, %a attempt, %h home and %n number of the job, %% a percent.
    `seat` is the first rank of the seat, None if there is one seat: of several seats, whose
    machines may have the directory in common, each has files of its own. Devices have no such name.
    """
    if seat is not None and not (has_rank(pattern) or pattern.startswith("/dev/")):
        pattern = f"{pattern}.{seat}"
    if "%" not in pattern:
        return pattern
    return _PLACES.sub(lambda found: _PARTS[found[1]](attempt), pattern)


def has_rank(pattern: str) -> bool:
    """Return whether each rank has a file of its own."""
    return "%r" in pattern.replace("%%", "")


_PLACES = re.compile("%([jtrahn%])")
_PARTS: dict[str, Callable[[AttemptId], str]] = {
    "j": lambda attempt: f"{attempt.home}-{attempt.number}",
    "t": lambda attempt: str(attempt.index),
    "r": lambda attempt: str(attempt.rank),
    "a": lambda attempt: str(attempt.attempt),
    "h": lambda attempt: attempt.home,
    "n": lambda attempt: str(attempt.number),
    "%": lambda _: "%",
}
