"""What machines of a cluster say to each other while nothing happens, to the frame."""

import asyncio
from collections import Counter

import pytest

from iriai.links.keepalive import PINGS
from iriai.model.instant import SILENCE_S
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.elections import AskBroker, BrokerIs
from iriai.wire.links import QUIET_S
from tests.support.quiet_cluster import quiet_cluster
from tests.support.virtual_loop import VirtualLoop, virtual_story

PING_S = SILENCE_S / PINGS
JOINED_S = 60.0
"""After which all know all, and nothing is told as new any more."""
LOOKED_S = 120.0


@pytest.mark.parametrize("count", [4, 12])
def test_a_machine_at_rest_says_a_probe_an_answer_and_hardly_a_ping(monkeypatch, count):
    async def body(loop: VirtualLoop) -> None:
        machines = quiet_cluster(loop, count)
        for each in machines:
            each.begin()
        await asyncio.sleep(JOINED_S)
        assert all(len(each.peers.members) == count - 1 for each in machines)
        before = [each.said.copy() for each in machines]
        await asyncio.sleep(LOOKED_S)
        said = sum((m.said - b for m, b in zip(machines, before, strict=True)), Counter())
        per_s = {kind: number / count / LOOKED_S for kind, number in said.items()}
        assert per_s.keys() <= {"Batch", "Ping", "Pong", "bytes"}
        # One with a probe and an offer, one with an answer.
        assert per_s["Batch"] == pytest.approx(2.0, abs=0.02)
        # Over links that carry nothing else, which are closed after a while elsewhere.
        links = (count - 1) / 2
        assert per_s.get("Ping", 0.0) <= links / QUIET_S
        assert per_s["bytes"] <= 300.0
        assert not any(each.over for each in machines)

    virtual_story(monkeypatch, body)


def test_an_answer_asks_for_none_and_a_question_does(monkeypatch):
    async def body(loop: VirtualLoop) -> None:
        one, other = quiet_cluster(loop, 2)
        await asyncio.sleep(PING_S)
        assert (one.said["Ping"], other.said["Ping"]) == (1, 1)  # with which a link begins
        one.links["m1"].send([Send("m1", Part.SUCCESSION, BrokerIs("m0", 1.0))])
        await asyncio.sleep(QUIET_S - 2 * PING_S)
        assert (one.said["Ping"], other.said["Ping"]) == (1, 1)
        one.wires["m1"].is_cut = other.wires["m0"].is_cut = True
        one.links["m1"].send([Send("m1", Part.SUCCESSION, AskBroker())])
        await asyncio.sleep(SILENCE_S + 2 * PING_S)
        assert "has not answered" in one.over["m1"]

    virtual_story(monkeypatch, body)
