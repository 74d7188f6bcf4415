"""Reservations on real machines whose nodes are drained, and go silent: others take their place."""

from __future__ import annotations

import time

import pytest

from iriai.client import Client
from iriai.wire.machines import Drain, Resume
from iriai.wire.reservations import AskReservations, EndReservation, Reserve, Reserved
from tests.endtoend.cluster import Cluster
from tests.support.waiting import until

HOUR_S = 3600.0
LOST_S = 3


@pytest.mark.root  # others are operators of their own machines
def test_another_node_takes_the_place_of_one_that_is_lost(person):
    cluster = Cluster(person)
    cluster.silence_s = 3.0
    try:
        for name in ("b1", "b2", "b3"):
            cluster.add(name)
        cluster.begin(f"[reservations]\nlost_s = {LOST_S}\n")
        front = cluster.front
        with front.client() as client:
            now_s = time.time()
            made = client.ask(Reserve(now_s + 600.0, now_s + HOUR_S, 2))
            assert isinstance(made, Reserved)
            [spare] = {"b1", "b2", "b3"} - {*made.nodes}
            drained, stays = made.nodes

            def row():
                return client.ask(AskReservations(id=made.id)).rows[0]

            with Client.connect(front.state) as root:
                root.ask(Drain(drained, "dust"))
            until(lambda: row().nodes == tuple(sorted((stays, spare))), "the spare node")
            assert not row().is_degraded
            with cluster.stopped(stays, "daemon"):
                until(lambda: row().is_degraded, "the loss of a silent node")
                assert row().missing == (stays,)
                listed = front.call("reservations").stdout
                assert "confirmed, degraded" in listed
                shown = front.call("reservation", "show", made.id).stdout
                assert f"lacks            {stays}" in shown
                with Client.connect(front.state) as root:
                    root.ask(Resume(drained))
                until(lambda: row().nodes == tuple(sorted((drained, spare))), "one that is back")
                assert not row().is_degraded
            until(cluster.is_whole, "the silent node to be back")
            now_s = time.time()
            alone = Reserve(now_s + 600.0, now_s + HOUR_S, 1, requirements="", dry_run=True)
            until(lambda: client.ask(alone).nodes == (stays,), "it has freed its booking")
            client.ask(EndReservation(made.id))
    finally:
        cluster.stop()
