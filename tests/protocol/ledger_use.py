"""What a ledger knows of each account's use, over all machines."""

from __future__ import annotations

from iriai.model.ids import Account
from iriai.protocol.ledger.ledger import Ledger


def use_of(ledger: Ledger, wall_s: float) -> dict[Account, float]:
    """Return the use of each account at a time, in charged seconds."""
    found: dict[Account, float] = {}
    for known in ledger.machines.values():
        for account, counter in known.by_account.items():
            found[account] = found.get(account, 0.0) + counter.at(wall_s)
    return found
