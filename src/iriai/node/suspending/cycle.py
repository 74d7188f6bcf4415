"""The turns of this machine's claims, as the broker tells them (docs/spec/013, section 9).

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
from iriai.model.resources import Resources
from iriai.model.suspension import SuspendReason
from iriai.model.time_slices import SliceTurn
from iriai.model.turn import ALWAYS, NEVER, RowSet
from iriai.node.metering import HeldClaim
from iriai.node.suspending.suspended_claims import QueueParts
from iriai.protocol.clock_offset import Estimate
from iriai.protocol.messages.effects import OrderCycle
from iriai.protocol.messages.scheduling import Capability, ClaimTurn, Cycle, MatchTurn, Run

LOOKS_AGAIN_S = 30.0
"""How often the phase of slices is compared with the broker's clock: of clocks that drift apart by
50 ppm, 1.5 ms."""
LOOK_MIN_S = 1.0
"""How soon a clock that is not known yet is looked at again; twice as late each time."""
PHASE_SLACK_S = 0.0005
"""A difference that is not worth an order."""
ERROR_PART_MAX = 0.1
"""How wrong a clock may be, as a part of the time slice: gangs would not run together."""
MATCHED_MAX = 4096
"""Turns of matches that are remembered: as many as there may be capabilities."""


class NodeCycle:
    """The turns in force."""

    def __init__(self, parts: QueueParts) -> None:
        self._parts = parts
        self.queues, self._claims, self._suspensions, self._report, self._effects = parts
        self.quantum_s = self.queues.quantum_s
        self.clock_of_broker: Callable[[], Estimate | None] = lambda: None
        """Returns the broker's wall clock minus this machine's: slices begin by that one's."""
        self.next_s: float | None = None
        """When the phase is to be compared with that clock again; None: nothing takes turns."""
        self.next_look_s: float | None = None
        """When that clock is looked at again; None: it is known."""
        self._look_s = LOOK_MIN_S
        self.matched: dict[Capability, MatchTurn] = {}
        """The turns of claims that are about to be made."""
        self._ordered: OrderCycle | None = None
        """What the launcher was told; None: it may know nothing, or what an earlier daemon told."""
        self._number = 0
        """Of the last order."""
        self._was_attached = False
        """Whether a launcher has said since when the claims run that were found in the store."""
        self._early: Cycle | None = None
        """What was told before that: for how long each was out of turn cannot be counted yet."""
        self.handlers: dict[type, Callable[[Any, Instant], None]] = {Cycle: self._told}

    # --- what the broker tells -------------------------------------------------------------------

    def _told(self, cycle: Cycle, now: Instant) -> None:
        if cycle.number <= self._report.cycle:
            return
        if self._claims.turns and not self._was_attached:
            if self._early is None or cycle.number > self._early.number:
                self._early = cycle
            return
        self._report.cycle = cycle.number
        self._report.is_due = True
        self.quantum_s = cycle.quantum_s
        self.matched = {
            each.capability: each if each.turn.is_of_its_rows else each._replace(turn=NEVER)
            for each in cycle.matched[:MATCHED_MAX]
        }
        told = {each.attempt: each for each in cycle.turns if not self._is_inside(each.attempt)}
        for attempt, held in self._claims.by_attempt.items() if self.matched else ():
            matched = None if held.capability is None else self.matched.get(held.capability)
            if matched is not None and attempt not in told:  # its claim was made in between
                told[attempt] = ClaimTurn(attempt, matched.turn, matched.row)
        wanted = self._clipped(told)
        for attempt, turn in wanted.items():
            if turn.mask == 0:
                is_stopped = attempt in told and told[attempt].is_stopped
                self._stand(attempt, is_stopped=is_stopped, now=now)
        for attempt, turn in wanted.items():
            held = self._claims.by_attempt[attempt]
            row = told[attempt].row if attempt in told else 0
            self._take_turn(held, turn, row, now)
        for attempt, held in self._claims.waiting.items():  # they take it once they begin
            each = told.get(attempt, ClaimTurn(attempt, ALWAYS))
            self._take_turn(held, each.turn, each.row, now)
        self._claims.settle_rows()
        for attempt, turn in wanted.items():
            if turn.mask:
                for reason in (SuspendReason.HIGHER_QUEUE, SuspendReason.STOPPED_QUEUE):
                    self._suspensions.give([attempt], reason, now, is_given=False)
        self._claims.settle_rows()
        for attempt, turn in wanted.items():
            if turn != (told[attempt].turn if attempt in told else ALWAYS):
                self._report.changed(attempt)  # it is not as it was told

    def _clipped(self, told: dict[AttemptId, ClaimTurn]) -> dict[AttemptId, RowSet]:
        """Return the turn of each claim that has one or stands, cut to what fits."""
        calendar = self._claims.calendar
        opened = (span.resources.cpus for span in calendar.bookings if span.is_open)
        capacity = calendar.capacity.cpus - sum(opened)
        concerned: list[tuple[HeldClaim, RowSet]] = []
        ending: list[HeldClaim] = []
        others_cpus = 0
        order = {attempt: place for place, attempt in enumerate(told)}
        for attempt, held in self._claims.by_attempt.items():
            if held.end is not None or held.claim.is_ahead or held.claim.reservation is not None:
                continue
            turn = told[attempt].turn if attempt in told else ALWAYS
            if held.stop is not None and not held.is_preempted:
                ending.append(held)  # it is frozen no more, and keeps its turn to its end
                if turn.mask == 0:
                    self._report.changed(attempt)
            elif turn == ALWAYS and held.claim.turn is None and not held.is_preempted:
                others_cpus += held.claim.kept.cpus
            else:
                concerned.append((held, turn))
        concerned.sort(key=lambda each: order.get(each[0].claim.attempt, -1))
        rows = max((turn.rows for _, turn in concerned), default=1)
        loads = [others_cpus] * rows
        for held in ending:
            mask = held.turn.mask if held.turn.rows == rows else (1 << rows) - 1
            for row in range(rows):
                loads[row] += held.wanted_cpus * (mask >> row & 1)
        clipped: dict[AttemptId, RowSet] = {}
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
                ALWAYS if is_whole and turn == ALWAYS else RowSet(rows if kept else 1, kept)
            )
        return clipped

    def _is_inside(self, attempt: AttemptId) -> bool:
        """Return whether an attempt runs in a booking, where nothing takes turns."""
        held = self._claims.by_attempt.get(attempt)
        return held is not None and held.claim.reservation is not None

    def _stand(self, attempt: AttemptId, *, is_stopped: bool, now: Instant) -> None:
        given, taken = SuspendReason.HIGHER_QUEUE, SuspendReason.STOPPED_QUEUE
        if is_stopped:
            given, taken = taken, given
        self._suspensions.give([attempt], given, now, is_given=True)
        self._suspensions.give([attempt], taken, now, is_given=False)

    def _take_turn(self, held: HeldClaim, turn: RowSet, row: int, now: Instant) -> None:
        known = held.claim.turn
        before = ALWAYS if known is None else known.turn
        now_turn = before if turn.mask == 0 else turn
        if now_turn == before and (known is None or known.row == row or turn.mask == 0):
            return
        held.set_turn(now_turn, row, self.quantum_s, now.steady_s)
        self._claims.turn_changed(held, now)
        self._parts.changed(held)

    # --- the launcher ----------------------------------------------------------------------------

    def launcher_attached(self, now: Instant) -> None:
        """Note that a launcher came, which has said what runs, and may know no turns."""
        self._ordered, self._was_attached = None, True
        early, self._early = self._early, None
        if early is not None:
            self._told(early, now)

    def order(self, now: Instant) -> None:
        """Have the launcher switch between what takes turns; nothing if it does so already."""
        turning = [
            held
            for held in self._claims.turns.values()
            if held.end is None and not held.turn.is_whole
        ]
        # What stands, and what is being ended, has a turn of the cycle as it was then.
        takes_turns = (held for held in turning if held.stop is None and not held.is_preempted)
        counting = list(takes_turns) or turning
        rows = max((held.turn.rows for held in counting), default=0)
        turns = [(h.claim.attempt, h.turn.mask) for h in turning if h.turn.rows == rows]
        if not turns:
            self.next_s = None
            if self._ordered is not None and not self._ordered.turns:
                return
        masks = tuple(SliceTurn(attempt, mask) for attempt, mask in turns)
        known = self._ordered
        row_0_s = self._row_0_s(rows, now)
        is_same = known is not None and (known.quantum_s, known.rows, known.turns) == (
            self.quantum_s,
            rows,
            masks,
        )
        if turns:
            self.next_s = now.steady_s + LOOKS_AGAIN_S
        if is_same and known is not None and rows:
            period_s = self.quantum_s * rows
            drift_s = (row_0_s - known.row_0_steady_s) % period_s
            if min(drift_s, period_s - drift_s) <= PHASE_SLACK_S:
                return
        self._number = max(int(now.steady_s * 1000), self._number + 1)  # above an earlier daemon's
        self._ordered = OrderCycle(self._number, self.quantum_s, rows, row_0_s, masks)
        self._effects.append(self._ordered)

    def _row_0_s(self, rows: int, now: Instant) -> float:
        """Return when a row 0 began, on the steady clock: cycles begin with the broker's epoch."""
        estimate = self.clock_of_broker()
        offset_s = 0.0 if estimate is None else estimate.offset_s
        return now.steady_s - (now.wall_s + offset_s) % (self.quantum_s * max(1, rows))

    def see_to_clock(self, now_s: float) -> None:
        """Report whether the broker's clock is known well enough for time slices."""
        estimate = self.clock_of_broker()
        is_known = estimate is not None and estimate.error_s <= self.quantum_s * ERROR_PART_MAX
        if self._report.has_clock is not is_known:
            self._report.has_clock = is_known
            self._report.is_due = True
        if is_known:
            self.next_look_s, self._look_s = None, LOOK_MIN_S
        elif self.next_look_s is None or now_s >= self.next_look_s:
            self.next_look_s = now_s + self._look_s
            self._look_s = min(LOOKS_AGAIN_S, 2 * self._look_s)

    # --- claims that come ------------------------------------------------------------------------

    def turn_of(self, run: Run) -> ClaimedTurn | None:
        """Return the turn that the broker told for a claim that is to be made; None: always."""
        matched = None if run.capability is None else self.matched.get(run.capability)
        if matched is None or (matched.turn == ALWAYS and not matched.row):
            return None
        return ClaimedTurn(matched.turn, matched.row, self.quantum_s)

    def room_for(self, run: Run) -> Resources:
        """Return what is free for a claim that is to be made, in the rows of its turn."""
        free, turn = self._claims.calendar.free, self.turn_of(run)
        return free if turn is None else replace(free, cpus=self._claims.free_in(turn.turn))

    @property
    def offered_cpus(self) -> int:
        """Return the cpus that a broker may give to others although claims hold them."""
        modes = self.queues.modes
        return sum(
            held.claim.resources.cpus
            for held in self._claims.by_attempt.values()
            if held.claim.queue in modes and held.end is None and not held.is_preempted
        )
