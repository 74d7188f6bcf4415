"""The turns of this machine's claims, as the broker tells them (docs/spec/013, section 6).

What stands gives its cpus to others, and keeps the rest. What takes turns runs in its rows of the
machine's cycle of time slices; the launcher switches, without a message. Whatever the broker says,
no row has more than there is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from iriai.model.claim import ClaimedTurn
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.records import ClaimStored
from iriai.model.resources import Resources
from iriai.model.suspension import SuspendReason
from iriai.model.turn import ALWAYS, Turn
from iriai.node.claims import Claims
from iriai.node.metering import HeldClaim
from iriai.node.offer_builder import OfferBuilder
from iriai.node.queues import NodeQueues
from iriai.node.suspended_claims import NodeSuspensions
from iriai.protocol.messages.effects import Effect, Persist
from iriai.protocol.messages.scheduling import Capability, ClaimTurn, Cycle, MatchTurn, Run

MATCHED_MAX = 4096
"""Turns of matches that are remembered: as many as there may be capabilities."""


class NodeCycle:
    """The turns in force."""

    def __init__(
        self,
        queues: NodeQueues,
        claims: Claims,
        suspensions: NodeSuspensions,
        report: OfferBuilder,
        effects: list[Effect],
    ) -> None:
        self._queues = queues
        self._claims = claims
        self._suspensions = suspensions
        self._report = report
        self._effects = effects
        self.quantum_s = 1.0
        self._matched: dict[Capability, MatchTurn] = {}
        self.has_changed = True
        """Whether the launcher may not know the turns in force."""
        self.handlers: dict[type, Callable[[Any, Instant], None]] = {Cycle: self._told}

    # --- what the broker tells -------------------------------------------------------------------

    def _told(self, cycle: Cycle, now: Instant) -> None:
        if cycle.number <= self._report.cycle:
            return
        self._report.cycle = cycle.number
        self._report.is_due = True
        self.has_changed |= self.quantum_s != cycle.quantum_s
        self.quantum_s = cycle.quantum_s
        self._matched = {each.capability: each for each in cycle.matched[:MATCHED_MAX]}
        told = {each.attempt: each for each in cycle.turns}
        wanted = self._clipped(told)
        for attempt, turn in wanted.items():
            if turn.mask == 0:
                is_stopped = attempt in told and told[attempt].is_stopped
                self._stand(attempt, is_stopped=is_stopped, now=now)
        for attempt, turn in wanted.items():
            held = self._claims.by_attempt[attempt]
            row = told[attempt].row if attempt in told else 0
            self._take_turn(held, turn, row, now)
        self._claims.settle_rows()
        for attempt, turn in wanted.items():
            if turn.mask:
                for reason in (SuspendReason.HIGHER_QUEUE, SuspendReason.STOPPED_QUEUE):
                    self._suspensions.give([attempt], reason, now, is_given=False)
        self._claims.settle_rows()
        for attempt, each in told.items():
            held_or_none = self._claims.by_attempt.get(attempt)
            if held_or_none is not None and wanted.get(attempt) != each.turn:
                self._report.changed(attempt)  # it is not as it was told

    def _clipped(self, told: dict[AttemptId, ClaimTurn]) -> dict[AttemptId, Turn]:
        """Return the turn of each claim that has one or stands, cut to what fits."""
        capacity = self._claims.calendar.capacity.cpus
        concerned: list[tuple[HeldClaim, Turn]] = []
        others_cpus = 0
        order = {attempt: place for place, attempt in enumerate(told)}
        for attempt, held in self._claims.by_attempt.items():
            if held.end is not None or held.claim.is_ahead:
                continue
            turn = told[attempt].turn if attempt in told else ALWAYS
            if turn == ALWAYS and held.claim.turn is None and not held.is_preempted:
                others_cpus += held.claim.kept.cpus
            else:
                concerned.append((held, turn))
        concerned.sort(key=lambda each: order.get(each[0].claim.attempt, -1))
        rows = max((turn.rows for _, turn in concerned), default=1)
        loads = [others_cpus] * rows
        clipped: dict[AttemptId, Turn] = {}
        for held, turn in concerned:
            cpus = held.wanted_cpus
            mask = turn.mask if turn.rows == rows else (1 << rows) - 1 if turn.is_whole else 0
            fitting = [
                row for row in range(rows) if mask >> row & 1 and loads[row] + cpus <= capacity
            ]
            if turn.is_whole and len(fitting) < rows:
                fitting = []
            for row in fitting:
                loads[row] += cpus
            kept = sum(1 << row for row in fitting)
            is_whole = kept == (1 << rows) - 1
            clipped[held.claim.attempt] = (
                ALWAYS if is_whole and turn == ALWAYS else Turn(rows if kept else 1, kept)
            )
        return clipped

    def _stand(self, attempt: AttemptId, *, is_stopped: bool, now: Instant) -> None:
        given, taken = SuspendReason.HIGHER_QUEUE, SuspendReason.STOPPED_QUEUE
        if is_stopped:
            given, taken = taken, given
        self._suspensions.give([attempt], given, now, is_given=True)
        self._suspensions.give([attempt], taken, now, is_given=False)

    def _take_turn(self, held: HeldClaim, turn: Turn, row: int, now: Instant) -> None:
        known = held.claim.turn
        before = ALWAYS if known is None else known.turn
        now_turn = before if turn.mask == 0 else turn
        if now_turn == before and (known is None or known.row == row or turn.mask == 0):
            return
        held.set_turn(now_turn, row, now.steady_s)
        self.has_changed = True
        self._claims.turn_changed(held, now)
        self._effects.append(Persist(ClaimStored(held.as_charged())))
        self._report.changed(held.claim.attempt)

    # --- claims that come ------------------------------------------------------------------------

    def turn_of(self, run: Run) -> ClaimedTurn | None:
        """Return the turn that the broker told for a claim that is to be made; None: always."""
        matched = None if run.capability is None else self._matched.get(run.capability)
        if matched is None or (matched.turn == ALWAYS and not matched.row):
            return None
        return ClaimedTurn(matched.turn, matched.row)

    def room_for(self, run: Run) -> Resources:
        """Return what is free for a claim that is to be made, in the rows of its turn."""
        free, turn = self._claims.calendar.free, self.turn_of(run)
        return free if turn is None else replace(free, cpus=self._claims.free_in(turn.turn))

    @property
    def offered_cpus(self) -> int:
        """Return the cpus that a broker may give to others although claims hold them."""
        modes = self._queues.modes
        if not modes:
            return 0
        return sum(
            held.claim.resources.cpus
            for held in self._claims.by_attempt.values()
            if held.claim.queue in modes and held.end is None and not held.is_preempted
        )
