"""What a machine of another cluster may say to membership and directory, and what comes of it."""

from __future__ import annotations

import pytest

from iriai.cluster.member import ClusterMember
from iriai.model.instant import Instant
from iriai.protocol.directory.directory import MESSAGES_A_PERIOD_MAX
from iriai.protocol.directory.validation import read_member
from iriai.protocol.messages import gossip
from iriai.protocol.messages.effects import Delivered, Part, PeerNoticed, Send, Wake
from iriai.protocol.messages.entries import Carried, EntryKind
from iriai.protocol.messages.members import MemberState
from iriai.protocol.misbehaviour import PERIODS
from tests.cluster.machines import NOW, member


def begun(name: str, cluster: str, **more) -> ClusterMember:
    made = member(name, cluster, incarnation=5, **more)
    made.begin(NOW)
    return made


def told(one: ClusterMember, sender: str, message: gossip.ToDirectory) -> list:
    """The answers to `sender`."""
    effects = one.handle(Delivered(sender, Part.DIRECTORY, message), NOW)
    return [each.message for each in effects if isinstance(each, Send) and each.machine == sender]


def entries_of(one: ClusterMember) -> tuple[Carried, ...]:
    return tuple(one.peers.snapshot(NOW))


def rows_of(one: ClusterMember) -> tuple[gossip.DigestRow, ...]:
    return tuple(each.entry.row for each in entries_of(one))


def test_who_takes_a_machine_for_one_of_its_cluster_is_told_that_it_is_none():
    ume = begun("ume", "east")
    [answer] = told(ume, "w0", gossip.Offer(1, (), "west"))
    [carried] = answer.entries
    left = read_member(carried.entry)
    assert (carried.entry.cluster, left.state, left.incarnation) == ("west", MemberState.LEFT, 5)
    assert ume.peers.publisher.member.state is MemberState.ALIVE
    west = begun("w0", "west")
    west.handle(Delivered("ume", Part.DIRECTORY, answer), NOW)
    west.handle(Wake(Part.ENTRIES), NOW)
    assert "ume" not in {each.name for each in west.present()}


def test_of_an_offer_between_clusters_only_what_concerns_all_is_wanted():
    ume, west = begun("ume", "east"), begun("w0", "west")
    lately = rows_of(west)
    assert {row.kind for row in lately} == {EntryKind.MEMBER}
    [answer] = told(ume, "w0", gossip.Offer(1, lately, "west", is_site=True))
    assert (answer.wanted, answer.is_site) == ((), True)


@pytest.mark.parametrize("cluster", ["east", "west"])
def test_a_newcomer_is_compared_with_as_what_it_is(cluster):
    """Who knows nobody of its own cluster cannot tell whether the one that it asks is of it."""
    ume, new = begun("ume", "east"), begun("new", cluster)
    [answer] = told(ume, "new", gossip.Offer(1, rows_of(new), cluster, is_site=True))
    assert answer.is_site == (cluster == "west")
    assert {row.machine for row in answer.wanted} == ({"new"} if cluster == "east" else set())


def test_members_of_another_cluster_are_not_taken_whoever_sends_them():
    ume, west = begun("ume", "east"), begun("w0", "west")
    for sender in ("w0", "ran"):
        ume.handle(Delivered(sender, Part.DIRECTORY, gossip.Entries(entries_of(west))), NOW)
        ume.handle(Wake(Part.ENTRIES), NOW)
    assert not ume.present()
    news = gossip.News(entries_of(west))
    ume.handle(Delivered("w0", Part.MEMBERSHIP, gossip.Probe(1, news)), NOW)
    assert not ume.present()


def test_where_a_machine_of_this_cluster_is_anybody_is_told_and_of_others_nobody():
    ume = begun("ume", "east")
    [answer] = told(ume, "w0", gossip.Locate("ume"))
    assert [each.entry.machine for each in answer.entries] == ["ume"]
    assert told(ume, "w0", gossip.Locate("w1")) == []


def test_who_asks_too_much_is_named_and_not_answered():
    ume = begun("ume", "east")
    most = int(MESSAGES_A_PERIOD_MAX * PERIODS)
    for _ in range(most):
        assert told(ume, "w0", gossip.Locate("ume"))
    effects = ume.handle(Delivered("w0", Part.DIRECTORY, gossip.Locate("ume")), NOW)
    [notice] = effects
    assert isinstance(notice, PeerNoticed)
    assert (notice.code, notice.machine) == ("flood", "w0")


def test_over_a_new_link_only_machines_of_other_clusters_are_told_where_this_one_is():
    ume, west = begun("ume", "east"), begun("w0", "west")
    assert ume.linked("w0", NOW) == [], "it knows of no other cluster"
    west.handle(Wake(Part.LEDGER), NOW)
    later = Instant(NOW.steady_s + 10.0, NOW.wall_s + 10.0)
    west.handle(Wake(Part.LEDGER), later)
    gateway = tuple(Carried(each.entry, 0.0) for each in entries_of(west))
    ume.handle(Delivered("w0", Part.DIRECTORY, gossip.Entries(gateway)), NOW)
    ume.handle(Wake(Part.ENTRIES), NOW)
    [send] = ume.linked("w1", NOW)
    assert isinstance(send, Send)
    assert isinstance(send.message, gossip.Located)
