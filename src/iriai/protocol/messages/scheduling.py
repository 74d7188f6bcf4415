"""Messages between node, home and broker (docs/spec/002).

Each says who sends it, when, and what the receiver does. Any message to or from a broker may be
lost, repeated, stale or wrong with no effect but delay.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from iriai.model.ad import MachineAd
from iriai.model.bounds import (
    Amount,
    Bits,
    Code,
    Count,
    Expression,
    Few,
    Many,
    Name,
    QueueIndex,
    Seconds,
    Span,
    Speed,
    Urgency,
    Weight,
    Words,
)
from iriai.model.claim import HOLD_S, HoldTime, Phase
from iriai.model.ids import Account, AttemptId, JobId, ReservationId
from iriai.model.job import Grace, JobSpec, Limit
from iriai.model.owner import MachineUse
from iriai.model.policy_terms import Comment, JobAction
from iriai.model.ranks import ONE, SEATS_MAX, RankCount, RankShape, SeatPlaces
from iriai.model.reason import Reason
from iriai.model.records import AttemptResult, LedgerRow
from iriai.model.reservable import Reservable
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendedClaim
from iriai.model.turn import RowIndex, RowSet
from iriai.protocol.messages.elections import ToSuccession
from iriai.protocol.messages.gossip import PeerMessage
from iriai.protocol.messages.proposals import Propose, Proposed
from iriai.protocol.messages.reservations import (
    BookedTimes,
    ReservationToHome,
    ReservationToNode,
    SeekNodes,
)
from iriai.protocol.messages.rpc import ToInquiry
from iriai.protocol.messages.steps import StepToHome, StepToNode
from iriai.protocol.messages.streams import ToStreams
from iriai.protocol.messages.suspension import ReturnCpus, Suspend, Suspended, Vacate

Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class Capability(NamedTuple):
    """A node's promise to accept one claim, once."""

    incarnation: Count
    version: Count
    """The version of the node's state when it was issued."""
    slot: Count
    random: Bits


class Running(msgspec.Struct, frozen=True, omit_defaults=True):
    """The data of a claim that a broker needs."""

    attempt: AttemptId
    account: Account
    resources: Resources
    limit_s: Seconds | None
    """Wall time of the attempt; None: without limit."""
    ends_in_s: Span | None
    """From when the message is sent until its place is free for sure: see `longest_stay_s`."""
    charge_so_far_s: Amount
    urgency: Urgency
    capability: Capability | None
    """The capability it was granted for; None if the node does not remember."""
    suspended: SuspendedClaim | None = None
    """None: it was never suspended."""
    queue: QueueIndex = 0
    """The queue that it is in now."""
    is_preempted: bool = False
    """Whether it is frozen for its queue, and its cpus are free for others."""
    row: RowIndex = 0
    takes_turns: bool = False
    """Whether it has no more than that row of time slices."""
    reservation: ReservationId | None = None
    """In whose booking it runs; None: in none."""

    @property
    def kept(self) -> Resources:
        """What it holds: not the cpus that are free for others while it is suspended."""
        return self.resources.with_cpus(0) if self.is_preempted else self.when_it_runs

    @property
    def stays_s(self) -> float | None:
        """Return how long it keeps its place at most; None: no limit.

        What its user keeps suspended past its latest end has still to be ended.
        """
        if self.suspended is None or self.ends_in_s is None:
            return self.ends_in_s
        return max(self.ends_in_s, self.suspended.ending_s)

    @property
    def when_it_runs(self) -> Resources:
        """What it holds unless it is preempted."""
        if self.suspended is None or not self.suspended.freed_cpus:
            return self.resources
        return self.resources.with_cpus(self.resources.cpus - self.suspended.freed_cpus)


class Charging(msgspec.Struct, frozen=True):
    """Broker to a node that reported whole and charges otherwise: prices, as in `[order]`."""

    idle_weight: Weight
    gpu_weight: Weight
    memory_weight: Weight
    offpeak_factor: Weight


