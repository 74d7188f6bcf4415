"""What a directory refuses, counts and names; and what it keeps, and for how long."""

from __future__ import annotations

from math import inf, nan

import msgspec
import pytest

from iriai.model.instant import Instant
from iriai.protocol.directory.entry_table import MACHINES_MAX, EntryTable, MergeResult
from iriai.protocol.directory.validation import member_body
from iriai.protocol.messages.entries import (
    CLUSTER,
    Carried,
    Entry,
    EntryKey,
    EntryKind,
    signed_content,
)
from iriai.protocol.messages.members import Member, MemberState
from iriai.protocol.misbehaviour import Incidents
from iriai.sim.world.keyed_signatures import KeyedSigner, KeyedVerifier, signed_document

SEED = 1


def at(steady_s: float) -> Instant:
    return Instant(steady_s, 1.8e9 + steady_s)


def entry(
    machine="ume", kind=EntryKind.AD, *, version=1, incarnation=1, body=b"ad", by=None, **more
) -> Entry:
    """An entry, signed by its owner or by somebody else."""
    draft = Entry(
        machine,
        kind,
        more.get("cluster", "lab"),
        incarnation,
        version,
        more.get("lifetime_s", 100.0),
        body,
        b"",
    )
    signature = KeyedSigner(SEED, machine if by is None else by).sign(signed_content(draft))
    return msgspec.structs.replace(draft, signature=signature)


def member(machine="ume", incarnation=1, state=MemberState.ALIVE, **more) -> bytes:
    return member_body(Member(machine, incarnation, state, "lab", **more))


class Desk:
    """A table, and what it noticed."""

    def __init__(self, *, needs_certificates=False) -> None:
        self.notices = Incidents()
        self.verifier = KeyedVerifier(SEED, needs_certificates)
        self.table = EntryTable("own", "lab", self.verifier, self.notices)

    def take(self, each: Entry, at_s=0.0, age_s=0.0, sender="relay") -> MergeResult:
        return self.table.merge(Carried(each, age_s), sender, at(at_s))

    def codes(self) -> list[tuple[str, str]]:
        return list(self.notices.counts)


EJECTION = signed_document(SEED, "ume", EntryKind.EJECT, 7, b"stolen")


def test_a_machine_that_lost_its_state_verifies_what_it_published_before():
    desk = Desk(needs_certificates=True)
    own = entry("own", EntryKind.CERTIFICATE, body=KeyedSigner(SEED, "own").certificate)
    desk.table.put(own, at(0.0))
    earlier = entry("own", EntryKind.MEMBER, incarnation=9, body=member("own", 9))
    assert desk.take(earlier) is MergeResult.NEW
    assert desk.table.drain_echoes() == [earlier]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (entry(by="mallory"), "forged-entry"),
        (msgspec.structs.replace(entry(), version=9), "forged-entry"),
        (msgspec.structs.replace(entry(), lifetime_s=1e6), "forged-entry"),
        (entry("ume", EntryKind.EJECT, lifetime_s=0.0, body=bytes(40)), "forged-document"),
        (msgspec.structs.replace(EJECTION, machine="kiri"), "forged-document"),
        (msgspec.structs.replace(EJECTION, version=8), "forged-document"),
        (msgspec.structs.replace(EJECTION, signature=bytes(32)), "forged-document"),
        (entry(body=bytes(10 << 20)), "entry-too-large"),
        (entry("no name"), "malformed-entry"),
        (entry("x" * 32), "malformed-entry"),
        (entry(cluster="../lab"), "malformed-entry"),
        (entry(version=-1), "malformed-entry"),
        (entry(incarnation=2**60), "malformed-entry"),
        (entry(lifetime_s=nan), "malformed-entry"),
        (entry(lifetime_s=inf), "malformed-entry"),
        (entry(CLUSTER), "malformed-entry"),
        (entry("ume", EntryKind.EJECT), "malformed-entry"),
        (entry(lifetime_s=0.0), "malformed-entry"),
        (entry("ume", EntryKind.CONFIGURATION, lifetime_s=0.0), "malformed-entry"),
        (entry(kind=EntryKind.MEMBER, body=b"\xc1"), "malformed-entry"),
        (entry(kind=EntryKind.MEMBER, body=member("kiri")), "malformed-entry"),
        (entry(kind=EntryKind.MEMBER, body=member(incarnation=2)), "malformed-entry"),
        (entry(kind=EntryKind.MEMBER, body=member(state=MemberState.DEAD)), "malformed-entry"),
        (entry(kind=EntryKind.MEMBER, body=member(addresses=("a:1",) * 9)), "malformed-entry"),
        (entry(kind=EntryKind.MEMBER, body=member(addresses=("rm -rf /",))), "malformed-entry"),
        (entry(kind=EntryKind.MEMBER, body=member(steadiness=7.0)), "malformed-entry"),
        (entry(kind=EntryKind.MEMBER, body=member(instance="x" * 200)), "malformed-entry"),
        (entry(kind=EntryKind.CERTIFICATE, body=b"self-made"), "bad-certificate"),
    ],
)
def test_a_bad_entry_is_refused_and_named(bad, code):
    desk = Desk()

    assert desk.take(bad) is MergeResult.REFUSED

    assert desk.codes() == [(code, "relay")]
    [notice] = desk.notices.drain()
    assert notice.message
    assert len(desk.table) == 0
    assert desk.table.digest.checksum == 0


