"""What attempts cost on this machine, counted into its ledger slice by slice."""

from __future__ import annotations

from iriai.model.instant import Instant
from iriai.node.held import Held
from iriai.node.ledger import Ledger
from iriai.policy.fairshare import ChargeRule, charge

SLICE_S = 10.0
"""Running tasks are charged each slice, so that a draw knows of long ones while they run."""


class Meter:
    """Charges claims to their accounts."""

    def __init__(self, rule: ChargeRule, speed: float, ledger: Ledger) -> None:
        self._rule = rule
        self._speed = speed
        self._ledger = ledger

    def read(self, held: Held, ran_s: float, cpu_s: float, now: Instant) -> None:
        """The attempt has run so long and used so much in all: count what was not counted yet."""
        whole_s = charge(
            held.claim.resources,
            ran_s,
            cpu_s,
            self._rule,
            speed=self._speed,
            urgency=held.claim.urgency,
        )
        more_s = max(0.0, whole_s - held.charged_s)
        if more_s:
            held.charged_s += more_s
            self._ledger.add(held.claim.account, more_s, now.wall_s)
