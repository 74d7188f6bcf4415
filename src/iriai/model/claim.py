"""Claims: requests for resources of a machine, and the machine's durable grants."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec

from iriai.model.bounds import Amount, QueueIndex
from iriai.model.charge_factors import Factors
from iriai.model.ids import Account, AttemptId, ReservationId
from iriai.model.job import ExitCode
from iriai.model.ranks import RankCount
from iriai.model.resources import Resources
from iriai.model.suspension import StoredSuspension
from iriai.model.turn import RowCount, RowIndex, RowSet

HOLD_S = 10.0
"""How long a machine holds a claim that its home has not confirmed, unless the home asks for
another time."""
HOLD_MAX_S = 600.0
HoldTime = Annotated[float, msgspec.Meta(gt=0.0, le=HOLD_MAX_S)]


class Phase(IntEnum):
    """How far a claim is (docs/spec/011, section 5). Phases only rise."""

    HELD = 1
    """Resources are reserved and nothing is started; it ends by itself, soon."""
    CONFIRMED = 2
    """Its home has decided that its attempt runs; nothing is started."""
    STARTED = 3
    """The launcher may have the order to start it."""


class ClaimedTurn(msgspec.Struct, frozen=True, omit_defaults=True):
    """The turn of a claim in time slices, and for how long it stood for that."""

    turn: RowSet
    row: RowIndex = 0
    """Its own row."""
    quantum_s: Amount = 1.0
    """The length of a time slice."""
    mark_s: Amount = 0.0
    """For how long it was not suspended when it got this turn."""
    out_of_turn_s: Amount = 0.0
    """For how long of that it was not its turn."""


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """Resources granted to one seat of an attempt on one machine, until it ends."""

    attempt: AttemptId
    account: Account
    user: str
    resources: Resources
    limit_s: float | None
    """Wall time after which the launcher ends the attempt; None: open."""
    urgency: float
    granted_wall_s: float
    gpu_ids: tuple[int, ...] = ()
    boot_id: str = ""
    """The boot in which it was granted: in a later one its processes cannot be alive."""
    grace_s: float = 0.0
    """The time beyond its limit that the attempt may take to end."""
    charged_s: float = 0.0
    """The charge of its account for it while it ran; see `LedgerRow`."""
    lease_s: float | None = None
    """The time that the attempt goes on without contact with its home. None: it shares its home's
    fate."""
    metered_s: float = 0.0
    """The charge with all of its time at peak."""
    factors: Factors = ()
    """The factors of the charges of its time, in order."""
    is_ahead: bool = False
    """True if it waits for others to end, holds nothing yet, and has not been started."""
    ranks: RankCount = 1
    """Of the seat."""
    phase: Phase = Phase.STARTED
    held_until_wall_s: float = 0.0
    """When it ends by itself while it is held."""
    port: int = 0
    """One that was free there when it was confirmed, for the ranks of all seats to meet; 0: none.
    """
    suspension: StoredSuspension | None = None
    """None: it was never suspended."""
    queue: QueueIndex = 0
    """The queue that it is in now."""
    resided_from_s: float = 0.0
    """For how long it had run when it came into that queue."""
    parts: RowCount = 1
    """It may take turns with others, and run for one part of the time of so many."""
    turn: ClaimedTurn | None = None
    """None: it runs all of the time, unless it is suspended."""
    no_suspend: bool = False
    """True if it is vacated where it would be suspended for the owner of the machine."""
    checkpoint_exit: ExitCode | None = None
    """The exit code with which the task says that it has saved itself."""
    is_for_owner: bool = False
    """True if its machine ends it for its owner: what that destroys is returned."""
    refunded_s: float = 0.0
    """What was returned of its charge."""
    gone_by_wall_s: float | None = None
    """By when it has to be gone, evicted for a booking that starts then; None: it need not."""
    reservation: ReservationId | None = None
    """In whose booking it runs; None: in none."""

    @property
    def kept(self) -> Resources:
        """What it holds: not the cpus that are free for others while it is suspended."""
        if self.suspension is None:
            return self.resources
        if self.suspension.is_preempted:
            return self.resources.minus(Resources(cpus=self.resources.cpus))
        if not self.suspension.freed_cpus:
            return self.resources
        return self.resources.minus(Resources(cpus=self.suspension.freed_cpus))
