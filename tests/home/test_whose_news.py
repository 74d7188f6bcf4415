"""A machine may speak of the tasks that it was given; what others say does not count."""

from __future__ import annotations

import pytest

from iriai.model.reason import Reason, Rule
from iriai.model.state import TaskState
from iriai.protocol.messages.effects import PeerNoticed
from iriai.protocol.messages.scheduling import Accepted, Begun, Refusal, Renew, Renewed
from tests.home.lone_home import LoneHome, end, match
from tests.support.told import WALL_S, attempt

GIVEN, LIAR = "take", "oni"
BUSY = Reason(Rule.MACHINE_BUSY, "1 cpu", "0 free", LIAR)
LIES = [
    Accepted(attempt(1), LIAR),
    Begun(attempt(1), LIAR, WALL_S),
    Refusal(attempt(1), BUSY),
    end(attempt(1), machine=LIAR),
]


@pytest.fixture
def home() -> LoneHome:
    made = LoneHome()
    made.submit()
    made.tell(match(machine=GIVEN))
    return made


def accused(said) -> list[str]:
    return [each.machine for each in said.others if isinstance(each, PeerNoticed)]


@pytest.mark.parametrize("lie", LIES, ids=[type(lie).__name__ for lie in LIES])
def test_a_lie_changes_nothing_and_names_the_liar(home, lie):
    said = home.tell(lie)
    assert accused(said) == [LIAR]
    assert (said.records, said.node, said.broker) == ([], [], [])
    assert home.home.jobs[1].tasks[0].state is TaskState.CLAIMED
    home.tell(end(attempt(1), machine=GIVEN))
    assert 1 not in home.home.jobs


def test_a_liar_gets_no_leave_to_start_what_it_was_not_given(home):
    said = home.tell(Renew(LIAR, 1.0, (attempt(1),)))
    assert [each.confirmed for each in said.node if isinstance(each, Renewed)] == [()]
    assert accused(said) == [LIAR]
    said = home.tell(Renew(GIVEN, 1.0, (attempt(1),)))
    assert [each.confirmed for each in said.node if isinstance(each, Renewed)] == [(attempt(1),)]
    assert accused(said) == []


def test_many_lies_are_named_seldom(home):
    names = [name for _ in range(100) for name in accused(home.tell(LIES[0]))]
    assert names == [LIAR] * 3
