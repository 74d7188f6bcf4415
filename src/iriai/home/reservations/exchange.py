"""What is under way for one reservation between its home, the broker and nodes.

Nothing of it is stored: a home that comes back has none, and begins from the stored state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from iriai.model.backoff import pause_s
from iriai.model.claim import Phase
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.reservation import Reservation, ReservationState, ReservationTerms

HOLD_PART = 0.9
"""Part of the time for which nodes hold it, by the home's count: its clock may be slower than
theirs, and its count begins when it asks (docs/adr/0011)."""
SEEK_S = 1.0
"""How often the broker, and nodes that are to hold it, are asked again."""
AGAIN_FIRST_S = 2.0
"""Before nodes that are to confirm or to free it are asked again for the first time."""
AGAIN_MAX_S = 300.0
TAKEN_MAX = 3
"""How often a machine refuses for another booking before it is not asked again. Two who want the
same machines at once may each hold some of them: both are refused, and one has them in a next try.
"""
CONFIRM_S = 60.0
"""How long nodes have to confirm, from the decision or a restart of the home. Longer: whoever asked
waits, and the others keep their time free, for a machine that does not answer."""


@dataclass(slots=True)
class Exchange:
    """Times are of the steady clock; `inf`: not at all."""

    asked: ReservationTerms
    """The terms as they were asked for: the start is not one that was offered."""
    is_awaited: bool = False
    """Whether somebody waits for the answer, so that it may be tried again."""
    replaced: tuple[str, ...] = ()
    """The lost nodes for which others are sought; none: it is something that somebody asked for."""
    is_sought: bool = False
    """Whether the broker was asked since the last try."""
    tries: int = 1
    refusals: dict[str, Reason] = field(default_factory=dict)
    """Why machines refused it last, of all tries."""
    taken: dict[str, int] = field(default_factory=dict)
    """How often those that may be asked again refused it for another booking."""
    phases: dict[str, int] = field(default_factory=dict)
    """How far machines have told that they have it, of this try."""
    confirmed: int = 0
    """How many of them have told that it is confirmed."""
    give_up_s: float = inf
    """When the try is given up: the home's count of the hold ends, or nodes did not confirm."""
    send_s: float = inf
    """When what has not been answered is sent again, or a pause is over."""
    sent: int = 0
    """How often nodes were asked to confirm."""
    free_s: float = inf
    """When machines that have not freed it are told again."""
    freed: int = 0
    """How often they were."""
    free: dict[str, None] = field(default_factory=dict)
    """Those of `unanswered` that have freed it since that was stored."""

    @property
    def next_s(self) -> float:
        """When something is due."""
        return min(self.send_s, self.give_up_s, self.free_s)

    def begin_try(self, pause_until_s: float) -> None:
        """Begin another try after a pause; what was told in the last one no longer counts."""
        self.tries += 1
        self.is_sought = False
        self.phases.clear()
        self.confirmed = self.sent = 0
        self.give_up_s, self.send_s = inf, pause_until_s

    def refuses(self, machine: str, reason: Reason) -> None:
        """Note that a machine refused it."""
        count = self.taken.pop(machine, 0 if machine not in self.refusals else TAKEN_MAX) + 1
        self.refusals[machine] = reason
        if reason.rule is Rule.RESERVED_AHEAD and count < TAKEN_MAX:
            self.taken[machine] = count

    @property
    def unsuitable(self) -> list[str]:
        """Return the machines that are not to be asked again."""
        return [each for each in self.refusals if each not in self.taken]

    def end_try(self) -> None:
        """Ask nobody to have it any more."""
        self.is_sought = self.is_awaited = False
        self.give_up_s = self.send_s = inf

    def holds(self, hold_s: float, now: Instant) -> None:
        """Note that nodes are asked now to hold it for so long."""
        self.give_up_s = now.steady_s + hold_s * HOLD_PART
        self.send_s = now.steady_s + SEEK_S

    def decides(self, now: Instant) -> None:
        """Note that it is decided from now on, or again after a restart."""
        self.give_up_s = now.steady_s + CONFIRM_S
        self.sent = 0
        self.asks_to_confirm(now)

    def asks_to_confirm(self, now: Instant) -> None:
        """Note that nodes are asked to confirm now."""
        self.send_s = now.steady_s + pause_s(self.sent, AGAIN_FIRST_S, AGAIN_MAX_S)
        self.sent += 1

    def asks_to_free(self, now: Instant) -> None:
        """Note that nodes are asked to free it now."""
        self.free_s = now.steady_s + pause_s(self.freed, AGAIN_FIRST_S, AGAIN_MAX_S)
        self.freed += 1

    def has_told(self, machine: str, phase: Phase) -> None:
        """Note how far one of its nodes has it; phases only rise."""
        before = self.phases.get(machine, 0)
        self.phases[machine] = max(phase, before)
        self.confirmed += before < Phase.CONFIRMED <= phase

    def lacking(self, reservation: Reservation) -> list[str]:
        """Return the nodes that have not told what they were asked last, in order."""
        is_decided = reservation.state is ReservationState.DECIDING
        phase = Phase.CONFIRMED if is_decided else Phase.HELD
        return [each for each in reservation.nodes if self.phases.get(each, 0) < phase]

    def left(self, reservation: Reservation) -> tuple[str, ...]:
        """Return the machines that have not freed it yet, in order."""
        if not self.free:
            return reservation.unanswered
        return tuple([each for each in reservation.unanswered if each not in self.free])