class TurnedAway(NamedTuple):
    """A refused claim in `Idle`: the machine runs no tasks of its user."""

    capability: Capability
    home: Name
    user: Name
    words: Words
    """The reason, for people."""
    is_in_use: bool = False
    """Whether that is so only while its owner uses it."""


class FailedAtOnce(msgspec.Struct, frozen=True):
    """An attempt that failed by itself soon after its start."""

    attempt: AttemptId
    exit_code: Code | None
    """None if a signal ended it."""


class Idle(msgspec.Struct, frozen=True, omit_defaults=True):
    """Node to broker, after each turn that changed its calendar; `whole` to one new to it.

    The broker updates its view of the node; it may hand each capability on once.
    """

    machine: Name
    incarnation: Count
    version: Count
    capacity: Resources
    capabilities: Annotated[tuple[Capability, ...], Many]
    """New ones; if `whole`, all outstanding ones."""
    spent: Annotated[tuple[Capability, ...], Many]
    """Those that came back since the last report, whether a claim was granted for them or not, and
    whether they were still good or not: no match is under way with them any more."""
    began: Annotated[tuple[Running, ...], Many]
    ended: Annotated[tuple[AttemptId, ...], Many]
    whole: bool
    unavailable: Reason | None
    """Why nothing can be started there now; None if something can."""
    speed: Speed = 1.0
    """Of the machine, relative to others; charges are multiplied by it."""
    load: Weight = 0.0
    """The machine's load average (over one minute)."""
    foreign_load: Weight = 0.0
    """The part of it that is not caused by tasks of iriai."""
    is_load_known: bool = False
    """Whether the load was ever measured."""
    lost: Annotated[tuple[AttemptId, ...], Many] = ()
    """Those of `ended` that were lost at once for an unknown reason."""
    refused: Annotated[tuple[AttemptId, ...], Many] = ()
    """Those of `ended` that never started."""
    charging: Charging | None = None
    """If `whole`, the charging rule of this machine; else None."""
    ad: MachineAd | None = None
    """If `whole`, the ad of the machine with its owner's requirements."""
    keyboard_idle_s: Seconds | None = None
    """Time since a terminal of the machine was used; None if it is not measured."""
    use: MachineUse | None = None
    """None: it has no keyboard, and no owner policy."""
    turned_away: Annotated[tuple[TurnedAway, ...], Many] = ()
    """Of `spent`: those refused because the machine does not run tasks of that user and home."""
    ahead: Annotated[tuple[Capability, ...], Many] = ()
    """New ones for tasks that wait there for a place; `whole`: all that are outstanding."""
    waiting: Annotated[tuple[Running, ...], Many] = ()
    """Claims granted ahead, which hold nothing yet; `whole`: all. In `began` when they do."""
    failed: Annotated[tuple[FailedAtOnce, ...], Many] = ()
    """Those of `ended` that failed at once, by themselves."""
    rules: Count = 0
    """Counts changes of whose tasks the machine runs: it may take now whom it turned away."""
    changed: Annotated[tuple[Running, ...], Many] = ()
    """Claims that hold something else, or end at another time: suspended, or about to go on."""
    cycle: Count = 0
    """The number of the last `Cycle` that was taken in."""
    has_clock: bool = False
    """Whether it knows the broker's clock well enough for time slices."""
    expected_idle_s: Seconds | None = None
    """For how long its owner stays away, with an even chance; None: it has no owner policy."""
    bookings: BookedTimes | None = None
    """All of them, if one changed, or `whole`; None: as before."""
    reservable: Reservable | None = None
    """If `whole`: what its owner lets be reserved of it; None: all of it, by everybody."""


class Counted(msgspec.Struct, frozen=True):
    """Node to broker, to draw with: its ledger rows that changed, and charges of what runs."""

    machine: Name
    rows: Annotated[tuple[LedgerRow, ...], Many]
    charged: Annotated[tuple[tuple[AttemptId, Amount], ...], Many]


