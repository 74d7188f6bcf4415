"""Claims: requests for resources of a machine, and the machine's durable grants."""

from __future__ import annotations

import msgspec

from iriai.model.charge_factors import Factors
from iriai.model.ids import Account, AttemptId
from iriai.model.resources import Resources


class Claim(msgspec.Struct, frozen=True):
    """Resources granted to one attempt on one machine, until it ends."""

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
