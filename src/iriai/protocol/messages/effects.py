"""Effects: what a core asks of its driver, and the events that it receives (docs/spec/002).

The order of one turn's effects does not matter to a driver but for one rule: everything that leaves
the machine (messages to others, orders to the launcher, answers to clients) waits until every
record of the same and earlier turns is durable. Messages between parts of one machine are delivered
at once: they share its fate.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec
from iriai.model.owner import NO_CONDITIONS, OwnerWord, SensorSettings, SensorStates, Signs
from iriai.model.ranks import SeatPlace
from iriai.model.reason import Reason
from iriai.model.records import LedgerRow, Record
from iriai.model.state import EndCause
from iriai.model.suspension import Reasons
from iriai.model.time_slices import SliceTurn
from iriai.model.usage import Usage
from iriai.protocol.messages.candidates import BrokerCandidate, ClusterPeer
from iriai.protocol.messages.entries import Entry, EntryKey
from iriai.protocol.messages.members import Member
from iriai.protocol.messages.scheduling import Message
from iriai.protocol.messages.steps import Step


class Part(StrEnum):
    """The parts of a machine, as messages name them."""

    NODE = "node"
    HOME = "home"
    BROKER = "broker"
    MEMBERSHIP = "membership"
    """The membership protocol; every machine of a cluster has it, and a directory."""
    DIRECTORY = "directory"
    """The exchange of published entries."""
    ENTRIES = "entries"
    """Entries that arrived and wait to be verified; it has an alarm, and takes no messages."""
    LEDGER = "ledger"
    """The publication of a node's counters; it has an alarm, and takes no messages."""
    SUCCESSION = "succession"
    """The election of the broker; see `protocol.election`."""
    INQUIRY = "inquiry"
    """Questions to other machines; see `protocol.rpc`."""
    STREAMS = "streams"
    """The transport of tasks' input and output; part of the daemon, not of a core."""


# --- effects -------------------------------------------------------------------------------------


class Send(msgspec.Struct, frozen=True):
    """Deliver a message to a part of a machine."""

    machine: str
    """The receiver; empty for this machine, or, if `part` is the broker, the followed one."""
    part: Part
    message: Message


class Persist(msgspec.Struct, frozen=True):
    """Store a record. A record that is not urgent may wait for the next urgent one."""

    record: Record
    urgent: bool = True


class LaunchAttempt(msgspec.Struct, frozen=True):
    """Node: have the launcher start this seat of an attempt."""

    attempt: AttemptId
    spec: JobSpec
    gpu_ids: tuple[int, ...]
    lease_s: float | None = None
    """How long it may run without renewal; the launcher ends it by itself. None: no lease."""
    leased_steady_s: float = 0.0
    """When the lease began, on the steady clock. If it is over the attempt is lost, not started."""
    ranks: int = 1
    """Of the seat; its first is that of `attempt`."""
    seats: tuple[SeatPlace, ...] = ()
    """All seats of the attempt, in order of their ranks; empty: there is but this one."""
    port: int = 0
    """One that was free on the machine of the first seat, for its ranks to meet; 0: none."""


class LaunchStep(msgspec.Struct, frozen=True):
    """Node: have the launcher start this job step, unless it had the order before."""

    step: Step


class TerminateAttempt(msgspec.Struct, frozen=True):
    """Node: have the launcher end this attempt, or step."""

    attempt: AttemptId
    cause: EndCause
    grace_s: float
    message: str = ""
    """Why, for people, where the cause does not say it."""


class FreezeAttempt(msgspec.Struct, frozen=True):
    """Node: have the launcher keep an attempt frozen while it has reasons; empty: it runs.

    An order whose number is not higher than that of the last about this attempt does nothing.
    """

    attempt: AttemptId
    number: int
    reasons: Reasons


