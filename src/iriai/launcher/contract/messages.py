"""Messages between daemon and launcher: length-prefixed msgpack over a Unix socket.

The daemon connects, sends `Attach` first and is answered with `Attached`; one daemon at a time (a
newer connection replaces an older one). A frame is a 4-byte big-endian length and one message;
descriptors travel beside the frame of `StreamEnds` alone (SCM_RIGHTS).
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import msgspec

from iriai.model.batch_variables import NoticeVariable
from iriai.model.bounds import (
    Amount,
    Code,
    Content,
    Count,
    KeyBytes,
    Many,
    Name,
    Seconds,
    Text,
    Word,
    Words,
)
from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec
from iriai.model.owner import NO_CONDITIONS, SensorSettings, SensorStates, Signs
from iriai.model.ranks import SEATS_MAX, RankCount
from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from iriai.model.suspension import Reasons
from iriai.model.time_slices import CycleRows, QuantumSeconds, SliceTurn
from iriai.model.usage import Usage

PutPairs = Annotated[tuple[tuple[KeyBytes, KeyBytes], ...], Many]
"""Keys and values of PMI-1, each key once."""
StreamKind = Literal["in", "out", "err", "tty"]
LAUNCHER_VERSION = 11
"""Raised with every change that an older launcher or daemon would misread. 2: leases. 3: variables
of ours are no longer taken from the environment. 4: `Defective`. 5: the
launcher makes the streams of tasks. 6: steps. 7: seats of several ranks. 8: suspension.
9: time slices. 10: owners. 11: conditions of the
machine, lowering."""
FRAME_BYTES_MAX = 256 << 20
"""A Launch with many different scripts and inputs is the largest; no honest frame is longer."""
EXIT_NOT_FOUND = 127
EXIT_NOT_RUN = 126
"""Exit codes of tasks, as of shells: the command is not there, or it could not be executed."""


LOWERING = "lowering"
"""The row of `Enforcement` about what keeps background tasks behind the owner's programs."""
OWNER_SIGNS = "owner-signs"
"""The row of `Enforcement` about what notices the owner."""


