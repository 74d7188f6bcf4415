"""Capabilities: a node's word, given in advance, that it will look at one claim.

There are as many as could be used at once. A capability that comes back is accepted once; whether
the resources are still free is checked then: a stale one costs a refusal, never a double booking.
"""

from __future__ import annotations

from random import Random

from iriai.protocol.messages.scheduling import Capability

OUTSTANDING_MAX = 4096
"""More at once than any machine has cpus; it bounds what a broker must hold for one node."""


class Capabilities:
    """Those that this node has given out and not yet seen again."""

    def __init__(self, incarnation: int, rng: Random) -> None:
        self.incarnation = incarnation
        self._rng = rng
        self._outstanding: dict[int, Capability] = {}
        self._minted_s: dict[int, float] = {}
        self._next_slot = 0

    def __len__(self) -> int:
        return len(self._outstanding)

    def outstanding(self) -> tuple[Capability, ...]:
        """All that may still come back, oldest first."""
        return tuple(self._outstanding.values())

    def mint(self, wanted: int, version: int, now_s: float) -> tuple[Capability, ...]:
        """New ones until `wanted` are outstanding."""
        minted = []
        for _ in range(min(wanted, OUTSTANDING_MAX) - len(self._outstanding)):
            slot = self._next_slot
            self._next_slot += 1
            capability = Capability(self.incarnation, version, slot, self._rng.getrandbits(63))
            self._outstanding[slot] = capability
            self._minted_s[slot] = now_s
            minted.append(capability)
        return tuple(minted)

    def redeem(self, capability: Capability) -> float | None:
        """When this node minted it; None: it did not, or has seen it before."""
        if self._outstanding.get(capability.slot) != capability:
            return None
        del self._outstanding[capability.slot]
        return self._minted_s.pop(capability.slot)

    def void(self) -> tuple[Capability, ...]:
        """From now on none is good that was given out so far; returns them."""
        voided = self.outstanding()
        self._outstanding.clear()
        self._minted_s.clear()
        return voided
