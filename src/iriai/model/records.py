"""Durable records: what cores ask the store to keep, one transaction per turn of a machine.

A job's state is the replay of its events in order of their sequence number. Events of one turn that
concern several tasks of a job are one event, so that an array costs rows by turns, not by tasks.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from iriai.model.alteration import Alteration
from iriai.model.bounds import Amount, Code, Count, Many, Name, Seconds, Span, Words
from iriai.model.charge_factors import Factors
from iriai.model.claim import Claim
from iriai.model.ids import Account, AttemptId, ReservationId
from iriai.model.job import Dependency, JobSpec
from iriai.model.owner import OwnerWord
from iriai.model.ranks import RankCount, SeatPlace
from iriai.model.reason import Reason
from iriai.model.reservation import Booking, Reservation, ReservationEnd
from iriai.model.state import EndCause
from iriai.model.suspension import Reasons
from iriai.model.usage import Usage


class Attempted(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Attempts were made, about to be run on `machine`: (index, attempt) each."""

    tasks: tuple[tuple[int, int], ...]
    machine: str
    """Of the first seat."""
    seats: tuple[SeatPlace, ...] = ()
    """Of each, in order of their ranks; empty: one rank on `machine`."""


class Started(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """These attempts run: (index, attempt) each."""

    tasks: tuple[tuple[int, int], ...]


class Ended(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Attempts ended: (index, attempt, cause, exit code, signal) each."""

    tasks: tuple[tuple[int, int, EndCause, int | None, int | None], ...]
    refusals: tuple[Reason, ...] = ()
    """The reasons why attempts of these were refused, each once; for `story`."""


class Cancelled(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A user cancelled these tasks; empty means all that had not finished."""

    indices: tuple[int, ...]
    by: str


class Held(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """A user, or a policy, held the waiting tasks of the job."""

    by: str
    is_operators: bool = False
    """Whether only an operator, or a policy, may release it."""


class Released(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """A user released the held tasks of the job."""

    by: str


class Promised(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The broker reserved a start for the job's first waiting task; None withdraws it."""

    start_wall_s: float | None
    machine: str
    pool: str = ""
    """Of a parallel task: its pool; empty: it may take machines of all pools."""


class Snapshot(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """A summary of all events before this one: the home's own encoding of the job's state."""

    state: bytes
    after: tuple[Dependency, ...] = ()
    """The open dependencies of the job, which the store looks up."""


class DependencyMet(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Dependencies that are met, and how each ended."""

    ends: tuple[tuple[Dependency, EndCause], ...]


class DependencyFailed(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """A dependency that can never be met: the waiting tasks of the job are cancelled."""

    dependency: Dependency
    cause: EndCause


class Altered(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """A user changed what the waiting tasks ask for. Running tasks keep what they have."""

    was: Alteration
    now: Alteration
    by: str


class Stepped(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """A job step got its number, before it was ordered beside a seat that ran."""

    step: int
    task: tuple[int, int]
    """(index, attempt)."""
    rank: int
    """The rank whose environment it has."""
    machine: str
    by: str


class Decided(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """All machines hold their seats of these attempts, which therefore start: (index, attempt)."""

    tasks: tuple[tuple[int, int], ...]


class SeatEnded(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """Seats of attempts with several ended; their attempts may go on."""

    results: tuple[tuple[AttemptResult, RankCount], ...]
    """Each with how many ranks it had."""


class UserSuspended(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """A user wants these attempts suspended, or no longer: (index, attempt) each."""

    tasks: tuple[tuple[int, int], ...]
    by: str
    is_wanted: bool


class SeatReasons(NamedTuple):
    """Why one seat of an attempt does not run at present."""

    index: int  # type: ignore[assignment]  # shadows tuple.index, which nobody calls here
    attempt: int
    rank: int
    """The first of the seat."""
    reasons: Reasons
    """Empty: it runs."""
    is_resuming: bool = False
    """Whether it waits for its cpus, which others have."""
    moved_to: int | None = None
    """The lower queue in which it goes on, after its time of residence; None: it did not move."""
    seen: str = ""
    """What was seen of the owner for whom it does not run."""


class ReasonsTold(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """The machines of seats told for which reasons they do not run."""

    seats: tuple[SeatReasons, ...]


class ReservationOver(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """The reservation of the job is over: what waits is cancelled, or waits on without it."""

    reservation: ReservationId
    end: ReservationEnd | None = None
    """Why it is over; None: nothing is known of it any more."""


class Requeued(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """A policy sends these attempts back to the queue: (index, attempt) each.

    They end `evicted`, unless they end by themselves before.
    """

    tasks: tuple[tuple[int, int], ...]
    by: str


class Commented(msgspec.Struct, frozen=True, array_like=True, tag=19):
    """A policy wrote a comment on the job, in place of the one before."""

    text: str
    by: str


Change = (
    Attempted
    | Started
    | Ended
    | Cancelled
    | Held
    | Released
    | Promised
    | Snapshot
    | DependencyMet
    | DependencyFailed
    | Altered
    | Stepped
    | Decided
    | SeatEnded
    | UserSuspended
    | ReasonsTold
    | ReservationOver
    | Requeued
    | Commented
)


class JobAccepted(msgspec.Struct, frozen=True):
    """Home: a new job. Durable before its id is returned."""

    number: int
    spec: JobSpec
    submitted_wall_s: float
    payloads: tuple[tuple[str, bytes], ...] = ()
    """(digest, content) of texts that this job brings and the store may not have yet."""


class JobEvent(msgspec.Struct, frozen=True):
    """Home: an event of a job. A Snapshot replaces all events of lower sequence."""

    number: int
    sequence: int
    wall_s: float
    change: Change
    story: str
    """The id of what caused it, for `story`."""


class JobFinished(msgspec.Struct, frozen=True):
    """Home: the last task of the job ended; it need not be loaded again."""

    number: int
    wall_s: float
    cause: EndCause
    """The worst of its tasks' causes."""
    spec: JobSpec | None = None
    """The specification if the job was altered; None: it is as it was submitted."""


class AttemptResult(msgspec.Struct, frozen=True):
    """Home: the row of the history (paper 000, section 5.1) for one attempt, or one seat of it.

    Durable before the end is acknowledged to the node.
    """

    attempt: AttemptId
    machine: Name
    cause: EndCause
    exit_code: Code | None
    signal: Code | None
    usage: Usage
    started_wall_s: Seconds
    ended_wall_s: Seconds
    elapsed_s: Amount
    charge_s: Amount
    message: Words = ""
    factors: Factors = ()
    """The factors of the charges of its time; see policy.offpeak."""
    returned_s: Amount = 0.0
    """What of the charge its machine returned, since it ended it for its owner."""


class ClaimStored(msgspec.Struct, frozen=True):
    """Node: a claim was granted, or charged; it replaces the attempt's earlier one.

    Durable before it is accepted. Written again in the transaction that charges its account, so
    that a node that comes back does not charge the same seconds twice.
    """

    claim: Claim


class ClaimsDropped(msgspec.Struct, frozen=True):
    """Node: the ends of these attempts are acknowledged by their homes."""

    attempts: tuple[AttemptId, ...]


BUCKETS = 32
"""Buckets in a window. More: usage leaves it more evenly, and each row of a ledger is longer. A
window of a month has about one for each day."""


class Bucket(NamedTuple):
    """Charges in one part of a window; see `policy.accounting.sliding_window`."""

    number: Count
    """Since 1970."""
    charge_s: Amount
    advance_s: Amount
    """The part of it that urgency added."""


REFUND_DAYS = 64
"""Days of refunds in a row. More: those of long ago count longer under a half-life of months;
fewer: rows of a ledger are shorter. After a half-life of a week a 500th is left of the first."""
DAY_S = 86_400.0


class Refund(NamedTuple):
    """What a machine returned to an account on one day; see `policy.accounting.refunds`."""

    day: Count
    """Since 1970, of universal time."""
    charge_s: Amount
    """The charges that were returned."""
    counts_s: Amount
    """As which charge at the end of that day they count: less, since what they return is older."""


Refunds = tuple[Refund, ...]
"""Ascending by day; those of `REFUND_DAYS` at most."""


class LedgerRow(msgspec.Struct, frozen=True):
    """Node: the counter of one account; durable before it is published. See policy.fading."""

    account: Account
    counter: Amount
    epoch_wall_s: Span
    runs: Count
    """The number of runs that ended."""
    run_s: Amount
    """The decayed sum of their durations; see `policy.accounting.runtime_estimates.RunTimes`."""
    advance: Amount = 0.0
    """The part of the counter that urgency added to the ordinary price of the same work."""
    bucket_s: Seconds = 0.0
    """The length of a bucket; 0: usage decays with a half-life, and there are none."""
    buckets: Annotated[tuple[Bucket, ...], Many] = ()
    """Under a window: the charges by time, instead of the counter."""
    refunds: Annotated[Refunds, Many] = ()
    """What was returned of the charges, by days."""


class NoticeDue(msgspec.Struct, frozen=True):
    """Home: a job has finished and its notice is due; durable with its end."""

    number: int


class NoticesDropped(msgspec.Struct, frozen=True):
    """Daemon: the notices of these jobs were sent, or cannot be sent."""

    numbers: tuple[int, ...]


class HistoryDropped(msgspec.Struct, frozen=True):
    """Daemon: delete the stored data of a job that has finished long ago.

    At most `attempts_max` rows of attempts, or of seats; with so many the job itself stays.
    """

    number: int
    attempts_max: int


class Incarnated(msgspec.Struct, frozen=True):
    """Node: a new incarnation of this machine began; its earlier capabilities are void."""

    incarnation: int


class Drained(msgspec.Struct, frozen=True):
    """Node: it accepts no claims until `Resumed`."""

    reason: str
    by: str
    """The author: a user, or the check that found something wrong (`prolog`)."""
    since_wall_s: float


class Resumed(msgspec.Struct, frozen=True):
    """Node: it accepts claims again."""

    by: str


class OwnerWordGiven(msgspec.Struct, frozen=True):
    """Node: what its machine's owner has said last (docs/spec/016, section 5)."""

    word: OwnerWord | None
    """None: it was taken back."""
    until_wall_s: float | None = None
    """How long it holds; None: until it is taken back."""
    vacates: bool = False
    """Whether tasks are to leave at once."""


class AbsencesLearnt(msgspec.Struct, frozen=True):
    """Node: what it has learnt of when its machine's owner is away (docs/spec/016, 5b)."""

    counts: bytes
    """As `policy.owner.absence` packs them; empty: nothing."""


class KeySet(NamedTuple):
    """A key of a section that an operator set."""

    key: str
    value: str
    """As the operator wrote it."""
    by: str


class SectionSet(msgspec.Struct, frozen=True):
    """Machine without a cluster: what operators set of a section, in place of what was before."""

    section: str
    """`queues`, `pools` or `gang`."""
    name: str
    """Of the queue or pool; else empty."""
    settings: tuple[KeySet, ...]
    by: str
    """Who changed it last."""
    wall_s: float


class ReservationStored(msgspec.Struct, frozen=True):
    """Home: a reservation, whole; it replaces the earlier one of its number."""

    reservation: Reservation


class ReservationsDropped(msgspec.Struct, frozen=True):
    """Home: these reservations have been over for long, and are forgotten."""

    numbers: tuple[int, ...]


class BookingStored(msgspec.Struct, frozen=True):
    """Node: a booking; it replaces the earlier one of its reservation.

    Durable before it is told.
    """

    booking: Booking


class BookingsDropped(msgspec.Struct, frozen=True):
    """Node: nothing is kept of these reservations any more."""

    reservations: tuple[ReservationId, ...]


Record = (
    JobAccepted
    | JobEvent
    | JobFinished
    | AttemptResult
    | ClaimStored
    | ClaimsDropped
    | LedgerRow
    | Incarnated
    | NoticeDue
    | NoticesDropped
    | HistoryDropped
    | Drained
    | Resumed
    | OwnerWordGiven
    | AbsencesLearnt
    | SectionSet
    | ReservationStored
    | ReservationsDropped
    | BookingStored
    | BookingsDropped
)