class HoldTold(NamedTuple):
    """A job that a user or a policy holds, for a policy to see."""

    tasks: Count
    """How many would wait."""
    by: Name
    """Who holds it; `policy NAME` for a policy."""
    is_operators: bool = False
    """Whether its user may not release it."""


class Want(msgspec.Struct, frozen=True, omit_defaults=True):
    """Home to broker, when the number of ready tasks of a job changes other than by a match.

    The broker replaces what it knew of the job.
    """

    job: JobId
    account: Account
    resources: Resources
    limit_s: Limit | None
    urgency: Urgency
    waited_s: Amount
    """Time waited, as the home counts it."""
    count: Count
    grace_s: Grace = 0.0
    """The time beyond its limit that an attempt may take to end."""
    front: Count = 0
    """How many of the tasks wait again after an attempt: they go to the head of their account's
    queue."""
    promised_in_s: Span | None = None
    """The start that an earlier broker promised for its first task, from now; None: no promise."""
    promised_machine: Name = ""
    exclusive: bool = False
    """Each task takes a whole machine, which is empty when it starts."""
    stamp: Count = 0
    """Rises with each change; a broker acknowledges it and ignores an older one."""
    requirements: Expression = ""
    """The required expression (docs/spec/007); empty if there is none."""
    rank: Expression = ""
    """The preference among machines; larger is better."""
    group: Name = ""
    """The group that it was submitted under, where its account here has another."""
    user: Name = ""
    """The user that its tasks run as; empty for the user of its account."""
    shape: RankShape = ONE
    """The ranks of each task, and how they lie on machines; `resources` are of one."""
    across_pools: bool = False
    """Whether the machines of a task may be of several pools."""
    queue: QueueIndex = 0
    reservation: ReservationId | None = None
    """Where its tasks run; None: beside all reservations."""
    is_evictable: bool = False
    """Whether a task may start that has to leave for a booking."""
    held: HoldTold | None = None
    """Told, with a `count` of 0, by homes that let policies change their jobs."""
    comment: Comment = ""
    """What a policy wrote on it; told by the same homes."""

    def __post_init__(self) -> None:
        if self.shape != ONE and not self.shape.is_possible:
            raise ValueError(f"{self.shape} contradict")  # which also makes a message malformed


class Withdraw(msgspec.Struct, frozen=True):
    """Home to broker: no task of this job waits any more. The broker forgets it."""

    job: JobId
    stamp: Count = 0
    """The stamp, as in `Want`."""


class Wants(msgspec.Struct, frozen=True, omit_defaults=True):
    """Home to broker, after all its wants to a broker that is new to it, and now and then.

    The broker knows that it has been told all; a home without jobs is heard of as well.
    """

    machine: Name
    policy_may: Annotated[tuple[JobAction, ...], Few] = ()
    """What the home lets a policy do with its jobs."""


class SeatOffer(NamedTuple):
    """One seat of a match: ranks on a machine, with its capability."""

    machine: Name
    capability: Capability
    ranks: RankCount = 1


SeatOffers = Annotated[tuple[SeatOffer, ...], msgspec.Meta(min_length=1, max_length=SEATS_MAX)]


class Match(msgspec.Struct, frozen=True):
    """Broker to home: one task of `job` may start on these machines, with their capabilities.

    The home binds a ready task and sends each machine `Run`, or answers `Decline`.
    """

    job: JobId
    seats: SeatOffers
    """In order of their ranks."""
    until_s: Seconds
    """How long the broker reserves the places."""
    broker: Name = ""
    """Of another cluster, which is told if the match is declined; empty: the home's own."""


class Decline(msgspec.Struct, frozen=True):
    """Home to the broker that matched: no task is left for it; its capabilities are free again."""

    job: JobId
    seats: SeatOffers
    """As in the match."""


class Explain(msgspec.Struct, frozen=True):
    """Home to broker, when someone asks why a job waits: answered with `Explained`."""

    job: JobId


