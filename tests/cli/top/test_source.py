"""Overviews: what belongs together, and what is said while no daemon answers."""

from __future__ import annotations

import pytest

from iriai.cli.top.panels import PANELS
from iriai.cli.top.source import Source
from iriai.client.rpc_channel import ConnectionLost
from iriai.model.problem import NotAllowed, Unreachable
from iriai.wire.machines import AskNodes
from iriai.wire.reports import Shares
from tests.cli.top.daemon import FixedClient, refusing


class Restarting:
    """A daemon that is away or there, and counts who connects."""

    def __init__(self) -> None:
        self.clients: list[FixedClient] = []
        self.problem: Exception | None = None

    def connect(self) -> FixedClient:
        if self.problem is not None:
            raise self.problem
        self.clients.append(FixedClient())
        return self.clients[-1]


LOST = ConnectionLost("lost", "the daemon has closed the connection")
NOBODY = Unreachable("no-daemon", "no daemon is running")


def test_one_connection_serves_all_overviews():
    daemon = Restarting()
    source = Source(daemon.connect, PANELS)
    for _ in range(3):
        overview = source.overview()
        assert [each.panel for each in overview.sections] == list(PANELS)
    assert len(daemon.clients) == 1


def test_a_daemon_that_was_never_there_is_an_error():
    daemon = Restarting()
    daemon.problem = NOBODY
    with pytest.raises(Unreachable):
        Source(daemon.connect, PANELS).overview()


def test_what_was_seen_last_stays_while_the_daemon_is_away():
    daemon = Restarting()
    now = iter([10.0, 20.0, 40.0])
    source = Source(daemon.connect, PANELS, clock=lambda: next(now))
    before = source.overview()
    daemon.clients[0].answering = refusing(AskNodes, LOST)
    lost = source.overview()
    assert (lost.problem, lost.lost_wall_s, lost.taken_wall_s) == (LOST, 20.0, 10.0)
    assert lost.sections == before.sections
    assert daemon.clients[0].closed == 1
    daemon.problem = NOBODY
    still = source.overview()
    assert (still.problem, still.lost_wall_s) == (NOBODY, 20.0)
    daemon.problem = None
    back = source.overview()
    assert (back.problem, back.lost_wall_s, back.taken_wall_s) == (None, None, 40.0)
    assert len(daemon.clients) == 2


def test_one_that_may_not_connect_any_more_is_told_as_one_without_a_daemon():
    daemon = Restarting()
    source = Source(daemon.connect, PANELS)
    source.overview()
    source.close()
    daemon.problem = NotAllowed("not-your-socket", "you may not connect")
    assert "you may not connect" in str(source.overview().problem)


def test_a_refusal_is_of_its_panel_alone():
    client = FixedClient(refusing(Shares, NotAllowed("no", "shares are secret")))
    sections = Source(lambda: client, PANELS).overview().sections
    assert [each.problem is None for each in sections] == [True, True, False, True, True]
    assert sections[2].content is None
