"""What a table holds of other clusters: their gateways and usage, within limits; nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from types import FrameType

import msgspec
import pytest

from iriai.model.instant import Instant
from iriai.protocol.directory.entry_table import (
    CLUSTERS_MAX,
    GATEWAYS_MAX,
    MACHINES_MAX,
    USAGES_MAX,
    EntryTable,
    MergeResult,
)
from iriai.protocol.directory.validation import gateway_body, member_body, usage_body
from iriai.protocol.messages.candidates import BrokerCandidate, ranked
from iriai.protocol.messages.entries import Carried, Entry, EntryKey, EntryKind, signed_content
from iriai.protocol.messages.members import ClusterUsage, Gateway, Member, MemberState
from iriai.protocol.misbehaviour import Incidents
from iriai.sim.world.keyed_signatures import KeyedSigner, KeyedVerifier

SEED = 1
NOW = Instant(0.0, 1.8e9)


def signed(machine: str, kind: EntryKind, body: bytes, cluster: str = "lab", by: str = "") -> Entry:
    draft = Entry(machine, kind, cluster, 1, 1, 100.0, body, b"")
    signature = KeyedSigner(SEED, by or machine).sign(signed_content(draft))
    return msgspec.structs.replace(draft, signature=signature)


def described(machine: str, cluster: str = "west", **more) -> Member:
    more = {"addresses": (f"{machine}:1",), "cluster_name": cluster} | more
    return Member(machine, 1, MemberState.ALIVE, "lab", **more)


def member(machine: str, cluster: str = "west") -> Entry:
    return signed(machine, EntryKind.MEMBER, member_body(described(machine, cluster)), cluster)


def gateway(machine: str, cluster: str = "west", by: str = "", of: str = "", **more) -> Entry:
    """The entry of a gateway; `by` has another sign it, `of` be in it with the own certificate."""
    certificate = KeyedSigner(SEED, of or machine).certificate
    body = gateway_body(Gateway(described(of or machine, cluster, **more), certificate))
    return signed(machine, EntryKind.GATEWAY, body, by=by)


def own_certificate(certificate: bytes) -> bytes:
    """The body of a gateway with a certificate that the authority did not sign."""
    return gateway_body(Gateway(described("ume"), certificate))


def usage(machine: str, cluster: str = "west") -> Entry:
    certificate = KeyedSigner(SEED, machine).certificate
    return signed(machine, EntryKind.USAGE, usage_body(ClusterUsage(cluster, certificate, b"")))


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python `work` takes, those of generators again for each element."""
    lines = 0

    def count(_frame: FrameType, event: str, _argument: object) -> object:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


class Desk:
    """The table of a machine of the cluster `east`, and what it noticed."""

    def __init__(self) -> None:
        self.notices = Incidents()
        verifier = KeyedVerifier(SEED, needs_certificates=True)
        self.table = EntryTable("own", "lab", verifier, self.notices, cluster="east")

    def take(self, entry: Entry) -> MergeResult:
        return self.table.merge(Carried(entry, 0.0), "relay", NOW)

    @property
    def codes(self) -> list[str]:
        return [code for code, _ in self.notices.counts]

    def gateways(self) -> set[str]:
        return {each.machine for each in self.table if each.kind is EntryKind.GATEWAY}


@pytest.mark.parametrize(
    "foreign",
    [
        member("ume"),
        signed("ume", EntryKind.CERTIFICATE, KeyedSigner(SEED, "ume").certificate, "west"),
        signed("ume", EntryKind.LEDGER, b"", "west"),
        signed("ume", EntryKind.AD, b"", "west"),
        signed("ume", EntryKind.AD, b""),
    ],
    ids=lambda entry: f"{entry.kind} for {entry.cluster}",
)
def test_what_concerns_another_cluster_is_not_held(foreign):
    desk = Desk()
    assert desk.take(foreign) is MergeResult.KNOWN
    assert (len(desk.table), desk.codes) == (0, [])


def test_a_gateway_brings_what_its_signature_is_verified_with():
    desk = Desk()
    assert desk.take(gateway("ume")) is MergeResult.NEW
    assert desk.take(usage("kiku")) is MergeResult.NEW
    assert desk.table.digest.checksum == desk.table.site_digest.checksum != 0


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (gateway("ume", by="kiku"), "forged-entry"),
        (gateway("ume", of="kiku"), "malformed-entry"),
        (gateway("ume", cluster="no name"), "malformed-entry"),
        (gateway("ume", addresses=("rm -rf /",)), "malformed-entry"),
        (signed("ume", EntryKind.GATEWAY, b"\xc1"), "malformed-entry"),
        (signed("ume", EntryKind.GATEWAY, bytes(13 << 10)), "entry-too-large"),
        (signed("ume", EntryKind.USAGE, bytes(65 << 10)), "entry-too-large"),
        (signed("ume", EntryKind.USAGE, b"\xc1"), "malformed-entry"),
        (usage("ume", "no name"), "malformed-entry"),
        (
            signed("ume", EntryKind.GATEWAY, gateway_body(Gateway(described("ume"), b"own"))),
            "bad-certificate",
        ),
        (
            signed("ume", EntryKind.GATEWAY, gateway_body(Gateway(described("ume")))),
            "unknown-signer",
        ),
    ],
)
def test_a_gateway_that_lies_is_refused_and_named(bad, code):
    desk = Desk()
    assert desk.take(bad) is MergeResult.REFUSED
    assert desk.codes == [code]
    assert len(desk.table) == 0


