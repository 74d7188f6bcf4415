"""Job steps beside the seats of this machine (docs/spec/011, section 8).

Checks what homes order, passes it on to the launcher, and keeps the ends until their homes have
them. What the launcher does twice is done once: it remembers the steps of its seats.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.state import EndCause
from iriai.node.metering import HeldClaim
from iriai.node.settings import NodeSettings
from iriai.protocol.messages.effects import (
    Effect,
    ForgetAttempt,
    LaunchStep,
    Part,
    Send,
    StepExited,
    StepStarted,
    TerminateAttempt,
)
from iriai.protocol.messages.steps import ForgetStep, Step, StepBegun, StepEnded, StopStep

ENDS_MAX = 4096
"""Ends of one home's steps that nobody fetched: of more the oldest is forgotten."""
LIVE_MAX = 512
"""Steps beside one seat at a time: as many as the launcher has (`launcher.tasks.steps`)."""
NOT_HERE = "the attempt does not run here, or is being ended"


@dataclass(slots=True)
class _Ordered:
    """A step that is not over."""

    order: Step | None
    """None: an earlier daemon ordered it."""
    is_begun: bool = False


_NO_STEPS: dict[AttemptId, _Ordered] = {}
_NO_ENDS: OrderedDict[AttemptId, StepEnded] = OrderedDict()


class NodeSteps:
    """The steps of all seats of a node."""

    def __init__(
        self,
        settings: NodeSettings,
        seat: Callable[[AttemptId], HeldClaim | None],
        effects: list[Effect],
    ) -> None:
        """`seat` returns the claim of a seat, if there is one; what is to be done is appended."""
        self._settings = settings
        self._seat = seat
        self._live: dict[AttemptId, dict[AttemptId, _Ordered]] = {}
        """The steps that are not over, by seat."""
        self._ends: dict[str, OrderedDict[AttemptId, StepEnded]] = {}
        """By home."""
        self._effects = effects
        self.handlers: dict[type, Callable[[Any, Instant], None]] = {
            Step: self._order,
            StopStep: self._stop,
            ForgetStep: self._forget,
            StepStarted: self._started,
            StepExited: self._exited,
        }

    def runs(self, step: AttemptId) -> bool:
        """Return whether a step is not over, as far as the node knows."""
        return step in self._live.get(step.of_seat, ())

    # --- what homes say --------------------------------------------------------------------------

    def _order(self, order: Step, now: Instant) -> None:
        """Have a step started, or say again what became of it."""
        step = order.attempt
        end = self._ends.get(step.home, _NO_ENDS).get(step)
        if end is not None:
            self._tell(end)
            return
        live = self._live.get(step.of_seat, _NO_STEPS)
        known = live.get(step)
        if known is None:
            if words := self._refusal(order, len(live), now.wall_s):
                machine = self._settings.machine
                self._tell(StepEnded(step, machine, EndCause.REFUSED, message=words))
                return
            known = self._live.setdefault(step.of_seat, {})[step] = _Ordered(order)
        if known.is_begun:
            self._tell(StepBegun(step, self._settings.machine))
        elif known.order is not None:
            self._effects.append(LaunchStep(known.order))

    def _stop(self, stop: StopStep, _now: Instant) -> None:
        """Have a step ended."""
        if self.runs(stop.attempt):
            self._effects.append(TerminateAttempt(stop.attempt, EndCause.CANCELLED, stop.grace_s))

    def _forget(self, forget: ForgetStep, _now: Instant) -> None:
        """Drop an end, which the step's client has, here and at the launcher."""
        step = forget.attempt
        ends = self._ends.get(step.home)
        if ends is not None and ends.pop(step, None) is not None:
            self._effects.append(ForgetAttempt(step))
            if not ends:
                del self._ends[step.home]

    def reached(self, home: str) -> None:
        """Repeat to a home that can be reached again what it may not have received."""
        for end in self._ends.get(home, _NO_ENDS).values():
            self._tell(end)

    # --- what the launcher says ------------------------------------------------------------------

    def _started(self, event: StepStarted, _now: Instant) -> None:
        """Tell the home of a step that it runs."""
        step = event.step
        known = self._live.setdefault(step.of_seat, {}).setdefault(step, _Ordered(None))
        if not known.is_begun:
            known.is_begun = True
            self._tell(StepBegun(step, self._settings.machine))

    def _exited(self, event: StepExited, _now: Instant) -> None:
        """Keep the end of a step, and tell its home."""
        step, machine = event.step, self._settings.machine
        end = StepEnded(step, machine, event.cause, event.exit_code, event.signal, event.message)
        self._end(self._ends.get(step.home, _NO_ENDS).get(step, end))

    def compare(self, steps: tuple[AttemptId, ...]) -> None:
        """Compare with the steps that a launcher knows which has connected, also those over.

        What it may never have received is ordered again, and has no effect where it has. What had
        begun and does not run ended with an earlier launcher.
        """
        found = dict.fromkeys(steps)
        for seat in list(self._live.values()):
            for step, ordered in list(seat.items()):
                if step in found:
                    continue
                if ordered.is_begun or ordered.order is None:
                    words = "its launcher ended, and with it the attempt"
                    machine = self._settings.machine
                    self._end(StepEnded(step, machine, EndCause.LOST, message=words))
                else:
                    self._effects.append(LaunchStep(ordered.order))

    # --- within ----------------------------------------------------------------------------------

    def _refusal(self, order: Step, live: int, wall_s: float) -> str:
        """Return why a step is not started here; empty: it is."""
        step = order.attempt
        held = self._seat(step.of_seat)
        # One that was ordered may not have begun: the launcher refuses then.
        if held is None or not held.is_ordered or held.end or held.stop:
            return NOT_HERE
        first, last = step.rank, step.rank + held.claim.ranks - 1
        if not first <= order.rank <= last:
            return f"rank {order.rank} is not of this seat, which has {first} to {last}"
        if live >= LIVE_MAX:
            return f"{live} steps run beside this seat; the limit is LIVE_MAX = {LIVE_MAX}"
        settings = self._settings
        if order.origin in ("", step.home, settings.machine):
            return ""
        words = settings.judge_user(order.origin, held.claim.user, wall_s)
        return f"it was asked for on {order.origin}: {words}" if words else ""

    def _end(self, end: StepEnded) -> None:
        step = end.attempt
        ends = self._ends.setdefault(step.home, OrderedDict())
        ends[step] = end
        live = self._live.get(step.of_seat)
        if live is not None and live.pop(step, None) is not None and not live:
            del self._live[step.of_seat]
        self._tell(end)
        if len(ends) > ENDS_MAX:
            oldest, _ = ends.popitem(last=False)
            self._effects.append(ForgetAttempt(oldest))

    def _tell(self, message: StepBegun | StepEnded) -> None:
        self._effects.append(Send(message.attempt.home, Part.HOME, message))
