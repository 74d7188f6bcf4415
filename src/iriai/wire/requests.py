"""Requests of clients to a daemon over its socket, and its answers.

A client sends `Hello` first. Each further request has a number that its answers repeat; requests
may be sent without waiting for earlier answers and are carried out in order. A request is answered
by exactly one `Answer` or `Failure`; `Wait` is answered by any number of `Notice` before it. Fields
are only ever appended, with a default.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.batch_variables import BatchVariables
from iriai.model.bounds import (
    Amount,
    Code,
    Content,
    Count,
    Expression,
    Few,
    Many,
    Name,
    Real,
    Rows,
    Seconds,
    SizeBytes,
    Text,
    Weight,
    Whole,
    Word,
    Words,
)
from iriai.model.submission import Binding, InputPiece, Interaction, Layout, NotifyOn
from iriai.wire.exchange import ClientAnswer, ClientRequest, Done, JobRequest, Query, Right

PROTOCOL_VERSION = 2
"""Raised with every change that an older client or daemon would misread. 2: input and terminals of
`run` are sent, not passed."""
READ_WAIT_MAX_S = 60.0
SAME_VERSION = (
    "install the same version of iriai on both, then restart the older one with 'iriai down' and "
    "'iriai up': its tasks go on"
)
"""The advice for two machines of different versions."""


class JobDraft(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job as a person asks for it; None and empty mean: as the machine's defaults say."""

    command: Annotated[tuple[Text, ...], Many]
    working_directory: Text
    environment: Content
    """msgpack map of strings. Encoded once by the client: many jobs share it."""
    name: Text = ""
    script: Content = b""
    stdin: Content = b""
    cpus: Whole = 1
    memory_bytes: Whole = 0
    gpus: Whole = 0
    named: Annotated[tuple[tuple[Text, Whole], ...], Many] = ()
    array: Annotated[tuple[tuple[Whole, Whole, Whole], ...], Many] | None = None
    time_limit_s: Real | None = None
    cpu_limit_s: Real | None = None
    process_limit: Whole | None = None
    output: Text | None = None
    error: Text | None = None
    max_restarts: Whole | None = None
    group: Text | None = None
    account: Text | None = None
    """`GROUP/USER` or `USER`; only where the configuration permits."""
    urgency: Real = 1.0
    held: bool = False
    wait_for_resources: bool = False
    interaction: Interaction = Interaction.BATCH
    throttle: Whole | None = None
    """The most tasks of the array that may run at once."""
    after: Annotated[tuple[Text, ...], Many] = ()
    """`ok:ID[,ID...]`, `any:...` and `fail:...`: what must have ended before; all must hold."""
    exclusive: bool = False
    """Each task takes a whole machine."""
    notify: Text = ""
    """A command to run when it has finished, or `mailto:ADDRESS`."""
    notify_on: NotifyOn = NotifyOn.END
    lease_s: Real | None = None
    """How long a task on another machine runs without contact to its home; None: as configured."""
    requirements: Text = ""
    """A ClassAd expression that must hold of a machine; empty: any will do."""
    rank: Text = ""
    """The ClassAd expression that prefers machines."""
    batch: BatchVariables | None = None
    """Variables for scripts written for Slurm or PBS; None for other jobs."""
    ranks: Text = ""
    """The ranks of each task, as `8` or `4-16`; empty: as many as the next two say, else one."""
    nodes: Whole | None = None
    """The machines of each task; None: as few as hold its ranks."""
    per_node: Whole | None = None
    """The ranks on each machine; None: as many as fit."""
    across_pools: bool | None = None
    """Whether its machines may be of several pools; None: as configured."""
    layout: Layout = Layout.RANKS
    keep_going: bool = False
    """Whether the other ranks go on when one has failed."""
    bind: Binding | None = None
    """None: as the machine does it."""
    pipes: Annotated[tuple[Annotated[tuple[Text, ...], Many], ...], Many] = ()
    """The commands of a parallel pipe, in place of `command`."""
    queue: Whole = 0
    no_suspend: bool = False
    """Each task is vacated where it would be suspended for the owner of a machine."""
    checkpoint_exit: Whole | None = None
    """The exit code of a task that has saved itself and is to be run again."""
    binary: tuple[Name, Name] | None = None
    """Architecture and system of its program, where that is a binary of the user's."""
    reservation: Expression = ""
    """In which its tasks run; empty: in none."""
    or_queue: bool = False
    """Whether what waits at the end of the reservation waits on, as tasks of none."""
    evictable: bool | None = None
    """Whether a task may start that would have to leave for a booking; None: if it has no time
    limit."""