class OrderCycle(msgspec.Struct, frozen=True):
    """Node: have the launcher switch between attempts by itself, in the rows of a cycle (spec 015).

    It replaces the cycle before. A number that is not higher than the last of this launcher does
    nothing: a launcher that was restarted has no cycle, and takes any.
    """

    number: int
    quantum_s: float
    rows: int
    """0 or 1: nobody takes turns."""
    row_0_steady_s: float
    """When a row 0 begins or began, on the steady clock."""
    turns: tuple[SliceTurn, ...]
    """Attempts that are not named run whenever no reason keeps them."""


class WatchOwner(msgspec.Struct, frozen=True):
    """Node: the launcher's standing order for signs of the owner (spec 016, section 4).

    It replaces the order before; a number that is not higher than the last does nothing.
    """

    number: int
    suspends: bool
    """Whether the launcher suspends at a sign, by itself."""
    exempt: tuple[AttemptId, ...]
    """Those that do not give way."""
    signs: int
    """How many the node has taken in, ..."""
    are_over: bool
    """... and whether what they have frozen may go on, if there were no others."""
    conditions: SensorSettings = NO_CONDITIONS
    """Which conditions of the machine are signs."""
    reclaimed: tuple[AttemptId, ...] = ()
    """Frozen ones whose memory the owner is to have back."""
    lowers: bool = False
    """Whether those that give way run in the idle class (section 3a)."""


class ForgetAttempt(msgspec.Struct, frozen=True):
    """Node: the launcher may forget this attempt, or step."""

    attempt: AttemptId


class RenewLeases(msgspec.Struct, frozen=True):
    """Node: have the launcher count the leases of all attempts of a home from a later moment.

    A lease that is over when the launcher hears of it stays over; none is ever shortened.
    """

    home: str
    asked_steady_s: float


class SampleAttempts(msgspec.Struct, frozen=True):
    """Node: ask the launcher for the usage of running attempts."""


class WakeAt(msgspec.Struct, frozen=True):
    """Give this part a `Wake` at a moment of the steady clock.

    Each part has one alarm; a later request replaces an earlier one.
    """

    part: Part
    steady_s: float


class Timer:
    """The alarm of a part: requested only where no earlier one is set.

    It is never put off: an alarm that is too early costs a turn in which nothing is due.
    """

    def __init__(self, part: Part) -> None:
        self._part = part
        self._at_s: float | None = None

    def rang(self) -> None:
        """Note that the part was woken, so that a later alarm is requested again."""
        self._at_s = None

    def by(self, steady_s: float) -> list[WakeAt]:
        """Return the effect that wakes the part then; empty if it is woken no later already."""
        if self._at_s is not None and self._at_s <= steady_s:
            return []
        self._at_s = steady_s
        return [WakeAt(self._part, steady_s)]


class JobCompleted(msgspec.Struct, frozen=True):
    """Home: the last task of a job ended; answer those who wait for it."""

    number: int
    has_notice: bool = False
    """Whether its user asked for a notice; see `model.notice`."""


class WhyAnswered(msgspec.Struct, frozen=True):
    """Home: the answer of another machine's broker to why a job waits."""

    number: int
    reasons: tuple[Reason, ...]


class ReservationAnswered(msgspec.Struct, frozen=True):
    """Home: a reservation that was asked for is confirmed, or refused; answer who asked."""

    number: int
    is_confirmed: bool
    reasons: tuple[Reason, ...] = ()
    """Why it is refused."""
    earliest_wall_s: float | None = None
    """If it is refused: the earliest start that would do; None: none is known."""
    is_change: bool = False
    """Whether it is about a later version of one that stands."""


class ReservationNewsDue(msgspec.Struct, frozen=True):
    """Home: news of a reservation are stored, and its user is to be told."""

    number: int


class StepChanged(msgspec.Struct, frozen=True):
    """Home: a job step began, or is over; answer those who wait for it."""

    step: AttemptId
    user: str
    """Of its job."""
    is_over: bool


class MembersChanged(msgspec.Struct, frozen=True):
    """Membership: members that are new or changed, each in its current state."""

    members: tuple[Member, ...]


