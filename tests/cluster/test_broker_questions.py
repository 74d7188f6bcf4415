"""Who may ask what of a machine."""

import pytest

from iriai.cluster.broker_questions import question_in
from iriai.protocol.messages.effects import Inquired
from iriai.wire.inquiries import INQUIRY_VERSION, AskDrain, Declined, encode_question
from iriai.wire.machines import AskNodes

DRAIN = AskDrain("root", "a new disk", 1.0)


def asked(sender: str, question: AskDrain | AskNodes, front_end: str = ""):
    """What `b1`, which follows the broker `front`, makes of a question of `sender`."""
    inquired = Inquired(sender, 1, INQUIRY_VERSION, encode_question(question))
    return question_in(inquired, "b1", "front", front_end, is_broker=False)


def test_a_back_end_is_drained_by_its_front_end():
    assert asked("front", DRAIN, "front") == DRAIN


@pytest.mark.parametrize("front_end", ["", "front"])
def test_nobody_else_drains_a_machine(front_end: str):
    """Neither another member, nor the broker of one that is no back end."""
    sender = "take" if front_end else "front"
    refused = asked(sender, DRAIN, front_end)
    assert isinstance(refused, Declined)
    assert refused.code == "not-its-front-end"


def test_a_machine_that_is_not_the_broker_names_it():
    refused = asked("front", AskNodes(), "front")
    assert isinstance(refused, Declined)
    assert (refused.code, refused.broker) == ("not-the-broker", "front")