class Attach(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Daemon, first message on a connection. Answered with `Attached`, or the connection closed."""

    version: Count
    run_minimum_uid: Code = 1000
    """Users below are refused by the launcher itself; it never goes below its own configuration."""


class Template(msgspec.Struct, frozen=True, array_like=True):
    """The common part of the tasks of one job."""

    spec: JobSpec
    environment: Content
    """msgpack map of strings: the submitter's environment; reserved names in it are dropped."""
    script: Content = b""
    stdin: Content = b""
    notice: Annotated[tuple[tuple[NoticeVariable, Words], ...], Many] = ()
    """Variables of a notice about the job that it reports."""


class SeatHost(NamedTuple):
    """One seat of an attempt, as its ranks see it."""

    machine: Name
    address: Name
    """At which the other machines reach it, without a port."""
    ranks: RankCount


class ParallelSeat(msgspec.Struct, frozen=True, array_like=True):
    """What the order of a seat says beyond that of a task of one rank."""

    ranks: RankCount = 1
    """Of the seat, the first of which is that of its attempt; resources are of each."""
    seats: Annotated[tuple[SeatHost, ...], msgspec.Meta(max_length=SEATS_MAX)] = ()
    """All seats of the attempt, in order of their ranks; empty: there is but this one."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    """One that was free on the first seat's machine, for ranks to meet; 0: none is known."""


class StartOrder(msgspec.Struct, frozen=True, array_like=True):
    """Start one seat of an attempt."""

    attempt: AttemptId
    template: Count
    """Position in the `templates` of the same Launch."""
    gpu_ids: Annotated[tuple[Count, ...], Many] = ()
    lease_s: Seconds | None = None
    """How long it may run after `leased_s`, unless renewed; None: it has no lease."""
    leased_s: Seconds = 0.0
    """Since when its lease counts, on the steady clock."""
    parallel: ParallelSeat | None = None
    """None: the attempt has one process."""

    @property
    def ranks(self) -> int:
        """How many ranks the seat has."""
        return 1 if self.parallel is None else self.parallel.ranks

    @property
    def seats(self) -> tuple[SeatHost, ...]:
        """All seats of the attempt; empty: there is but this one."""
        return () if self.parallel is None else self.parallel.seats


class UnreadTemplate(NamedTuple):
    """A Template that cannot be read: its tasks fail, and those of others start."""

    problem: str


class Launch(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Daemon: start these attempts. Each intent is journalled, then all are spawned.

    An attempt that the journal already knows is not started again (a no-op).
    """

    templates: Annotated[tuple[Template, ...], Many]
    orders: Annotated[tuple[StartOrder, ...], Many]


class Terminate(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Daemon: end these attempts: SIGTERM to the whole tree, SIGKILL after `grace_s`.

    `cause` and `message` become those of the end. Unknown attempts are ignored.
    """

    attempts: Annotated[tuple[AttemptId, ...], Many]
    cause: EndCause
    grace_s: Seconds
    message: Words = ""


class Discard(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Daemon: the ends of these attempts are stored; the journal may drop them."""

    attempts: Annotated[tuple[AttemptId, ...], Many]


class SampleAll(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Daemon: report what running attempts have used so far. Answered with `Sampled`."""


class ShutDown(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Daemon or `iriai down --kill`: kill every task, wait until none is left, report, exit."""


class Prolong(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Daemon: the leases of all attempts of a home count from a later moment."""

    home: Name
    asked_s: Seconds
    """On the steady clock."""


class EndInput(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Daemon: the input of an attempt, or its terminal, is over; it has closed its own end."""

    attempt: AttemptId


class StartStep(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Daemon: start a step beside a seat that runs; its end is told as that of an attempt.

    `Terminate`, `EndInput` and `Discard` name it as they name attempts. One that was ordered before
    is not started again (a no-op). The launcher remembers steps as long as their seat, which does
    not outlive it: they are not in its journal.
    """

    attempt: AttemptId
    """The seat, with the number of the step."""
    rank: Count
    """Of the seat, whose environment the step has."""
    command: Annotated[tuple[Text, ...], Many]
    interaction: Interaction
    takes_input: bool = False
    window: tuple[Count, Count] = (0, 0)
    """Rows and columns of its terminal; 0: the kernel's default."""
    terminal: Name = ""
    """The value of TERM; empty: as the job has it."""


class EndBarrier(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """Daemon: the ranks of all seats have come to a barrier; those of this seat go on.

    Ignored if it does not wait at that one.
    """

    attempt: AttemptId
    number: Count
    put: PutPairs
    """What all ranks have put since the barrier before."""


class FreezeOrder(NamedTuple):
    """The reasons for which one attempt may not run; empty: it runs."""

    attempt: AttemptId
    """The seat."""
    number: Count
    """Rises with each order about this attempt; one that is not higher than the last is ignored."""
    reasons: Reasons


class Freeze(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """Daemon: freeze and thaw attempts, with their steps. Answered with `Frozen`.

    An attempt that was ordered and not spawned yet is started frozen. Unknown ones are ignored.
    """

    orders: Annotated[tuple[FreezeOrder, ...], Many]


class SetCycle(msgspec.Struct, frozen=True, array_like=True, tag=22):
    """Daemon: from now on these attempts take turns; the launcher switches by itself (spec 015).

    It replaces the cycle before. An attempt that is not named runs whenever no reason keeps it;
    one that is named before it is started starts accordingly. The same turns with another phase
    correct that from the next slice on.
    """

    number: Count
    """Rises with each; one that is not higher than the last is ignored."""
    quantum_s: QuantumSeconds
    rows: CycleRows
    """Of the cycle; 0 or 1: nobody takes turns."""
    since_row_0_s: Seconds
    """How long ago a row 0 began, at `as_of_s`."""
    as_of_s: Seconds
    """When this was sent, on the steady clock: what the message waited counts too."""
    turns: Annotated[tuple[SliceTurn, ...], Many]


class SetStandingOrder(msgspec.Struct, frozen=True, array_like=True, tag=24):
    """Daemon: watch for signs of the owner, and what to do at one (spec 016, section 4).

    It replaces the order before. Answered with `OwnerSeen`. Without one nothing is watched.
    """

    number: Count
    """Rises with each; one that is not higher than the last is ignored."""
    suspends: bool
    """Whether a sign suspends what gives way, by itself."""
    exempt: Annotated[tuple[AttemptId, ...], Many]
    """Attempts that do not give way."""
    signs: Count
    """How many the node has taken in, ..."""
    are_over: bool
    """... and whether what they have frozen may go on, if there were no others."""
    conditions: SensorSettings = NO_CONDITIONS
    """Which conditions of the machine are signs."""
    reclaimed: Annotated[tuple[AttemptId, ...], Many] = ()
    """Frozen ones whose memory the owner is to have back."""
    lowers: bool = False
    """Whether those that give way run in the idle class (section 3a)."""


class MeasureLowering(msgspec.Struct, frozen=True, array_like=True, tag=26):
    """Daemon: measure what the owner keeps of the processors beside lowered tasks.

    Answered with the row `LOWERING` in `Enforced`, after a second or two; at once where no order
    has lowered any task, or a measurement is under way.
    """


class Enforcement(msgspec.Struct, frozen=True, array_like=True):
    """The mechanism of one limit on this machine, for `doctor`."""

    limit: Words
    """cpu-shares, memory, disk, processes, cpu-time, wall-time, accounting, tree-kill, suspension,
    time-slices, spawn."""
    by: Words
    """`cgroup v1 memory`, `cgroup v2 …`, `rlimit`, `sampling`, `iriai-exec`, `python helper` …"""
    note: Words = ""


class Alive(msgspec.Struct, frozen=True, array_like=True):
    """An attempt that runs."""

    attempt: AttemptId
    pid: Code
    started_wall_s: Seconds


class Exit(msgspec.Struct, frozen=True, array_like=True):
    """The end of one attempt; journalled before it is reported."""

    attempt: AttemptId
    cause: EndCause
    exit_code: Code | None
    """None where a signal ended it, or it was lost."""
    signal: Code | None
    usage: Usage
    started_wall_s: Seconds
    ended_wall_s: Seconds
    elapsed_s: Amount
    """Between start and end, on the steady clock."""
    message: Words = ""
    """Why it could not be started, or which limit was crossed with what peak; for people."""


class HookFailed(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """Launcher: the machine's prolog or epilog failed, so nothing more should be started here.

    Sent before the end of the attempt: a failed prolog keeps it from starting (`refused`), a failed
    epilog leaves its end as it is. Repeated in Attached until `Discard`.
    """

    attempt: AttemptId
    hook: Words
    """prolog, epilog."""
    message: Words


class Defective(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """Launcher: internal errors that cost one attempt or message each, since it began.

    Sent after each further error, and in Attached if there was one.
    """

    count: Count
    last: Name
    """The class of the error, and the line of our source that raised it."""


class Attached(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Launcher, answer to Attach: what runs, and the ends that were not acknowledged yet."""

    version: Count
    pid: Code
    boot_id: Word
    enforcement: Annotated[tuple[Enforcement, ...], Many]
    alive: Annotated[tuple[Alive, ...], Many]
    ended: Annotated[tuple[Exit, ...], Many]
    unfit: Annotated[tuple[HookFailed, ...], Many] = ()
    defective: Defective | None = None
    """None: there was no error."""


class StreamEnds(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """Launcher: the daemon's ends of streams travel beside the frame, in this order.

    Sent before the `Spawned` of these attempts, and before Attached for all whose end was not
    acknowledged.
    """

    attempts: Annotated[tuple[tuple[AttemptId, Annotated[tuple[StreamKind, ...], Many]], ...], Many]


class SeatBarrier(msgspec.Struct, frozen=True, array_like=True, tag=19):
    """Launcher: all ranks of a seat have come to a barrier. Answered with `EndBarrier`.

    Sent only where the attempt has other seats. The last two of each seat that runs are sent after
    Attached.
    """

    attempt: AttemptId
    number: Count
    """Of the barrier, from 1."""
    put: PutPairs
    """What the ranks of the seat have put since the barrier before."""


class FreezeState(msgspec.Struct, frozen=True, array_like=True):
    """How far an attempt has followed the orders to freeze and to thaw it."""

    attempt: AttemptId
    number: Count
    """Of the last order that was taken in; 0 before the first."""
    reasons: Reasons
    """Those of that order, and the owner's if the standing order keeps it."""
    frozen_s: Amount
    """How long it was frozen in all, until `changed_s`."""
    changed_s: Seconds
    """When it was last frozen or thawed, or had other reasons, on the steady clock."""
    is_complete: bool = True
    """Whether nothing of it runs any more; False: the freezer has not reported that in time."""


class Frozen(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """Launcher: attempts that were frozen, thawed, or have other reasons.

    Sent after each change, and after Attached for all that run and were ever frozen.
    """

    states: Annotated[tuple[FreezeState, ...], Many]


class Enforced(msgspec.Struct, frozen=True, array_like=True, tag=23):
    """Launcher: how one limit is enforced now, in place of what `Attached` said of it."""

    row: Enforcement


class OwnerSeen(msgspec.Struct, frozen=True, array_like=True, tag=25):
    """Launcher: signs of the owner, and how the sensors do.

    Sent at each sign that the sensors tell, at each change of theirs, and after Attached if there
    was a standing order.
    """

    signs: Count
    """How many there were since this launcher was started."""
    last: Signs
    """The last of each kind."""
    sensors: SensorStates


class VersionRefused(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """Launcher, answer to Attach of another version; it closes the connection then."""

    version: Count
    """The launcher's own."""


class Spawned(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Launcher: these attempts run. Of a task that has ended by then `Exited` alone tells."""

    started: Annotated[tuple[Alive, ...], Many]


class Exited(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """Launcher: these attempts ended. Repeated in Attached until `Discard`."""

    exits: Annotated[tuple[Exit, ...], Many]


class Sampled(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """Launcher, answer to SampleAll: the usage of each running attempt so far."""

    samples: Annotated[tuple[tuple[AttemptId, Usage], ...], Many]


ToLauncher = (
    Attach
    | Launch
    | Terminate
    | Discard
    | SampleAll
    | ShutDown
    | Prolong
    | EndInput
    | StartStep
    | EndBarrier
    | Freeze
    | SetCycle
    | SetStandingOrder
    | MeasureLowering
)
FromLauncher = (
    Attached
    | Spawned
    | Exited
    | Sampled
    | HookFailed
    | Defective
    | VersionRefused
    | StreamEnds
    | SeatBarrier
    | Frozen
    | Enforced
    | OwnerSeen
)