class EntriesChanged(msgspec.Struct, frozen=True):
    """Directory: entries were added, replaced or dropped."""

    entries: tuple[Entry, ...]
    """New verified entries."""
    gone: tuple[EntryKey, ...] = ()
    """Keys of entries that expired, or whose machine left."""


class PeerNoticed(msgspec.Struct, frozen=True):
    """Membership, directory and home: something for the log, and for `status`.

    Said the first time, and again each time that it has happened ten times as often.
    """

    code: str
    """Stable and short: `forged-entry`, `two-machines-one-name`, ..."""
    machine: str
    """The machine that caused it, or that it is about."""
    message: str
    """What happened, and what was done about it, for people."""
    count: int = 1


class PolicyFailed(msgspec.Struct, frozen=True):
    """Broker: a policy of one's own erred, and the built-in order goes on; for the log."""

    message: str
    """What it did, where, and what would do, in one line."""


class PeerBlocked(msgspec.Struct, frozen=True):
    """Directory: messages of a machine are ignored for a while; end the link with it."""

    machine: str
    reason: str
    for_s: float


class DocumentReceived(msgspec.Struct, frozen=True):
    """Cluster member: a verified document of an operator, to be stored and obeyed."""

    document: Entry


class Inquired(msgspec.Struct, frozen=True):
    """Inquiries: a question of another machine, for `Inquiries.answer`."""

    machine: str
    number: int
    """The asker's number."""
    version: int
    question: bytes


class InquiryOver(msgspec.Struct, frozen=True):
    """Inquiries: a question of this machine was answered, or its time is over."""

    number: int
    answer: bytes | None
    missing: str = ""
    """Why it was not asked; empty if it was, and no answer came in time."""


Effect = (
    Send
    | Persist
    | LaunchAttempt
    | LaunchStep
    | TerminateAttempt
    | FreezeAttempt
    | OrderCycle
    | WatchOwner
    | ForgetAttempt
    | RenewLeases
    | SampleAttempts
    | WakeAt
    | JobCompleted
    | WhyAnswered
    | ReservationAnswered
    | ReservationNewsDue
    | StepChanged
    | MembersChanged
    | EntriesChanged
    | PeerNoticed
    | PolicyFailed
    | PeerBlocked
    | DocumentReceived
    | Inquired
    | InquiryOver
)


# --- events from outside -------------------------------------------------------------------------


class Wake(msgspec.Struct, frozen=True):
    """The alarm of a part went off."""

    part: Part


class Delivered(msgspec.Struct, frozen=True):
    """A message from a part of another machine arrived."""

    sender: str
    """The authenticated sender."""
    part: Part
    """The receiving part."""
    message: Message


class LinkUp(msgspec.Struct, frozen=True):
    """Another machine can be reached, for the first time or again.

    What was sent to it before may be lost; what it sent before has arrived, or never will.
    """

    machine: str


class LinkDown(msgspec.Struct, frozen=True):
    """Another machine cannot be reached any more; it may go on working."""

    machine: str


class PeersChanged(msgspec.Struct, frozen=True):
    """The present members of the cluster, this machine included; for the election."""

    peers: tuple[BrokerCandidate, ...]
    neighbours: tuple[ClusterPeer, ...] = ()
    """Each cluster of the site, its own included; empty or one if there is only one."""


class MachineForgotten(msgspec.Struct, frozen=True):
    """The directory keeps nothing of a machine any more: it left, was thrown out or is long gone.

    Whoever keeps a list by machine drops it there, or its lists would grow for ever.
    """

    machine: str


class UsageLearned(msgspec.Struct, frozen=True):
    """Counters of a machine in the directory, even if the machine has left."""

    machine: str
    rows: tuple[LedgerRow, ...]


class UsageForgotten(msgspec.Struct, frozen=True):
    """The directory keeps no counters of a machine any more: they are too old to count."""

    machine: str


