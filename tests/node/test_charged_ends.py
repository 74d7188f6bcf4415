"""What an end elsewhere is charged, through a restart before its home has acknowledged it."""

from __future__ import annotations

import pytest

from iriai.model.records import ClaimStored
from iriai.protocol.messages.effects import AttemptStarted, LauncherAttached
from iriai.protocol.messages.scheduling import End
from tests.node.lone_node import LoneNode, exited
from tests.support.told import WALL_S, attempt, only


def test_an_end_that_is_told_again_after_a_restart_is_charged_once():
    node = LoneNode()
    node.run(lease_s=90.0)
    node.tell(AttemptStarted(attempt(1), WALL_S))
    node.wait(30.0)
    said = node.tell(exited(1, ran_s=30.0))
    kept = [record.claim for record in said.records if isinstance(record, ClaimStored)]
    again = LoneNode(
        claims=kept, ledger=node.node.ledger.rows(), incarnation=2, now_s=31.0, attached=False
    )
    said = again.tell(LauncherAttached(()), exited(1, ran_s=30.0))
    assert only(said.home, End).result.charge_s == pytest.approx(30.0)
    assert again.node.ledger.rows()[0].counter == node.node.ledger.rows()[0].counter
