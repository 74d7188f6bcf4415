"""What nodes tell a broker is held against their size (T8b)."""

from __future__ import annotations

import math

import pytest

from iriai.broker.intake.reports import CPUS_MAX, ClaimedUse
from iriai.broker.machines.machine_view import MachineView
from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.model.resources import Resources
from iriai.policy.accounting.decay import ChargeRule, Decay
from iriai.policy.accounting.runtime_estimates import RunTimes
from iriai.protocol.messages.scheduling import Counted, Idle
from iriai.protocol.misbehaviour import PROPOSED_AFTER

WALL_S = 1.8e9
NOW = Instant(100.0, WALL_S)
FADING = Decay(604_800.0)
OWN, OTHER = "ume", "oni"


def row(charge_s: float) -> LedgerRow:
    counter = FADING.counter().charged(charge_s, 0.0, WALL_S)
    return counter.row(Account("lab", "ann"), RunTimes(1, 1.0))


def idle(**more: object) -> Idle:
    said = {"capacity": Resources(4), "capabilities": (), "spent": (), "began": (), "ended": ()}
    return Idle(OTHER, 1, 1, whole=True, unavailable=None, **(said | more))


@pytest.fixture
def claimed() -> ClaimedUse:
    claimed = ClaimedUse(OWN, FADING, ChargeRule())
    claimed.measured(MachineView(OTHER, Resources(4)))
    return claimed


def test_a_row_beyond_the_size_of_its_machine_is_refused_and_named(claimed):
    assert not claimed.refuses(Counted(OTHER, (row(1e5),), ()), NOW)
    for _ in range(PROPOSED_AFTER):
        assert claimed.refuses(Counted(OTHER, (row(1e12),), ()), NOW)
    assert [(n.code, n.machine, n.count) for n in claimed.incidents.drain()] == [
        ("use-beyond-size", OTHER, 1),
        ("use-beyond-size", OTHER, PROPOSED_AFTER),
    ]


def test_of_a_machine_that_never_reported_nothing_is_believed_and_nothing_said(claimed):
    assert claimed.refuses(Counted("new", (row(1.0),), ()), NOW)
    assert not claimed.incidents.drain()


def test_the_own_machine_is_believed(claimed):
    assert not claimed.refuses(Counted(OWN, (row(1e12),), ()), NOW)


def test_what_the_directory_has_may_be_said_again(claimed):
    claimed.bounds.know(OTHER, [row(1e9)], NOW)
    assert not claimed.refuses(Counted(OTHER, (row(1e9),), ()), NOW)
    claimed.bounds.forget(OTHER)
    assert claimed.refuses(Counted(OTHER, (row(1e9),), ()), NOW)


@pytest.mark.parametrize(
    "said",
    [
        {"capacity": Resources(CPUS_MAX + 1)},
        {"capacity": Resources(1, 1 << 60)},
        {"capacity": Resources(1, 0, 5_000)},
        {"speed": 1e6},
        {"speed": math.nan},
        {"load": math.inf},
    ],
    ids=str,
)
def test_a_machine_larger_than_any_is_refused(claimed, said):
    assert not claimed.refuses_report(idle())
    assert claimed.refuses_report(idle(**said))
    [notice] = claimed.incidents.drain()
    assert (notice.code, notice.machine) == ("size-beyond-bounds", OTHER)