class Welcome(ClientAnswer, frozen=True, tag="welcome"):
    """The daemon that the client reached, and the user it sees."""

    version: Count
    home: Name
    state_directory: Words
    daemon_pid: Code
    user: Name
    operator: bool
    front: Words = ""
    """Of a machine without a home: the socket of the front end that takes its jobs; else empty."""


class Hello(ClientRequest[Welcome], frozen=True, tag="hello"):
    """The first request. Answered with `Welcome`, or `Failure` if versions do not go together."""

    fails_alone = True
    asked_by = Right.ANYBODY

    version: Count


class Submitted(ClientAnswer, frozen=True, tag="submitted", omit_defaults=True):
    """The job is durable under this id."""

    id: Word
    tasks: Count
    warnings: Annotated[tuple[Words, ...], Many] = ()
    """Ignored parts of the submission, a sentence each."""


class DryRun(ClientAnswer, frozen=True, tag="dry-run"):
    """The job as it would be accepted, and what it would wait for (empty: starts at once)."""

    account: Name
    tasks: Count
    resources: Annotated[dict[Name, SizeBytes], Many]
    time_limit_s: Seconds | None
    output: Text
    waits_for: Annotated[tuple[Why, ...], Many]
    ranks: Word = ""
    """As in `JobRow`."""


class Submit(ClientRequest[Submitted | DryRun], frozen=True, tag="submit"):
    """Accept a job."""

    fails_alone = True
    is_of_home = True

    draft: JobDraft
    takes_input: bool = False
    """Whether the client sends its standard input, or what is typed, with `WriteInput`."""
    window: tuple[Count, Count] = (0, 0)
    """Rows and columns of its terminal; 0: the kernel's default."""
    dry_run: bool = False
    immediate: bool = False
    """Whether it is refused unless it can start now."""


class JobRow(msgspec.Struct, array_like=True):
    """One line of a listing."""

    id: Word
    name: Text
    group: Name
    user: Name
    state: Word
    """held, queued, claimed, suspended, running or finished; of an array the most advanced."""
    tasks: Count
    waiting: Count
    active: Count
    """Claimed, running or suspended."""
    succeeded: Count
    failed: Count
    """Finished in any other way than completed."""
    submitted_wall_s: Seconds
    cpus: Count
    urgency: Weight
    start_wall_s: Seconds | None = None
    """Of a reserved head the promised start, of others that wait an estimate or None."""
    promised: bool = False
    ended_wall_s: Seconds | None = None
    cause: Word = ""
    ranks: Word = ""
    """The ranks of each task, as `8` or `4-16`; empty: one. `cpus` are of one."""
    queue: Count = 0


class JobList(ClientAnswer, frozen=True, tag="job-list"):
    """Answer to `Jobs`; each row is an encoded `JobRow`."""

    rows: Annotated[tuple[msgspec.Raw, ...], Rows]
    estimates: Annotated[dict[Word, Seconds], Rows] = msgspec.field(default_factory=dict)
    """Of jobs that wait without a promise, by id: when they may start, on the wall clock. Apart
    from the rows, which are encoded once for each change of a job."""


class Jobs(Query[JobList], frozen=True, tag="jobs"):
    """List jobs. Without `everyone` those of the asking user; finished ones only on request."""

    is_of_home = True

    everyone: bool = False
    user: Expression | None = None
    name: Expression | None = None
    """A shell pattern."""
    state: Word | None = None
    finished: bool = False
    """Finished jobs instead of those that are not; newest first."""
    limit: Whole = 0
    """The most rows; 0 means all unfinished jobs, or the newest 1,000 finished ones."""


