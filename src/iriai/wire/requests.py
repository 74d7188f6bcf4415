"""What clients ask of a daemon over its socket, and what they are answered.

A client sends `Hello` first. Each further request has a number that its answers repeat; requests
may be sent without waiting for earlier answers and are carried out in order. A request is answered
by exactly one `Answer` or `Failure`; `Wait` is answered by any number of `Notice` before it.
Fields are only ever appended, with a default.
"""

from __future__ import annotations

import msgspec

from iriai.model.batch_variables import BatchVariables
from iriai.model.job import Interaction
from iriai.model.notice import NotifyOn
from iriai.wire.accounts import AskUsage, Shares, ShareTable, UsageTable
from iriai.wire.ads import AdList, AskAds, AskMatch, MatchTable
from iriai.wire.changes import Alter, Altered, Cancel, Changed, Hold, Release
from iriai.wire.joining import ClusterAnswer, ClusterRequest
from iriai.wire.machines import (
    Drain,
    Forget,
    Link,
    Linked,
    Nodes,
    NodeTable,
    Resume,
)
from iriai.wire.reports import (
    ConfigurationTable,
    Doctor,
    DoctorReport,
    ShowConfiguration,
    Status,
    StatusReport,
)
from iriai.wire.stories import AskStory, Story

PROTOCOL_VERSION = 1
"""Raised with every change that an older client or daemon would misread."""