class Explained(msgspec.Struct, frozen=True):
    """Broker to home: why the job's first waiting task has not started; the main reason first."""

    job: JobId
    reasons: Annotated[tuple[Reason, ...], Many]


class Promise(msgspec.Struct, frozen=True, omit_defaults=True):
    """Broker to home: the job is a reserved head and starts in `start_in_s` at the latest.

    The home stores it and repeats it in its wants. None takes it back.
    """

    job: JobId
    machine: Name
    """Where its place is; empty: it has several, in a pool."""
    start_in_s: Span | None
    pool: Name = ""
    """The pool of its places; empty: they are in all pools, or on a machine."""


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """Home to node: run this seat. The node claims and starts it, or refuses; never "wait".

    Of an attempt with several seats it comes once for each phase, and the node does no more than
    its phase says. Repeated, without capability, for each seat whose end is not known: by a home
    that came back, and when the machine can be reached again. A seat that the node holds a claim
    for is started at most once.
    """

    attempt: AttemptId
    spec: JobSpec
    capability: Capability | None
    lease_s: Limit | None = None
    """How long the attempt goes on without word from the home (docs/spec/002, section 3). None:
    both are of one machine, and share its fate."""
    phase: Phase = Phase.STARTED
    """How far the node may go now."""
    ranks: RankCount = 1
    """Of this seat; its first is that of `attempt`."""
    hold_s: HoldTime = HOLD_S
    """How long the node keeps the claim while it is held."""
    seats: SeatPlaces = ()
    """With phase `STARTED`: all seats of the attempt, in order of their ranks; empty: there is but
    this one."""
    port: Port = 0
    """With phase `STARTED`: one that was free on the machine of the first seat; 0: none."""


class Stop(msgspec.Struct, frozen=True):
    """Home to node: end this attempt with this cause. The node answers with `Ended` in time."""

    attempt: AttemptId
    cause: EndCause
    grace_s: Grace


class ClaimTurn(NamedTuple):
    """The turn of one claim, in `Cycle`."""

    attempt: AttemptId
    turn: RowSet
    row: RowIndex = 0
    """Its own row; in the others of its turn it runs because they would be idle."""
    is_stopped: bool = False
    """Whether it is frozen because its queue is stopped, not for a higher one."""


class MatchTurn(NamedTuple):
    """The turn of a claim that is about to be made with a capability, in `Cycle`."""

    capability: Capability
    turn: RowSet
    row: RowIndex = 0


class Cycle(msgspec.Struct, frozen=True, omit_defaults=True):
    """Broker to node: when each claim of queues in mode `gang` or `exclusive` runs.

    It has all of them whose turn is not always, and replaces what was told before. The node clips
    it to what fits, frees the cpus of what stands, and reports.
    """

    number: Count
    """Rises with each to this machine; one that is not higher than the last is ignored."""
    quantum_s: Annotated[float, msgspec.Meta(ge=0.1, le=3600.0)] = 1.0
    """The length of a time slice."""
    turns: Annotated[tuple[ClaimTurn, ...], Many] = ()
    matched: Annotated[tuple[MatchTurn, ...], Many] = ()


class Accepted(msgspec.Struct, frozen=True, omit_defaults=True):
    """Node to home: the claim is granted, and durable with this phase."""

    attempt: AttemptId
    machine: Name
    is_ahead: bool = False
    """Whether it waits there for a place, and starts or is refused soon."""
    phase: Phase = Phase.STARTED
    port: Port = 0
    """With phase `CONFIRMED`, for the first seat: one that is free there; 0: none."""


class Refusal(msgspec.Struct, frozen=True):
    """Node to home: the attempt never starts. The home queues the task again."""

    attempt: AttemptId
    reason: Reason


class Begun(msgspec.Struct, frozen=True, omit_defaults=True):
    """Node to home: the attempt's process runs; again when it was measured in a reservation."""

    attempt: AttemptId
    machine: Name
    started_wall_s: Seconds
    is_used: bool | None = None
    """Inside: whether it has used a hundredth of its cpus since its start; None: not measured."""


