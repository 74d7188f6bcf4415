"""What is kept up with members that change is what all members together say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iriai.protocol.election.site_view import SiteView
from iriai.protocol.messages.candidates import BrokerCandidate, peer_clusters_of
from iriai.protocol.messages.effects import PeersChanged
from iriai.protocol.messages.members import Member, MemberState

OWN = Member("ume", 0, MemberState.ALIVE, "site", cluster_name="west")


def member(
    name: str,
    cluster_name: str = "west",
    state: MemberState = MemberState.ALIVE,
    incarnation: int = 0,
    site: str = "site",
    steadiness: float = 1.0,
) -> Member:
    parts = ("node", "home", "broker")
    return Member(
        name,
        incarnation,
        state,
        site,
        parts=parts,
        steadiness=steadiness,
        cluster_name=cluster_name,
    )


members = st.builds(
    member,
    st.sampled_from(["kiri", "fuji", "hagi", "kaki", "ume"]),
    st.sampled_from(["west", "east", ""]),
    st.sampled_from(MemberState),
    st.integers(0, 3),
    st.sampled_from(["site", "site", "elsewhere"]),
    st.sampled_from([1.0, 0.6]),
)


def all_together(known: dict[str, Member]) -> PeersChanged:
    clusters: dict[str, list[BrokerCandidate]] = {}
    for each in known.values():
        if each.is_present and each.cluster == "site":
            clusters.setdefault(each.cluster_called, []).append(BrokerCandidate.of(each))
    return PeersChanged(tuple(clusters.get("west", ())), peer_clusters_of(clusters))


@given(st.lists(st.lists(members, max_size=4), max_size=8))
def test_each_report_is_that_of_all_members_together(changes):
    peers, known = SiteView(OWN), {OWN.name: OWN}
    before = all_together({})
    for some in [[], *changes]:
        own_stays = [each for each in some if each.name != OWN.name]
        peers.update(own_stays)
        known.update((each.name, each) for each in own_stays)
        expected = all_together(known)
        if peers.has_news:
            before = report = peers.report()
            assert set(report.peers) == set(expected.peers)
            assert len(report.peers) == len(expected.peers)
            assert report.neighbours == expected.neighbours
        else:
            assert (set(before.peers), before.neighbours) == (
                set(expected.peers),
                expected.neighbours,
            )


def test_who_says_again_what_it_is_is_no_news():
    peers = SiteView(OWN)
    peers.update([member("kiri"), member("fuji", "east")])
    assert peers.has_news
    peers.report()
    peers.update([member("kiri", incarnation=1), OWN])
    peers.update([member("hagi", state=MemberState.DEAD), member("kaki", site="elsewhere")])
    assert not peers.has_news
    peers.update([member("fuji", "east", MemberState.DEAD)])
    assert peers.has_news
    assert [each.cluster for each in peers.report().neighbours] == ["west"]


def test_what_this_machine_says_of_itself_is_news():
    peers = SiteView(OWN)
    peers.report()
    peers.update([member("ume", steadiness=0.4)])
    [own] = peers.report().peers
    assert (own.name, own.steadiness) == ("ume", 0.4)
