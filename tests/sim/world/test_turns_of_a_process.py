"""The simulator's process in turns, beside one that is looked at step by step."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.model.ids import Account
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.time_slices import NO_CYCLES, SliceCycle
from iriai.sim.world.work import ProcessModel, Work, plain_job
from tests.support.told import attempt

STEP_S = 1 / 32
END_S = 400.0
"""Whoever has not ended by then stands for ever."""


class Order(NamedTuple):
    """What happens to it, and when."""

    at_s: float
    what: str
    mask: int = 0
    quantum_s: float = 1.0
    rows: int = 2
    row_0_s: float = 0.0


ORDERS = st.lists(
    st.builds(
        Order,
        st.integers(0, 80).map(lambda quarters: quarters / 4),
        st.sampled_from(["turns", "turns", "none", "freeze", "thaw", "end"]),
        st.integers(0, 7),
        st.sampled_from([0.5, 1.0, 2.0]),
        st.integers(2, 3),
        st.integers(0, 3).map(lambda halves: halves / 2),
    ),
    max_size=6,
).map(lambda orders: sorted(orders, key=lambda each: each.at_s))


class Stepped:
    """The same process, and what it does in each step."""

    def __init__(self, run_s: float, limit_s: float | None, grace_s: float) -> None:
        self.run_s, self.limit_s, self.grace_s = run_s, limit_s, grace_s
        self.ran_s, self.cycles, self.mask = 0.0, NO_CYCLES, -1
        self.is_frozen = False
        self.kill_at_s = inf
        self.cause: EndCause | None = None

    def ask(self, cause: EndCause, now_s: float) -> None:
        if self.cause is None:
            self.cause, self.is_frozen, self.mask = cause, False, -1
        self.kill_at_s = min(self.kill_at_s, now_s + self.grace_s)

    def obey(self, order: Order) -> None:
        match order.what:
            case "end":
                self.ask(EndCause.CANCELLED, order.at_s)
            case "freeze":
                self.is_frozen = self.cause is None
            case "thaw":
                self.is_frozen = False
            case "turns" if self.cause is None:
                cycle = SliceCycle(order.quantum_s, order.rows, order.row_0_s)
                self.cycles, self.mask = self.cycles.followed_by(cycle, order.at_s), order.mask
            case "none":
                self.cycles, self.mask = NO_CYCLES, -1

    def has_ended(self, now_s: float) -> bool:
        """Keep its limit; return whether it has ended by now."""
        has_limit = self.limit_s is not None and self.limit_s < self.run_s
        if has_limit and self.ran_s >= self.limit_s and self.cause is None:
            self.ask(EndCause.TIME_LIMIT, now_s)
        return self.ran_s >= self.run_s or now_s >= self.kill_at_s

    def executes(self, now_s: float) -> bool:
        has_turn = self.mask < 0 or self.cycles.is_turn(self.mask, now_s)
        return has_turn and not self.is_frozen


class Modelled:
    """The simulator's, as its launcher treats it."""

    def __init__(self, work: Work, limit_s: float | None, grace_s: float) -> None:
        spec = plain_job(Account("lab", "ann"), Resources(1), limit_s)
        self.process = ProcessModel(attempt(1), replace(spec, kill_grace_s=grace_s), work, 0.0, 1.0)
        self.cycles, self.grace_s = NO_CYCLES, grace_s

    def obey(self, order: Order) -> None:
        process, now_s = self.process, order.at_s
        if order.what == "end":
            process.ask(EndCause.CANCELLED, self.grace_s, now_s)
        elif order.what == "none":
            self.cycles = NO_CYCLES
            process.take_turns(None, 0, now_s)
        elif order.what == "turns":
            cycle = SliceCycle(order.quantum_s, order.rows, order.row_0_s)
            self.cycles = self.cycles.followed_by(cycle, now_s)
            process.take_turns(self.cycles, order.mask, now_s)
        elif not process.is_asked(now_s):
            (process.freeze if order.what == "freeze" else process.thaw)(now_s)


@given(
    st.integers(1, 40).map(lambda quarters: quarters / 4),
    st.none() | st.integers(1, 40).map(lambda quarters: quarters / 4),
    st.sampled_from([0.0, 1.0, 50.0]),
    ORDERS,
)
def test_it_ends_when_the_other_does(
    run_s: float, limit_s: float | None, grace_s: float, orders: list[Order]
):
    stepped = Stepped(run_s, limit_s, grace_s)
    modelled = Modelled(Work(run_s, stubborn=True), limit_s, grace_s)
    process, now_s, left = modelled.process, 0.0, list(orders)
    while now_s < END_S:
        while not stepped.has_ended(now_s) and left and left[0].at_s <= now_s:
            order = left.pop(0)
            stepped.obey(order)
            modelled.obey(order)
        if stepped.has_ended(now_s):
            break
        assert process.end_s > now_s
        assert process.ran_s(now_s) == pytest.approx(stepped.ran_s)
        assert process.executes(now_s) == stepped.executes(now_s)
        stepped.ran_s += STEP_S * stepped.executes(now_s)
        now_s += STEP_S
    if now_s >= END_S:
        assert process.end_s >= END_S
    else:
        assert process.end_s == pytest.approx(now_s)
        assert process.end[0] is (stepped.cause or EndCause.COMPLETED)
