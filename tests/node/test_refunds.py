"""What an owner destroys is returned to its account (docs/spec/016, section 3)."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from msgspec import structs

from iriai.model.owner import OwnerWord
from iriai.model.records import ClaimStored, LedgerRow
from iriai.model.state import EndCause
from iriai.protocol.messages.effects import LauncherAttached, OwnerSaid
from iriai.protocol.messages.scheduling import Run, Stop
from tests.node.lone_node import LoneNode, exited
from tests.node.test_giving_way import DESK, Desk, quiet_desk
from tests.support.told import WALL_S, Told, attempt, spec

HERE_NOW = OwnerSaid(OwnerWord.HERE, inf, vacates=True)
EVICTED = EndCause.EVICTED


def row(desk: Desk) -> LedgerRow:
    [found] = desk.node.node.ledger.rows()
    return found


def returned_s(desk: Desk) -> float:
    return sum(each.charge_s for each in row(desk).refunds)


def worked_desk(**options) -> Desk:
    """A task has worked for 100 s when its owner wants the machine."""
    desk = quiet_desk(**options)
    desk.node.wait(100.0)
    desk.tell(HERE_NOW)
    return desk


def test_the_charge_of_a_vacated_attempt_is_returned():
    desk = worked_desk()
    [end] = desk.tell(exited(1, EVICTED, ran_s=100.0)).home
    assert returned_s(desk) == 100.0
    assert (end.result.charge_s, end.result.returned_s) == (100.0, 100.0)
    assert desk.node.node.ledger.rows()[0].counter > 0.0, "the charge itself stays"


def test_what_was_charged_before_in_slices_is_returned_too_and_urgency_with_it():
    desk = Desk()
    desk.after(DESK.continue_s)
    desk.run(1, urgency=3.0)
    desk.node.wait(60.0)
    desk.tell(HERE_NOW)
    desk.tell(exited(1, EVICTED, ran_s=60.0, cpu_s=90.0))
    assert returned_s(desk) == pytest.approx(270.0)


@pytest.mark.parametrize("cause", [EndCause.COMPLETED, EndCause.FAILED, EndCause.LOST])
def test_what_ends_otherwise_in_its_grace_is_not_returned(cause):
    desk = worked_desk()
    desk.tell(exited(1, cause, ran_s=100.0))
    assert row(desk).refunds == ()


def test_of_a_program_that_has_saved_itself_nothing_is_lost_and_nothing_returned():
    desk = Desk()
    desk.after(DESK.continue_s)
    desk.run(1, checkpoint_exit=85)
    desk.node.wait(100.0)
    desk.tell(HERE_NOW)
    desk.tell(structs.replace(exited(1, EVICTED, ran_s=100.0), exit_code=85))
    assert row(desk).refunds == ()


def test_what_is_evicted_for_another_reason_is_not_returned():
    desk = quiet_desk()
    desk.node.wait(100.0)
    desk.tell(Stop(attempt(1), EVICTED, 0.0))
    desk.tell(exited(1, EVICTED, ran_s=100.0))
    assert row(desk).refunds == ()


def test_tasks_of_exempt_users_have_nothing_returned():
    desk = quiet_desk(replace(DESK, exempt=("ann",)))
    desk.node.wait(100.0)
    desk.tell(HERE_NOW)
    desk.tell(exited(1, ran_s=100.0))
    assert row(desk).refunds == ()


def test_each_of_several_is_returned_once():
    desk = quiet_desk()
    desk.run(2)
    desk.node.wait(50.0)
    desk.tell(HERE_NOW)
    for number in (1, 2, 1):
        desk.tell(exited(number, EVICTED, ran_s=50.0))
    assert returned_s(desk) == 100.0


def restarted(desk: Desk, said: Told, *, lease_s: float | None = None) -> Desk:
    """The same machine after a restart of its daemon, from what was stored."""
    claims = {each.claim.attempt: each.claim for each in said.records if type(each) is ClaimStored}
    now_s = desk.node.now_s
    again = object.__new__(Desk)
    again.__dict__ |= desk.__dict__
    again.node = LoneNode(
        4,
        owner=DESK,
        claims=list(claims.values()),
        ledger=desk.node.node.ledger.rows(),
        now_s=now_s,
        incarnation=2,
        attached=False,
    )
    again.node.tell(
        Run(attempt(1), spec(), None, lease_s=lease_s), LauncherAttached(((attempt(1), WALL_S),))
    )
    return again


def test_a_daemon_that_restarts_while_a_task_ends_returns_its_charge():
    desk = quiet_desk()
    desk.node.wait(100.0)
    said = desk.tell(HERE_NOW)
    again = restarted(desk, said)
    again.node.tell(exited(1, EVICTED, ran_s=100.0))
    assert returned_s(again) == 100.0


def test_a_daemon_that_restarts_after_the_end_returns_nothing_twice():
    desk = Desk()
    desk.after(DESK.continue_s)
    desk.obey(desk.node.run(1, spec(), 6000.0))
    desk.node.wait(100.0)
    desk.tell(HERE_NOW)
    said = desk.tell(exited(1, EVICTED, ran_s=100.0))
    again = restarted(desk, said, lease_s=6000.0)
    again.node.tell(exited(1, EVICTED, ran_s=100.0))
    assert returned_s(again) == 100.0
