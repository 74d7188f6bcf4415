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
from iriai.model.reason import Reason
from iriai.model.records import LedgerRow, Record
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.protocol.messages.candidates import BrokerCandidate, ClusterPeer
from iriai.protocol.messages.entries import Entry, EntryKey
from iriai.protocol.messages.members import Member
from iriai.protocol.messages.scheduling import Message


class Part(StrEnum):
    """The parts of a machine, as messages name them."""

    NODE = "node"
    HOME = "home"
    BROKER = "broker"
    MEMBERSHIP = "membership"
    """Who is there; every machine of a cluster has it, and a directory."""
    DIRECTORY = "directory"
    """What machines publish."""
    SUCCESSION = "succession"
    """Knows which machine is the broker; see protocol.succession."""
    INQUIRY = "inquiry"
    """Asks other machines what only they know; see protocol.inquiries."""
    OUTPUT = "output"
    """Brings what tasks print to their home; the daemon's, no core's."""


# --- effects -------------------------------------------------------------------------------------


class Send(msgspec.Struct, frozen=True):
    """Deliver a message to a part of a machine."""

    machine: str
    """Empty: this one, or for a broker the one that this machine follows."""
    part: Part
    message: Message


class Persist(msgspec.Struct, frozen=True):
    """Keep a record. What is not urgent may ride with the next that is."""

    record: Record
    urgent: bool = True


class LaunchAttempt(msgspec.Struct, frozen=True):
    """Node: have the launcher start this attempt."""

    attempt: AttemptId
    spec: JobSpec
    gpu_ids: tuple[int, ...]
    lease_s: float | None = None
    """How long it may run without renewal; the launcher ends it by itself. None: no lease."""
    leased_steady_s: float = 0.0
    """When the lease began, on the steady clock. One that is over is not started: it is lost."""


class TerminateAttempt(msgspec.Struct, frozen=True):
    """Node: have the launcher end this attempt."""

    attempt: AttemptId
    cause: EndCause
    grace_s: float


class ForgetAttempt(msgspec.Struct, frozen=True):
    """Node: the launcher may drop what it knows of this attempt."""

    attempt: AttemptId


class RenewLeases(msgspec.Struct, frozen=True):
    """Node: have the launcher count the leases of all attempts of a home from a later moment.

    A lease that is over when the launcher hears of it stays over; none is ever shortened.
    """

    home: str
    asked_steady_s: float


class SampleAttempts(msgspec.Struct, frozen=True):
    """Node: ask the launcher what running attempts have used so far."""


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
    """Home: the last task of a job ended; whoever waits for it may be told."""

    number: int
    has_notice: bool = False
    """Whether its user wants to be told as well; see model.notice."""


class WhyAnswered(msgspec.Struct, frozen=True):
    """Home: the broker of another machine says why a job waits, for whoever asked."""

    number: int
    reasons: tuple[Reason, ...]


class MembersChanged(msgspec.Struct, frozen=True):
    """Membership: members that are new or changed, each in its current state."""

    members: tuple[Member, ...]


class EntriesChanged(msgspec.Struct, frozen=True):
    """Directory: entries came, were replaced, or are gone."""

    entries: tuple[Entry, ...]
    """New ones, verified."""
    gone: tuple[EntryKey, ...] = ()
    """Over their lifetime, or of a machine that left."""


class PeerNoticed(msgspec.Struct, frozen=True):
    """Membership, directory and home: something for the log, and for `status`.

    Said the first time, and again each time that it has happened ten times as often.
    """

    code: str
    """Stable and short: `forged-entry`, `two-machines-one-name`, ..."""
    machine: str
    """Whose doing it is, or whom it is about."""
    message: str
    """For people: what it was, and what was done about it."""
    count: int = 1


class PeerBlocked(msgspec.Struct, frozen=True):
    """Directory: nothing of a machine is heard for a while; end the link with it."""

    machine: str
    reason: str
    for_s: float


class Inquired(msgspec.Struct, frozen=True):
    """Inquiries: another machine wants to know something of this one. See `Inquiries.answer`."""

    machine: str
    number: int
    """Its own."""
    version: int
    question: bytes


class InquiryOver(msgspec.Struct, frozen=True):
    """Inquiries: a question of this machine was answered, or will not be."""

    number: int
    answer: bytes | None
    missing: str = ""
    """Why it was not even asked; empty: it was, and nobody answered in time."""


Effect = (
    Send
    | Persist
    | LaunchAttempt
    | TerminateAttempt
    | ForgetAttempt
    | RenewLeases
    | SampleAttempts
    | WakeAt
    | JobCompleted
    | WhyAnswered
    | MembersChanged
    | EntriesChanged
    | PeerNoticed
    | PeerBlocked
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
    """The machine that it came from, as its link proved."""
    part: Part
    """Whom it is for."""
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
    """Who of the cluster is there now, this machine among them; where its broker is elected."""

    peers: tuple[BrokerCandidate, ...]
    neighbours: tuple[ClusterPeer, ...] = ()
    """Each cluster of the site, its own among them; empty, or that one alone: there is only one."""


class MachineForgotten(msgspec.Struct, frozen=True):
    """The directory keeps nothing of a machine any more: it left, was thrown out or is long gone.

    Whoever keeps a list by machine drops it there, or its lists would grow for ever.
    """

    machine: str


class UsageLearned(msgspec.Struct, frozen=True):
    """Counters of a machine, as the directory has them, even if the machine is gone."""

    machine: str
    rows: tuple[LedgerRow, ...]


class UsageForgotten(msgspec.Struct, frozen=True):
    """The directory keeps no counters of a machine any more: they are too old to count."""

    machine: str


class LauncherAttached(msgspec.Struct, frozen=True):
    """Node: a launcher answers. `alive` run now, (attempt, wall time of their start) each."""

    alive: tuple[tuple[AttemptId, float], ...]


class LauncherLost(msgspec.Struct, frozen=True):
    """Node: the launcher went away; its tasks may still run."""


class AttemptStarted(msgspec.Struct, frozen=True):
    """Node: the launcher started an attempt."""

    attempt: AttemptId
    started_wall_s: float


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


class AttemptsSampled(msgspec.Struct, frozen=True):
    """Node: use so far of the attempts that run."""

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
    """The part of it that is not of our tasks."""
    keyboard_idle_s: float | None = None
    """Since someone last used a terminal of the machine; None: that cannot be seen."""


LauncherEvent = (
    LauncherAttached
    | LauncherLost
    | AttemptStarted
    | AttemptExited
    | AttemptsSampled
    | PrologFailed
    | LoadMeasured
)
"""What concerns the node alone: its launcher and its sensors."""