def test_an_age_that_is_none_is_refused():
    desk = Desk()
    for age_s in (nan, inf, -1.0):
        assert desk.take(entry(), age_s=age_s) is MergeResult.REFUSED


def test_a_replayed_entry_changes_nothing_and_is_not_named():
    desk = Desk()
    desk.take(entry(version=1))
    desk.take(entry(version=2, body=b"later"))

    assert desk.take(entry(version=1)) is MergeResult.KNOWN

    assert desk.table.get(EntryKey("ume", EntryKind.AD)).body == b"later"
    assert desk.codes() == []


def test_nobody_who_is_not_known_signs():
    desk = Desk(needs_certificates=True)
    assert desk.take(entry()) is MergeResult.REFUSED
    assert desk.codes() == [("unknown-signer", "relay")]
    assert desk.notices.drain() == []  # usual once: the certificate is on its way

    certificate = KeyedSigner(SEED, "ume").certificate
    assert desk.take(entry(kind=EntryKind.CERTIFICATE, body=certificate)) is MergeResult.NEW
    assert desk.take(entry()) is MergeResult.NEW


def test_a_full_table_takes_no_more_machines():
    desk = Desk()
    for number in range(MACHINES_MAX):
        assert desk.take(entry(f"m{number}")) is MergeResult.NEW

    assert desk.take(entry("one-more")) is MergeResult.REFUSED
    assert desk.take(EJECTION) is MergeResult.NEW
    assert desk.take(entry("m0", version=2)) is MergeResult.NEW
    assert desk.codes() == [("too-many-machines", "relay")]


def test_what_is_repeated_is_named_at_ten_times_as_often():
    desk = Desk()
    for _ in range(250):
        desk.take(entry(by="mallory"))
    assert [notice.count for notice in desk.notices.drain()] == [1, 10, 100]


def test_an_entry_is_over_by_the_clock_of_who_holds_it_and_its_age_counts():
    desk = Desk()
    desk.take(entry(lifetime_s=100.0), at_s=1000.0, age_s=60.0)

    desk.table.expire(at(1039.0))
    assert len(desk.table) == 1
    desk.table.expire(at(1041.0))
    assert len(desk.table) == 0
    assert desk.table.drain_changes() == ([], [EntryKey("ume", EntryKind.AD)])


def test_what_was_over_is_not_brought_back_by_a_younger_age():
    desk = Desk()
    desk.take(entry(), at_s=0.0)
    desk.table.expire(at(101.0))

    assert desk.take(entry(), at_s=102.0, age_s=0.0) is MergeResult.KNOWN
    assert desk.take(entry(version=2), at_s=103.0) is MergeResult.NEW


def test_when_a_machine_leaves_only_that_and_its_ledger_stay():
    desk = Desk()
    for kind in (EntryKind.AD, EntryKind.LEDGER):
        desk.take(entry(kind=kind))
    desk.take(entry(kind=EntryKind.MEMBER, version=2, body=member(state=MemberState.LEFT)))

    assert {each.kind for each in desk.table} == {EntryKind.MEMBER, EntryKind.LEDGER}
    assert desk.take(entry(kind=EntryKind.AD)) is MergeResult.KNOWN  # a relay that had not heard


@pytest.mark.parametrize("first_is_smaller", [True, False])
def test_of_two_documents_of_one_number_the_same_stays_everywhere(first_is_smaller):
    one = signed_document(SEED, CLUSTER, EntryKind.CONFIGURATION, 7, b"one")
    two = signed_document(SEED, CLUSTER, EntryKind.CONFIGURATION, 7, b"two")
    small, large = sorted((one, two), key=lambda each: each.row.mark)
    desk = Desk()
    for each in (small, large) if first_is_smaller else (large, small):
        desk.take(each)

    assert desk.table.get(one.key) == small
    if not first_is_smaller:
        assert desk.codes() == [("two-documents-one-number", CLUSTER)]


def test_an_ejection_of_ourselves_is_no_echo_and_outlives_our_leaving():
    desk = Desk()
    ejection = signed_document(SEED, "own", EntryKind.EJECT, 7, b"stolen")
    assert desk.take(ejection) is MergeResult.NEW
    assert desk.table.drain_echoes() == []


def test_a_table_outlives_its_machine_on_disk():
    desk, later = Desk(needs_certificates=True), Desk(needs_certificates=True)
    certificate = KeyedSigner(SEED, "ume").certificate
    desk.take(entry(kind=EntryKind.CERTIFICATE, body=certificate))
    desk.take(entry(kind=EntryKind.LEDGER))
    kept = [desk.table.carried(each.key, at(10.0)) for each in desk.table]

    later.table.merge_all(reversed(kept), "", at(20.0))

    assert later.table.digest.checksum == desk.table.digest.checksum


def test_replacing_for_ever_does_not_fill_the_memory():
    desk = Desk()
    for version in range(1, 2000):
        desk.take(entry(version=version))
    assert len(desk.table._ends) < 10
