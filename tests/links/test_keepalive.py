"""When a link is pinged, and when its other end is silent."""

from __future__ import annotations

from iriai.links.keepalive import Keepalive
from iriai.wire.links import QUIET_S


def test_a_question_is_given_a_second_before_a_ping():
    hearing = Keepalive(100.0)
    hearing.sent(103.9, is_answer=False)
    assert not hearing.is_ping_due(104.0)
    assert hearing.is_ping_due(105.0)
    hearing.received(105.1)
    hearing.sent(105.2, is_answer=True)
    assert not hearing.is_ping_due(105.0 + QUIET_S)
    assert hearing.is_ping_due(105.1 + QUIET_S)
    assert not hearing.is_silent(160.0)