class LauncherAttached(msgspec.Struct, frozen=True):
    """Node: a launcher is connected. `alive` are (attempt, wall time of start) that run."""

    alive: tuple[tuple[AttemptId, float], ...]
    steps: tuple[AttemptId, ...] = ()
    """Job steps that it runs, and those over, whose ends follow once their output is stored."""


class LauncherLost(msgspec.Struct, frozen=True):
    """Node: the launcher is not connected any more; its tasks may still run."""


class AttemptStarted(msgspec.Struct, frozen=True):
    """Node: the launcher started an attempt."""

    attempt: AttemptId
    started_wall_s: float


class AttemptFrozen(msgspec.Struct, frozen=True):
    """Node: the launcher froze or thawed an attempt, or keeps it frozen for other reasons."""

    attempt: AttemptId
    number: int
    """Of the last order that it has taken in."""
    reasons: Reasons
    """Those of that order; empty: it runs."""
    frozen_s: float
    """How long it was frozen in all, until then."""
    changed_steady_s: float
    """When that was."""
    is_complete: bool = True
    """Whether nothing of it runs any more; False: that was not reported in time."""


class AttemptExited(msgspec.Struct, frozen=True):
    """Node: an attempt ended, as the launcher saw it."""

    attempt: AttemptId
    cause: EndCause
    exit_code: int | None
    signal: int | None
    usage: Usage
    started_wall_s: float
    ended_wall_s: float
    elapsed_s: float
    message: str


class OwnerNoticed(msgspec.Struct, frozen=True):
    """Node: what the launcher has seen of the owner, by its standing order."""

    signs: int
    """How many signs there were since the launcher was started."""
    last: Signs
    """The last of each kind."""
    sensors: SensorStates


class OwnerSaid(msgspec.Struct, frozen=True):
    """Node: the owner's word, of which signs know nothing."""

    word: OwnerWord | None
    """None: signs count again."""
    for_s: float
    """How long it holds; infinite: until it is taken back."""
    vacates: bool = False
    """Whether tasks are to leave at once."""


class MachineSleeps(msgspec.Struct, frozen=True):
    """Node: the machine is about to sleep, or to be shut down."""

    within_s: float
    """How long that is put off for its tasks."""


class MachineWakes(msgspec.Struct, frozen=True):
    """Node: the machine has slept, or does not sleep after all."""


OwnerEvent = OwnerSaid | MachineSleeps | MachineWakes
"""What the driver of a machine with an owner tells its node, beside the launcher's events."""


class StepStarted(msgspec.Struct, frozen=True):
    """Node: the launcher started a job step."""

    step: AttemptId


class StepExited(msgspec.Struct, frozen=True):
    """Node: a job step ended, as the launcher saw it."""

    step: AttemptId
    cause: EndCause
    exit_code: int | None
    signal: int | None
    message: str


class AttemptsSampled(msgspec.Struct, frozen=True):
    """Node: the usage of running attempts."""

    samples: tuple[tuple[AttemptId, Usage], ...]


class PrologFailed(msgspec.Struct, frozen=True):
    """Node: the machine's prolog failed or took too long, so the attempt was not started."""

    attempt: AttemptId
    message: str


class LoadMeasured(msgspec.Struct, frozen=True):
    """Node: the load of its machine, each 10 s."""

    load_average: float
    """Over one minute, as the kernel counts it."""
    foreign_load: float
    """The part of it that is not caused by tasks of iriai."""
    keyboard_idle_s: float | None = None
    """Time since a terminal of the machine was used; None if that cannot be measured."""
    console_idle_s: float | None = None
    """The same of the terminals of its own keyboard."""


LauncherEvent = (
    LauncherAttached
    | LauncherLost
    | AttemptStarted
    | AttemptFrozen
    | OwnerNoticed
    | AttemptExited
    | StepStarted
    | StepExited
    | AttemptsSampled
    | PrologFailed
    | LoadMeasured
)
"""Events for the node alone: from its launcher and its sensors."""
