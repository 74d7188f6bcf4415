"""What a broker is told of this machine: gathered while events are handled, said once a turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from iriai.model.ad import MachineAd
from iriai.model.ids import AttemptId
from iriai.model.reason import Reason
from iriai.model.records import LedgerRow
from iriai.model.resources import Resources
from iriai.node.availability import Load
from iriai.protocol.messages.scheduling import (
    Capability,
    Charging,
    Counted,
    FailedAtOnce,
    Idle,
    Running,
    TurnedAway,
)

OUTSTANDING_MAX = 4096
"""More at once than any machine has cpus; it bounds what a broker must hold for one node."""


class Capabilities:
    """Those that this node has given out and not yet seen again.

    There are as many as could be used at once. A capability that comes back is accepted once;
    whether the resources are still free is checked then: a stale one costs a refusal, never a
    double booking.
    """

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


AHEAD_MAX = 16
"""So many tasks may be under way at once to wait here. Each is so for some hundredths of a second,
so that it is enough for some hundred tasks that begin within each second."""


class OfferBuilder:
    """The next report, as far as it is known."""

    def __init__(
        self,
        machine: str,
        capacity: Resources,
        speed: float,
        capabilities: Capabilities,
        ahead: Capabilities,
        load: Load,
        ad: MachineAd | None,
    ) -> None:
        self._machine = machine
        self._capacity = capacity
        self._speed = speed
        self._capabilities = capabilities
        self._ahead = ahead
        """For what may wait here for a place."""
        self._load = load
        self._ad = ad
        self.version = 0
        """Of the last report."""
        self.is_due = True
        """Whether something changed that a broker must know."""
        self.is_whole = True
        """Whether the broker is new, so that it must be told all."""
        self.rules = 0
        """How often it became another whose tasks are run."""
        self._began: list[AttemptId] = []
        self._waiting: list[AttemptId] = []
        self._ended: list[AttemptId] = []
        self._lost: list[AttemptId] = []
        self._failed: list[FailedAtOnce] = []
        self._refused: list[AttemptId] = []
        self._spent: list[Capability] = []
        self._turned_away: list[TurnedAway] = []
        self._charged: dict[AttemptId, float] = {}

    def begin_anew(self) -> None:
        """The broker is new, or may not have heard what it was told."""
        self.is_due = self.is_whole = True

    def began(self, attempt: AttemptId) -> None:
        """A claim was granted."""
        self._began.append(attempt)
        self.is_due = True

    def waits(self, attempt: AttemptId) -> None:
        """A claim was granted ahead."""
        self._waiting.append(attempt)
        self.is_due = True

    def ended(self, attempt: AttemptId) -> None:
        """A claim is over."""
        self._ended.append(attempt)
        self.is_due = True

    def lost_at_once(self, attempt: AttemptId) -> None:
        """Of one that ended: nothing came of it, and nobody asked for its end."""
        self._lost.append(attempt)

    def failed_at_once(self, attempt: AttemptId, exit_code: int | None) -> None:
        """Of one that ended: it failed by itself, before it did anything to speak of."""
        self._failed.append(FailedAtOnce(attempt, exit_code))

    def refused(self, attempt: AttemptId) -> None:
        """Of one that ended: it never started."""
        self._refused.append(attempt)

    def spent(self, capability: Capability) -> None:
        """A capability came back."""
        self._spent.append(capability)
        self.is_due = True

    def turned_away(self, whose: TurnedAway) -> None:
        """Of a capability that came back: its claim was refused because of whose it was."""
        self._turned_away.append(whose)

    def charged(self, attempt: AttemptId, charge_s: float) -> None:
        """So much of a running attempt has been charged."""
        self._charged[attempt] = charge_s

    @property
    def has_charges(self) -> bool:
        """Whether running attempts were charged since the counters were told."""
        return bool(self._charged)

    def counted(self, rows: tuple[LedgerRow, ...]) -> Counted:
        """The counters that changed (of a whole report: all), and what running attempts cost."""
        charged, self._charged = self._charged, {}
        return Counted(self._machine, rows, tuple(charged.items()))

    def idle(
        self,
        free: Resources,
        live: Iterable[AttemptId],
        running: Callable[[AttemptId], Running | None],
        waiting: Sequence[AttemptId],
        unavailable: Reason | None,
        charging: Charging,
        now_s: float,
    ) -> Idle:
        """The report; `live` hold a claim, `running` describes one of them (None: it is over).

        `waiting` are those of `live` that were granted ahead.
        """
        self.version += 1
        minted = self._capabilities.mint(max(0, free.cpus), self.version, now_s)
        runs = min(AHEAD_MAX, self._capacity.cpus - free.cpus) - len(waiting)
        ahead = self._ahead.mint(max(0, runs), self.version, now_s)
        whose = live if self.is_whole else self._began
        described = [running(attempt) for attempt in whose if attempt not in waiting]
        waits = waiting if self.is_whole else [each for each in self._waiting if each in waiting]
        idle = Idle(
            self._machine,
            self._capabilities.incarnation,
            self.version,
            self._capacity,
            self._capabilities.outstanding() if self.is_whole else minted,
            tuple(self._spent),
            tuple(each for each in described if each is not None),
            tuple(self._ended),
            self.is_whole,
            unavailable,
            self._speed,
            self._load.average,
            self._load.foreign,
            self._load.is_known,
            tuple(self._lost),
            tuple(self._refused),
            charging if self.is_whole else None,
            self._ad if self.is_whole else None,
            self._load.keyboard_idle_s,
            tuple(self._turned_away),
            self._ahead.outstanding() if self.is_whole else ahead,
            tuple(each for each in map(running, waits) if each is not None),
            tuple(self._failed),
            self.rules,
        )
        self._began, self._ended, self._spent = [], [], []
        self._lost, self._failed, self._refused, self._waiting = [], [], [], []
        self._turned_away = []
        self.is_due = self.is_whole = False
        return idle