class AttemptRow(msgspec.Struct, frozen=True):
    """One attempt of one task: a row of the history, or one that still runs (cause empty)."""

    task: Word
    attempt: Count
    machine: Name
    state: Word
    cause: Word
    exit_code: Code | None
    signal: Code | None
    cpu_s: Amount
    memory_peak_bytes: SizeBytes
    read_bytes: SizeBytes
    written_bytes: SizeBytes
    started_wall_s: Seconds | None
    ended_wall_s: Seconds | None
    elapsed_s: Amount
    charge_s: Amount
    message: Words
    output: Text
    """The file of standard output."""
    error: Text
    factors: Annotated[tuple[tuple[Real, Real], ...], Many] = ()
    """Factors of charges: (factor, seconds) of each stretch; empty means 1."""
    rank: Count = 0
    """The first rank, of a seat."""
    ranks: Count = 1
    """Of the attempt or the seat; 0: not known any more."""
    seats: Count = 1
    """How many machines the attempt has; `machine` is the first."""
    reasons: Annotated[tuple[Word, ...], Few] = ()
    """For which it does not run at present; see `model.suspension.SuspendReason`."""
    kept_bytes: SizeBytes = 0
    """The memory that it keeps meanwhile, as far as it asked for any."""
    returned_s: Amount = 0.0
    """What of the charge was returned, since the owner of the machine came."""


class Parallel(msgspec.Struct, frozen=True):
    """How a job is parallel: see `JobDraft`."""

    ranks: Word
    nodes: Count | None
    per_node: Count | None
    across_pools: bool
    layout: Layout
    keep_going: bool
    bind: Binding | None
    pipes: Annotated[tuple[Annotated[tuple[Text, ...], Many], ...], Many]


class JobDetail(ClientAnswer, frozen=True, tag="job-detail"):
    """Answer to `Show`. At most 1,000 attempts, the newest first."""

    row: JobRow
    account: Text
    command: Annotated[tuple[Text, ...], Many]
    script: bool
    working_directory: Text
    resources: Annotated[dict[Name, SizeBytes], Many]
    time_limit_s: Seconds | None
    max_restarts: Count | None
    output: Text
    error: Text
    array: Annotated[tuple[tuple[Count, Count, Count], ...], Many]
    causes: Annotated[dict[Word, Count], Many]
    """Finished tasks by cause."""
    attempts: Annotated[tuple[AttemptRow, ...], Many]
    why: Annotated[tuple[Why, ...], Many]
    """The reasons why a job waits, the main one first."""
    after: Annotated[tuple[Text, ...], Many] = ()
    """Its dependencies: `ok:ID` and the like."""
    throttle: Count | None = None
    exclusive: bool = False
    note: Words = ""
    """Who or what cancelled tasks of a finished job."""
    requirements: Text = ""
    rank: Text = ""
    parallel: Parallel | None = None
    """None: each task has one rank, and no pipe."""
    seats: Annotated[tuple[AttemptRow, ...], Many] = ()
    """If they were asked for: those of the newest attempts, by rank, 4,096 in all; `state` of one
    that is not over is asked, held, confirmed or started."""
    cpu_limit_s: Seconds | None = None
    """CPU time of a task, of all its ranks divided by their number."""
    no_suspend: bool = False
    checkpoint_exit: Count | None = None
    reservation: Word = ""
    or_queue: bool = False
    evictable: bool | None = None
    """As it was asked for; None: a task is if it has no time limit."""
    comment: Words = ""
    """What a policy wrote on it, while it has not finished."""


class Show(JobRequest[JobDetail], frozen=True, tag="show"):
    """Ask for all details of a job or task."""

    id: Expression
    ranks: bool = False
    """Whether to tell the seats of its attempts as well."""


class Why(msgspec.Struct, frozen=True, tag="why"):
    """One reason; the first of a list is the main one."""

    rule: Word
    needed: Words
    had: Words
    machine: Name = ""


class Reasons(ClientAnswer, frozen=True, tag="reasons"):
    """Answer to `AskWhy`. `reasons` is empty only for a job that does not wait."""

    id: Expression
    state: Word
    reasons: Annotated[tuple[Why, ...], Many]


class AskWhy(JobRequest[Reasons], frozen=True, tag="ask-why"):
    """Ask why a job or task waits."""

    id: Expression


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """The progress of all tasks of a `Wait`, in sum."""

    waiting: Count
    active: Count
    succeeded: Count
    failed: Count


class Outcome(msgspec.Struct, frozen=True, tag="outcome"):
    """The end of one job or task; of an array that of its worst task."""

    id: Word
    cause: Word
    exit_code: Code | None
    signal: Code | None
    message: Words = ""


