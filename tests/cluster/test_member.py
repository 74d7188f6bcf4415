"""A machine as a member of its cluster: what its parts hear of what others say."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest
from experiments.gossip_membership import EARLIER

from iriai.cluster.member import ClusterMember, ForParts
from iriai.model.instant import Instant
from iriai.policy.accounting.decay import Decay
from iriai.protocol.directory.entry_slices import SLICE
from iriai.protocol.ledger.ledger import BatchRow, LedgerBatch, batch_body
from iriai.protocol.membership.cluster_core import ClusterCore
from iriai.protocol.messages.effects import (
    Delivered,
    DocumentReceived,
    Effect,
    Part,
    PeerNoticed,
    PeersChanged,
    UsageLearned,
    Wake,
    WakeAt,
)
from iriai.protocol.messages.entries import Carried, EntryKind
from iriai.protocol.messages.gossip import Entries
from iriai.protocol.messages.members import Member, MemberState
from iriai.protocol.messages.scheduling import Summary
from iriai.sim.world.keyed_signatures import KeyedSigner, KeyedVerifier, signed_document

NOW = Instant(100.0, 1_800_000_000.0)
DECAY = Decay(604_800.0)


def member(name: str, cluster_name: str = "") -> ClusterMember:
    own = Member(name, 1, MemberState.ALIVE, "lab", (f"{name}:1",), cluster_name=cluster_name)
    return ClusterMember(
        own,
        NOW,
        incarnation=1,
        signer=KeyedSigner(1, name),
        verifier=KeyedVerifier(1),
        rng=Random(1),
        decay=DECAY,
    )


def published(peers: ClusterCore) -> tuple[Carried, ...]:
    """All entries that a machine holds, as others receive them."""
    return tuple(peers.snapshot(NOW))


def received(one: ClusterMember, sender: str, entries: Iterable[Carried]) -> list[Effect]:
    """The effects of these entries, once all of them were handled."""
    effects = one.handle(Delivered(sender, Part.DIRECTORY, Entries(tuple(entries))), NOW)
    while any(isinstance(each, WakeAt) and each.part is Part.ENTRIES for each in effects):
        effects = [each for each in effects if not isinstance(each, WakeAt)]
        effects += one.handle(Wake(Part.ENTRIES), NOW)
    return effects


def of_kind(events: Iterable[ForParts], kind: type) -> list[ForParts]:
    return [event for event in events if isinstance(event, kind)]


def met(cluster_name: str = "") -> tuple[ClusterMember, ClusterMember]:
    """The machine matsu, which has met ume of the cluster `cluster_name`, and ume."""
    matsu, ume = member("matsu"), member("ume", cluster_name)
    for each in (matsu, ume):
        each.begin(NOW)
    received(matsu, "ume", published(ume.peers))
    return matsu, ume


def test_the_parts_hear_who_is_there():
    matsu, _ = met()
    [changed] = of_kind(matsu.drain_events(), PeersChanged)
    assert [peer.name for peer in changed.peers] == ["matsu", "ume"]
    assert matsu.drain_events() == []
    assert [each.name for each in matsu.present()] == ["ume"]


def test_the_parts_hear_what_another_has_counted():
    matsu, ume = met()
    batch = LedgerBatch(0, NOW.wall_s, tuple(map(BatchRow.of, EARLIER)), 1.0)
    ume.publish(EntryKind.LEDGER, batch_body(batch), NOW)
    received(matsu, "ume", published(ume.peers))
    [learned] = of_kind(matsu.drain_events(), UsageLearned)
    assert (learned.machine, len(learned.rows)) == ("ume", len(EARLIER))


def test_a_batch_that_cannot_be_read_is_named():
    matsu, ume = met()
    ume.publish(EntryKind.LEDGER, b"no batch", NOW)
    effects = received(matsu, "ume", published(ume.peers))
    [notice] = [effect for effect in effects if isinstance(effect, PeerNoticed)]
    assert (notice.code, notice.machine) == ("malformed-batch", "ume")
    assert not of_kind(matsu.drain_events(), UsageLearned)


def test_a_document_of_an_operator_is_for_the_driver_and_a_forged_one_for_nobody():
    matsu, _ = met()
    document = signed_document(1, "oni", EntryKind.EJECT, 1, b"it lies", "lab")
    forged = signed_document(2, "oni", EntryKind.EJECT, 2, b"it lies", "lab")
    effects = received(matsu, "ume", (Carried(document, 0.0), Carried(forged, 0.0)))
    documents = [effect for effect in effects if isinstance(effect, DocumentReceived)]
    assert documents == [DocumentReceived(document)]


def test_many_entries_are_handled_a_few_at_a_time():
    matsu, _ = met()
    entries = tuple(
        Carried(signed_document(1, f"m{number}", EntryKind.EJECT, 1, b"", "lab"), 0.0)
        for number in range(SLICE + 1)
    )
    message = Delivered("ume", Part.DIRECTORY, Entries(entries))
    assert matsu.handle(message, NOW) == [WakeAt(Part.ENTRIES, NOW.steady_s)]
    assert matsu.handle(message, NOW) == [], "it is woken once"
    effects = matsu.handle(Wake(Part.ENTRIES), NOW)
    assert sum(isinstance(effect, DocumentReceived) for effect in effects) == SLICE
    assert WakeAt(Part.ENTRIES, NOW.steady_s) in effects


def hears(sender: str, cluster: str, of: str) -> tuple[bool, list[Effect]]:
    """Whether a summary for `cluster` is heard where ume is of `of`, and what is noted of it."""
    matsu, _ = met(of)
    matsu.drain_events()
    told = Delivered(sender, Part.BROKER, Summary(sender, cluster, (), (), 0))
    effects = matsu.handle(told, NOW)
    return told in matsu.drain_events(), effects


@pytest.mark.parametrize(("of", "cluster"), [("east", "east"), ("", "lab")])
def test_who_speaks_for_its_own_cluster_is_heard(of, cluster):
    assert hears("ume", cluster, of) == (True, [])


@pytest.mark.parametrize(("of", "cluster"), [("east", "west"), ("", "east")])
def test_who_speaks_for_another_is_not_and_that_is_named(of, cluster):
    is_heard, [notice] = hears("ume", cluster, of)
    assert not is_heard
    assert notice.code == "not-its-own"
    assert f"sent a message for {cluster}" in notice.message


def test_who_is_not_known_yet_is_not_heard_and_did_nothing_wrong():
    assert hears("oni", "east", "east") == (False, [])