def test_of_many_gateways_of_a_cluster_all_keep_the_same_first():
    names = [f"w{number}" for number in range(3 * GATEWAYS_MAX)]
    best = set(ranked("west", map(BrokerCandidate, names))[:GATEWAYS_MAX])
    for seed in range(5):
        desk = Desk()
        Random(seed).shuffle(names)
        for name in names:
            desk.take(gateway(name, steadiness=1.0))
        assert desk.gateways() == best
        assert not desk.codes
        worse = next(name for name in names if name not in best)
        assert not desk.table.is_new(gateway(worse, steadiness=1.0).row), (
            "it is not asked for again"
        )


def test_so_many_clusters_are_known_and_no_more_are_taken():
    desk = Desk()
    for number in range(CLUSTERS_MAX):
        assert desk.take(gateway(f"w{number}", f"c{number}")) is MergeResult.NEW
    assert desk.take(gateway("more", "more")) is MergeResult.REFUSED
    assert desk.codes == ["too-many-machines"]
    assert desk.take(gateway("second", "c1")) is MergeResult.NEW


def test_usage_of_so_many_gateways_is_known_and_no_more_is_taken():
    desk = Desk()
    for number in range(USAGES_MAX):
        assert desk.take(usage(f"w{number}")) is MergeResult.NEW
    assert desk.take(usage("more")) is MergeResult.REFUSED
    assert desk.codes == ["too-many-machines"]


def test_an_unsigned_gateway_is_not_remembered_in_place_of_the_true_one():
    desk = Desk()
    for number in range(3 * GATEWAYS_MAX):
        assert desk.take(gateway(f"w{number}", by="kiku", steadiness=0.0)) is MergeResult.REFUSED
        desk.take(gateway(f"w{number}", steadiness=1.0))
    names = [f"w{number}" for number in range(3 * GATEWAYS_MAX)]
    assert desk.gateways() == set(ranked("west", map(BrokerCandidate, names))[:GATEWAYS_MAX])
    worse = next(name for name in names if name not in desk.gateways())
    later = msgspec.structs.replace(gateway(worse, by="kiku", steadiness=0.0), version=2)
    assert desk.take(later) is MergeResult.REFUSED
    assert desk.table.is_new(later.row), "the true one of this version may still come"


def test_a_gateway_that_moves_to_another_cluster_leaves_its_place():
    desk = Desk()
    for number in range(CLUSTERS_MAX):
        desk.take(gateway(f"w{number}", f"c{number}"))
    draft = msgspec.structs.replace(gateway("w0", "c1"), version=2)
    signature = KeyedSigner(SEED, "w0").sign(signed_content(draft))
    assert desk.take(msgspec.structs.replace(draft, signature=signature)) is MergeResult.NEW
    assert desk.take(gateway("more", "more")) is MergeResult.NEW, "c0 has no gateway any more"


@pytest.mark.parametrize("made", [usage, gateway])
def test_a_forged_entry_costs_the_same_however_many_are_held(made):
    costs = []
    for held in (10, 500):
        desk = Desk()
        for number in range(held):
            desk.table.put(member(f"e{number}", "east"), NOW)
        for number in range(CLUSTERS_MAX if held > CLUSTERS_MAX else 1):
            desk.take(gateway(f"w{number}", f"c{number}"))
            desk.take(usage(f"w{number}"))
        forged = made("w0", "c0")
        forged = msgspec.structs.replace(forged, version=2)  # another's signature
        costs.append(lines_run(lambda desk=desk, forged=forged: desk.take(forged)))
        assert "forged-entry" in desk.codes
    assert costs[0] == costs[1]


def test_gateways_take_no_place_of_a_machine_of_the_own_cluster():
    desk = Desk()
    for number in range(CLUSTERS_MAX):
        desk.take(gateway(f"w{number}", f"c{number}"))
    for number in range(MACHINES_MAX):
        desk.table.put(member(f"e{number}", "east"), NOW)
    certificate = KeyedSigner(SEED, "more").certificate
    assert (
        desk.take(signed("more", EntryKind.CERTIFICATE, certificate, "east")) is MergeResult.REFUSED
    )


def test_a_gateway_that_expires_makes_room():
    desk = Desk()
    desk.take(gateway("ume"))
    desk.table.expire(Instant(101.0, 1.8e9 + 101.0))
    assert desk.table.get(EntryKey("ume", EntryKind.GATEWAY)) is None
    assert desk.table.site_digest.checksum == 0