class Waited(ClientAnswer, frozen=True, tag="waited"):
    """Answer to `Wait`: all have finished."""

    outcomes: Annotated[tuple[Outcome, ...], Many]


class Wait(JobRequest[Waited], frozen=True, tag="wait"):
    """Tell when all of these jobs or tasks have finished; meanwhile `Notice` with the progress."""

    ids: Annotated[tuple[Expression, ...], Many]
    progress: bool = False


class LogFile(msgspec.Struct, frozen=True):
    """Output of one task."""

    task: Word
    attempt: Count
    finished: bool
    output: Text
    error: Text
    """Empty where standard error goes into the output."""
    machine: Name = ""
    """The machine with the files, if it is not the home."""
    is_fetched: bool = False
    """Whether the home fetches the output from there."""
    user: Name = ""
    """The user of the task."""
    is_kept: bool = False
    """Whether the files belong to the daemon, which answers `ReadOutput`."""
    rank: Count = 0
    """The first rank of the task that writes it."""
    ranks: Count = 1
    """How many the task has."""
    writers: Count = 1
    """How many of them write it: one, those of a machine, or all."""

    def has_rank(self, rank: int) -> bool:
        """Return whether a rank writes it."""
        return self.rank <= rank < self.rank + self.writers


class OutputPiece(ClientAnswer, frozen=True, tag="output-piece"):
    """Answer to `ReadOutput`."""

    content: Content
    is_complete: bool
    """Whether this is the end of the output."""
    problem: Words = ""
    """Why the rest is not available; empty if it is."""


class ReadOutput(JobRequest[OutputPiece], frozen=True, tag="read-output"):
    """Ask for output of an attempt of `run`."""

    task: Expression
    attempt: Count
    kind: Word
    """`out` or `err`."""
    offset: SizeBytes
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=READ_WAIT_MAX_S)] = 0.0
    """How long to wait where nothing is there yet."""
    rank: Count = 0


class InputWritten(ClientAnswer, frozen=True, tag="input-written"):
    """Answer to `WriteInput`, once all of it has gone to the task, or it cannot."""

    offset: SizeBytes
    """Of the first byte that the task has not got: what follows has to be sent again."""
    is_open: bool
    """Whether the task can take more."""


NOT_STARTED = "not-started"
"""The code of the refusal of input that comes too early."""
TOO_MUCH_INPUT = "too-much-input"
"""The same of input that comes while too much of it is not answered."""


class WriteInput(JobRequest[InputWritten], frozen=True, tag="write-input"):
    """Pass on the client's standard input, or what was typed, to a job of `run` that has started.

    Each byte comes with its place, so that it can be sent again after a connection was lost.
    """

    counted_bytes = 128 << 10  # it is written as fast as its task reads

    id: Expression
    offset: SizeBytes
    """Of the first byte of `content`."""
    content: InputPiece
    is_end: bool = False
    """Whether nothing follows."""
    window: tuple[Count, Count] | None = None
    """Rows and columns of its terminal from now on; None: as they are."""


class LogFiles(ClientAnswer, frozen=True, tag="log-files"):
    """Answer to `Logs`, by task index."""

    files: Annotated[tuple[LogFile, ...], Many]
    until_index: Count | None = None
    """The last index of an incomplete answer; None if it is complete."""
    until_rank: Count | None = None
    """The last rank of that task, if there are more."""


class Logs(JobRequest[LogFiles], frozen=True, tag="logs"):
    """Where the output of a job's or task's latest attempts is. The client reads it as the user."""

    id: Expression
    after_index: Whole = -1
    """Ask only for tasks with a larger index: the rest of an incomplete answer."""
    after_rank: Whole | None = None
    """Ask also for larger ranks of the task with that index."""


class Down(ClientRequest[Done], frozen=True, tag="down"):
    """End the daemon and its supervisor; with `kill` also every task and the launcher.

    Only for operators, or the user of a single-user state directory.
    """

    is_local = True
    asked_by = Right.OPERATOR
    purpose = "stop this daemon"

    kill: bool = False


class Failure(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The daemon did not do it, and nothing changed; a `model.problem` in transit."""

    number: Count
    exit_code: Code
    code: Word
    message: Words
    hint: Words


class Notice(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """News for a request whose answer is still to come."""

    number: Count
    body: Progress