class End(msgspec.Struct, frozen=True):
    """Node to home: the attempt ended. Repeated until `Acknowledge`."""

    result: AttemptResult
    """The result that the home stores."""

    @property
    def attempt(self) -> AttemptId:
        """The attempt that ended."""
        return self.result.attempt


class Acknowledge(msgspec.Struct, frozen=True):
    """Home to node: the end is stored; the node drops claim and journal entry."""

    attempt: AttemptId


class Renew(msgspec.Struct, frozen=True):
    """Node to home, when a third of the shortest lease is over: renew the leases of my attempts.

    The node's leases count from when it asked, the home's from when it answers `Renewed`.
    """

    machine: Name
    asked_steady_s: Seconds
    """The node's clock, which the home only repeats."""
    unconfirmed: Annotated[tuple[AttemptId, ...], Many] = ()
    """Claims that do not start before the home has confirmed that it still wants them."""


class Renewed(msgspec.Struct, frozen=True):
    """Home to node: the answer to `Renew`. A lease that is over already stays over."""

    home: Name
    asked_steady_s: Seconds
    """The value in `Renew`."""
    confirmed: Annotated[tuple[AttemptId, ...], Many] = ()
    """Those of the unconfirmed that the home waits for; for others it sends `Stop`."""


class Quiet(msgspec.Struct, frozen=True):
    """Broker to node: whether it is off-peak; on change, and each 30 s while it is."""

    is_offpeak: bool


class Vacancy(msgspec.Struct, frozen=True, array_like=True):
    """Machines with similar free resources."""

    machines: Count
    free: Resources
    """The sum over the machines."""


class Summary(msgspec.Struct, frozen=True):
    """Broker to those of other clusters, each 30 s and on some changes: what its cluster has free.

    The receiver passes on what it cannot serve itself, in proportion to that.
    """

    broker: Name
    """The sender."""
    cluster: Name
    vacancies: Annotated[tuple[Vacancy, ...], Many]
    """Where something could be started; nothing that is kept for a reserved head."""
    largest: Annotated[tuple[Resources, ...], Many]
    """Capacities: each machine of the cluster has no more than one of these."""
    waiting: Count
    """Tasks that it cannot start and may forward."""


class Forward(msgspec.Struct, frozen=True):
    """Broker to that of another cluster: start as many tasks of `want` as can be started now.

    The receiver matches them as its own, with the home directly; and says `Returned` of the others,
    unless it knows another cluster with room and may pass them on once more.
    """

    broker: Name
    """The sender."""
    number: Count
    """The sender's own, higher each time; the answer repeats it."""
    cluster: Name
    """The sender's."""
    hops: Count
    """How often it was forwarded, this time included."""
    want: Want
    """The home's want; `count` is the number of forwarded tasks."""


class Returned(msgspec.Struct, frozen=True):
    """The answer to `Forward`: how many of the tasks were not started."""

    broker: Name
    """The sender."""
    number: Count
    """That of the `Forward`."""
    count: Count
    reason: Reason | None = None
    """Why none of them can ever start there, if that is known."""


ToBroker = Idle | Counted | Want | Withdraw | Wants | Decline | Explain | SeekNodes | Proposed
OfAttempt = Accepted | Refusal | Begun | End | Suspended
"""Node to home, about one attempt of that home."""
ToHome = Match | Promise | Explained | Propose | OfAttempt | Renew | StepToHome | ReservationToHome
ToNode = (
    Run
    | Stop
    | Suspend
    | Acknowledge
    | Renewed
    | ReturnCpus
    | Cycle
    | Vacate
    | Quiet
    | Charging
    | StepToNode
    | ReservationToNode
)
JobMessage = ToBroker | ToHome | ToNode
"""Between node, home and broker."""
BetweenClusters = Summary | Forward | Returned
"""Between brokers of several clusters; see `broker.federation`."""
Message = JobMessage | BetweenClusters | ToSuccession | PeerMessage | ToInquiry | ToStreams
