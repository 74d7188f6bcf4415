"""Who speaks for a cluster is of it, as far as membership here knows."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from iriai.daemon.cluster.network import ClusterNetwork
from iriai.daemon.net.violations import Violations
from iriai.protocol.messages.effects import Delivered, Part
from iriai.protocol.messages.members import Member, MemberState
from iriai.protocol.messages.scheduling import Summary


def hears(sender: str, cluster: str) -> tuple[bool, list[str]]:
    """Whether a summary for `cluster` is heard where ume is of east, and what is noted of it."""
    ume = Member("ume", 1, MemberState.ALIVE, "site", cluster_name="east")
    take = Member("take", 1, MemberState.ALIVE, "site")
    offences = Violations()
    network = SimpleNamespace(
        _present={"ume": ume, "take": take}, mesh=SimpleNamespace(violations=offences)
    )
    told = Delivered(sender, Part.BROKER, Summary(sender, cluster, (), (), 0))
    is_heard = ClusterNetwork._is_of_its_cluster(network, told)  # type: ignore[arg-type]
    return is_heard, offences.rows(0.0)


@pytest.mark.parametrize(("sender", "cluster"), [("ume", "east"), ("take", "site")])
def test_it_is_heard(sender, cluster):
    assert hears(sender, cluster) == (True, [])


@pytest.mark.parametrize(("sender", "cluster"), [("ume", "west"), ("take", "east")])
def test_for_another_it_is_not_and_that_is_named(sender, cluster):
    is_heard, [offence] = hears(sender, cluster)
    assert not is_heard
    assert f"sent a message for {cluster}" in offence


def test_who_is_not_known_yet_is_not_heard_and_did_nothing_wrong():
    assert hears("matsu", "east") == (False, [])