class JobDraft(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job as a person asks for it; None and empty mean: as the machine's defaults say."""

    command: tuple[str, ...]
    working_directory: str
    environment: bytes
    """msgpack map of strings. Encoded once by the client: many jobs share it."""
    name: str = ""
    script: bytes = b""
    stdin: bytes = b""
    cpus: int = 1
    memory_bytes: int = 0
    gpus: int = 0
    named: tuple[tuple[str, int], ...] = ()
    array: tuple[tuple[int, int, int], ...] | None = None
    time_limit_s: float | None = None
    cpu_limit_s: float | None = None
    process_limit: int | None = None
    output: str | None = None
    error: str | None = None
    max_restarts: int | None = None
    group: str | None = None
    account: str | None = None
    """`GROUP/USER` or `USER`; only where the configuration permits."""
    urgency: float = 1.0
    held: bool = False
    wait_for_resources: bool = False
    interaction: Interaction = Interaction.BATCH
    throttle: int | None = None
    """How many tasks of the array may run at once."""
    after: tuple[str, ...] = ()
    """`ok:ID[,ID...]`, `any:...` and `fail:...`: what must have ended before; all must hold."""
    exclusive: bool = False
    """Each task takes a whole machine."""
    notify: str = ""
    """A command to run when it has finished, or `mailto:ADDRESS`."""
    notify_on: NotifyOn = NotifyOn.END
    lease_s: float | None = None
    """How long a task goes on elsewhere while its home is not heard; None: as configured."""
    requirements: str = ""
    """A ClassAd expression that must hold of a machine; empty: any will do."""
    rank: str = ""
    """What machines are liked best."""
    batch: BatchVariables | None = None
    """What a script for Slurm or PBS finds of its submission; None: it is for neither."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first request. Answered with `Welcome`, or `Failure` if versions do not go together."""

    version: int


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Whom the client reached, and whom the daemon takes it for."""

    version: int
    home: str
    state_directory: str
    daemon_pid: int
    user: str
    operator: bool
    front: str = ""
    """Of a machine without a home: the socket of the front end that takes its jobs; else empty."""


class Submit(msgspec.Struct, frozen=True, tag="submit"):
    """Accept a job. `descriptors` 1: one descriptor travels beside this frame (SCM_RIGHTS)."""

    draft: JobDraft
    descriptors: int = 0
    dry_run: bool = False


class Submitted(msgspec.Struct, frozen=True, tag="submitted", omit_defaults=True):
    """The job is durable under this id."""

    id: str
    tasks: int
    warnings: tuple[str, ...] = ()
    """What was handed in and is not followed, a sentence each."""


class DryRun(msgspec.Struct, frozen=True, tag="dry-run"):
    """What would have been accepted, and what it would wait for (empty: starts at once)."""

    account: str
    tasks: int
    resources: dict[str, int]
    time_limit_s: float | None
    output: str
    waits_for: tuple[Why, ...]


class Jobs(msgspec.Struct, frozen=True, tag="jobs"):
    """List jobs. Without `everyone` those of the asking user; finished ones only on request."""

    everyone: bool = False
    user: str | None = None
    name: str | None = None
    """A shell pattern."""
    state: str | None = None
    finished: bool = False
    """Finished jobs instead of those that are not; newest first."""
    limit: int = 0
    """At most so many; 0 is all that have not finished, or the newest 1,000 that have."""


class JobRow(msgspec.Struct, array_like=True):
    """One line of a listing."""

    id: str
    name: str
    group: str
    user: str
    state: str
    """held, queued, claimed, running or finished; of an array the most advanced not over."""
    tasks: int
    waiting: int
    active: int
    """Claimed, running or suspended."""
    succeeded: int
    failed: int
    """Finished in any other way than completed."""
    submitted_wall_s: float
    cpus: int
    urgency: float
    start_wall_s: float | None = None
    """Of a reserved head the promised start, of others that wait an estimate or None."""
    promised: bool = False
    ended_wall_s: float | None = None
    cause: str = ""


class JobList(msgspec.Struct, frozen=True, tag="job-list"):
    """Answer to `Jobs`; each row is an encoded `JobRow`."""

    rows: tuple[msgspec.Raw, ...]
    estimates: dict[str, float] = {}
    """Of jobs that wait without a promise, by id: when they may start, on the wall clock. Apart
    from the rows, which are encoded once for each change of a job."""


class Show(msgspec.Struct, frozen=True, tag="show"):
    """All that is known of one job or task."""

    id: str


class AttemptRow(msgspec.Struct, frozen=True):
    """One attempt of one task: a row of the history, or one that still runs (cause empty)."""

    task: str
    attempt: int
    machine: str
    state: str
    cause: str
    exit_code: int | None
    signal: int | None
    cpu_s: float
    memory_peak_bytes: int
    read_bytes: int
    written_bytes: int
    started_wall_s: float | None
    ended_wall_s: float | None
    elapsed_s: float
    charge_s: float
    message: str
    output: str
    """Where standard output is (or was) written."""
    error: str
    factors: tuple[tuple[float, float], ...] = ()
    """What charges were multiplied by: (factor, seconds) of each stretch; empty: by 1."""


class JobDetail(msgspec.Struct, frozen=True, tag="job-detail"):
    """Answer to `Show`. At most 1,000 attempts, the newest first."""

    row: JobRow
    account: str
    command: tuple[str, ...]
    script: bool
    working_directory: str
    resources: dict[str, int]
    time_limit_s: float | None
    max_restarts: int | None
    output: str
    error: str
    array: tuple[tuple[int, int, int], ...]
    causes: dict[str, int]
    """Finished tasks by cause."""
    attempts: tuple[AttemptRow, ...]
    why: tuple[Why, ...]
    """What a waiting job waits for, the main reason first."""
    after: tuple[str, ...] = ()
    """What it was to start after: `ok:ID` and the like."""
    throttle: int | None = None
    exclusive: bool = False
    note: str = ""
    """Who or what cancelled tasks of a finished job."""
    requirements: str = ""
    rank: str = ""


class AskWhy(msgspec.Struct, frozen=True, tag="ask-why"):
    """What a job or task waits for."""

    id: str


class Why(msgspec.Struct, frozen=True, tag="why"):
    """One reason; the first of a list is the main one."""

    rule: str
    needed: str
    had: str
    machine: str = ""


class Reasons(msgspec.Struct, frozen=True, tag="reasons"):
    """Answer to `AskWhy`. `reasons` is empty only for a job that does not wait."""

    id: str
    state: str
    reasons: tuple[Why, ...]


class Wait(msgspec.Struct, frozen=True, tag="wait"):
    """Tell when all of these jobs or tasks have finished; meanwhile `Notice` with the progress."""

    ids: tuple[str, ...]
    progress: bool = False


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """Where the tasks that a `Wait` named are, in sum."""

    waiting: int
    active: int
    succeeded: int
    failed: int


class Outcome(msgspec.Struct, frozen=True, tag="outcome"):
    """How one job or task ended; of an array its worst task."""

    id: str
    cause: str
    exit_code: int | None
    signal: int | None
    message: str = ""


class Waited(msgspec.Struct, frozen=True, tag="waited"):
    """Answer to `Wait`: all have finished."""

    outcomes: tuple[Outcome, ...]


class Logs(msgspec.Struct, frozen=True, tag="logs"):
    """Where the output of a job's or task's latest attempts is. The client reads it as the user."""

    id: str
    after_index: int = -1
    """Only of tasks with a larger index: the rest of an answer that named where it ended."""


class LogFile(msgspec.Struct, frozen=True):
    """Output of one task."""

    task: str
    attempt: int
    finished: bool
    output: str
    error: str
    """Empty where standard error goes into the output."""
    machine: str = ""
    """Where the files are, if that is another machine than the home."""
    is_fetched: bool = False
    """Whether the home has it brought from there, and is asked for it (`ReadOutput`)."""


class ReadOutput(msgspec.Struct, frozen=True, tag="read-output"):
    """What an attempt on another machine has printed, as far as it has come here."""

    task: str
    attempt: int
    kind: str
    """`out` or `err`."""
    offset: int


class OutputPiece(msgspec.Struct, frozen=True, tag="output-piece"):
    """Answer to `ReadOutput`, at once."""

    content: bytes
    is_complete: bool
    """Nothing more follows."""
    problem: str = ""
    """Why what follows cannot be had; empty: it can."""


class LogFiles(msgspec.Struct, frozen=True, tag="log-files"):
    """Answer to `Logs`, by task index."""

    files: tuple[LogFile, ...]
    until_index: int | None = None
    """There is more, of tasks with a larger index; None: this is all."""


class Down(msgspec.Struct, frozen=True, tag="down"):
    """End the daemon and its supervisor; with `kill` also every task and the launcher.

    Only for operators, or the user of a single-user state directory.
    """

    kill: bool = False


class Done(msgspec.Struct, frozen=True, tag="done"):
    """Answer where there is nothing to say."""


RequestBody = (
    Hello
    | Submit
    | Jobs
    | Show
    | AskWhy
    | AskStory
    | Wait
    | Cancel
    | Hold
    | Release
    | Alter
    | Shares
    | AskUsage
    | Logs
    | ReadOutput
    | Status
    | Doctor
    | ShowConfiguration
    | Down
    | Nodes
    | AskAds
    | AskMatch
    | Drain
    | Resume
    | Forget
    | Link
    | ClusterRequest
)
AnswerBody = (
    Welcome
    | Submitted
    | DryRun
    | JobList
    | JobDetail
    | Reasons
    | Story
    | Waited
    | Changed
    | Altered
    | ShareTable
    | UsageTable
    | LogFiles
    | OutputPiece
    | StatusReport
    | DoctorReport
    | ConfigurationTable
    | Done
    | NodeTable
    | AdList
    | MatchTable
    | Linked
    | ClusterAnswer
)


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A client's request; numbers are the client's own, ascending."""

    number: int
    body: RequestBody


class Answer(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The daemon did it."""

    number: int
    body: AnswerBody


class Failure(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The daemon did not do it, and nothing changed; a `model.problem` in transit."""

    number: int
    exit_code: int
    code: str
    message: str
    hint: str


class Notice(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """News for a request whose answer is still to come."""

    number: int
    body: Progress


Reply = Answer | Failure | Notice
