"""A machine as a member of its cluster: what its parts hear of what others say."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from experiments.gossip_membership import EARLIER

from iriai.cluster.member import ALONE_S, SETTLED_S, ClusterMember, ForParts
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.protocol.directory.entry_slices import SLICE
from iriai.protocol.directory.validation import usage_body
from iriai.protocol.ledger.ledger import LISTEN_S, BatchRow, LedgerBatch, batch_body
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
from iriai.protocol.messages.members import ClusterUsage
from iriai.protocol.messages.scheduling import Summary
from iriai.sim.world.keyed_signatures import signed_document
from tests.cluster.machines import DECAY, NOW, member


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
    matsu.begin(NOW)
    start(ume)
    received(matsu, "ume", published(ume.peers))
    return matsu, ume


def start(one: ClusterMember) -> None:
    """Bring up the first of its cluster, which has looked around by now."""
    one.begin(later(-ALONE_S))
    for after_s in (-ALONE_S, 0.0):
        one.handle(Wake(Part.LEDGER), later(after_s))


def later(after_s: float) -> Instant:
    return Instant(NOW.steady_s + after_s, NOW.wall_s + after_s)


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


def usage_of(cluster: str, used_s: float, rate: float = 1.0) -> bytes:
    """The body of an entry with the usage of a cluster."""
    row = BatchRow("lab", "ann", used_s, NOW.wall_s, 1, 1.0)
    batch = batch_body(LedgerBatch(0, NOW.wall_s, (row,), rate))
    return usage_body(ClusterUsage(cluster, b"", batch))


def learned_of(cluster: str, *bodies: bytes) -> tuple[list[UsageLearned], list[Effect]]:
    """What matsu learns of what ume of the cluster `east` publishes, and the effects."""
    matsu, ume = met("east")
    matsu.drain_events()
    effects: list[Effect] = []
    for number, body in enumerate(bodies):
        ume.publish(EntryKind.USAGE, body, later(60.0 * (number + 1 - len(bodies))))
        effects += received(matsu, "ume", published(ume.peers))
    return of_kind(matsu.drain_events(), UsageLearned), effects


def test_the_usage_of_another_cluster_counts_as_one():
    [learned], effects = learned_of("east", usage_of("east", 50.0))
    assert (learned.machine, [row.counter for row in learned.rows]) == ("east/", [50.0])
    assert not of_kind(effects, PeerNoticed)


def test_a_smaller_sum_of_a_cluster_is_no_news_and_no_offence():
    learned, effects = learned_of("east", usage_of("east", 50.0), usage_of("east", 40.0))
    assert len(learned) == 1
    assert not of_kind(effects, PeerNoticed)


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        (usage_of("east", 1e14), "use-beyond-size"),
        (usage_of("east", 1.0, rate=1e6), "malformed-batch"),
        (usage_body(ClusterUsage("east", b"", b"no batch")), "malformed-batch"),
    ],
)
def test_usage_that_no_cluster_can_have_is_refused_and_named(lie, code):
    learned, effects = learned_of("east", lie)
    [notice] = of_kind(effects, PeerNoticed)
    assert (learned, notice.code, notice.machine) == ([], code, "ume")


def test_what_another_says_of_the_own_cluster_does_not_count():
    learned, effects = learned_of("east", usage_of("lab", 50.0))
    assert (learned, of_kind(effects, PeerNoticed)) == ([], [])


def used(rows: Iterable[LedgerRow]) -> dict[str, float]:
    return {str(row.account): DECAY.restored(row).at(NOW.wall_s) for row in rows}


def test_the_sums_of_a_cluster_are_those_of_its_machines():
    matsu, ume = met()
    take = member("take", "east")
    start(take)
    first, second = (matsu, ume) if matsu.site.candidates()[0] == "matsu" else (ume, matsu)
    batch = LedgerBatch(0, NOW.wall_s, tuple(map(BatchRow.of, EARLIER)), 1.0)
    second.publish(EntryKind.LEDGER, batch_body(batch), NOW)
    for one, other in ((first, second), (second, first), (first, take), (second, take)):
        received(one, other.name, published(other.peers))
    for each in (first, second):
        each.handle(Wake(Part.LEDGER), later(LISTEN_S))
        each.handle(Wake(Part.LEDGER), later(LISTEN_S + SETTLED_S))
    assert not [entry for entry in second.peers.table if entry.kind is EntryKind.USAGE]
    take.drain_events()
    told = tuple(Carried(each.entry, 0.0) for each in published(first.peers))
    received(take, first.name, told)
    [learned] = of_kind(take.drain_events(), UsageLearned)
    assert learned.machine == "lab/"
    assert used(learned.rows) == pytest.approx(used(EARLIER))
