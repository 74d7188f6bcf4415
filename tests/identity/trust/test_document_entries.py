"""What the directory asks of identities: the real answers, and those of simulated worlds."""

from __future__ import annotations

import time

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from iriai.identity.documents.cluster_document import document_body
from iriai.identity.documents.revocation import Ejection
from iriai.identity.documents.signed_document import DocumentKind, sign_document
from iriai.identity.trust.document_entries import document_entry, document_kind
from iriai.model.instant import Instant
from iriai.protocol.directory.entry_table import EntryTable, MergeResult
from iriai.protocol.messages.entries import CLUSTER, Carried, Entry, EntryKind
from iriai.protocol.misbehaviour import Incidents
from iriai.sim.world.keyed_signatures import KeyedSigner, KeyedVerifier, signed_document
from tests.support.trusted import TrustedCluster


class Real:
    """Certificates and Ed25519."""

    def __init__(self, directory) -> None:
        self.cluster = TrustedCluster(directory)
        self.machines = {name: self.cluster.machine(name) for name in ("ume", "kiri")}
        self.verifier = self.machines["kiri"].trust

    def sign(self, machine: str, content: bytes) -> bytes:
        return self.machines[machine].identity.sign(content)

    def certificate(self, machine: str) -> bytes:
        return self.machines[machine].identity.certificate.der

    def document(self, kind: DocumentKind, body: bytes) -> Entry:
        key = Ed25519PrivateKey.generate()
        certificate = self.cluster.authority.operator("ann", key.public_key(), time.time())
        raw = sign_document(kind, body, key, certificate)
        return document_entry("lab", kind, raw, self.cluster.authority.certificate.der)

    def ejection(self, machine: str, number: int) -> Entry:
        body = msgspec.msgpack.encode(Ejection(machine, number / 1000, "sold"))
        return self.document(DocumentKind.EJECTION, body)

    def configuration(self, number: int, text: str) -> Entry:
        return self.document(DocumentKind.CONFIGURATION, document_body(number, 0.0, text))


class Simulated:
    """Keyed BLAKE2b."""

    def __init__(self, directory) -> None:
        self.verifier = KeyedVerifier(1, needs_certificates=True)

    def sign(self, machine: str, content: bytes) -> bytes:
        return KeyedSigner(1, machine).sign(content)

    def certificate(self, machine: str) -> bytes:
        return KeyedSigner(1, machine).certificate

    def ejection(self, machine: str, number: int) -> Entry:
        return signed_document(1, machine, EntryKind.EJECT, number, b"sold")

    def configuration(self, number: int, text: str) -> Entry:
        return signed_document(1, CLUSTER, EntryKind.CONFIGURATION, number, text.encode())


@pytest.fixture(params=[Real, Simulated], ids=["real", "simulated"])
def world(request, tmp_path):
    return request.param(tmp_path)


def test_a_machine_is_believed_once_it_was_introduced(world):
    signature = world.sign("ume", b"content")
    assert not world.verifier.knows("ume")

    assert world.verifier.introduce("ume", world.certificate("ume")) == ""

    assert world.verifier.knows("ume")
    assert world.verifier.verify("ume", b"content", signature)
    assert not world.verifier.verify("ume", b"other content", signature)
    assert not world.verifier.verify("ume", b"content", world.sign("kiri", b"content"))


@pytest.mark.parametrize("certificate", [b"", b"noise", bytes(9000)])
def test_no_certificate_introduces_nobody_and_it_is_said_why(world, certificate):
    assert world.verifier.introduce("ume", certificate)
    assert not world.verifier.knows("ume")


def test_the_certificate_of_another_introduces_nobody(world):
    assert world.verifier.introduce("ume", world.certificate("kiri"))
    assert not world.verifier.knows("ume")


def test_a_document_of_an_operator_is_good_under_its_own_number_alone(world):
    for good in (world.ejection("ume", 7000), world.configuration(3, "[order]\nburst = 3")):
        assert world.verifier.check_document(good) == ""
        for change in (
            {"version": good.version + 1},
            {"machine": "kiri"},
            {"signature": bytes(32)},
            {"body": b"noise"},
            {"lifetime_s": 5.0},
        ):
            assert world.verifier.check_document(msgspec.structs.replace(good, **change))


def test_ejections_of_two_machines_both_stay(world):
    table = EntryTable("kiri", "lab", world.verifier, Incidents())
    now = Instant(0.0, 0.0)
    one, other = world.ejection("ume", 7000), world.ejection("momo", 7000)

    for each in (one, other, world.ejection("ume", 6000)):
        table.merge(Carried(each, 0.0), "relay", now)

    assert [entry.row for entry in table] == [one.row, other.row]


def test_of_two_configurations_of_one_number_the_text_decides(world):
    one, other = (world.configuration(3, f"[order]\nburst = {n}") for n in (3, 4))
    small, large = sorted((one, other), key=lambda entry: entry.signature)
    table = EntryTable("kiri", "lab", world.verifier, Incidents())
    now = Instant(0.0, 0.0)

    assert table.merge(Carried(large, 0.0), "relay", now) is MergeResult.NEW
    assert table.merge(Carried(small, 0.0), "relay", now) is MergeResult.NEW
    assert table.merge(Carried(large, 0.0), "relay", now) is MergeResult.KNOWN


def test_an_entry_says_which_document_it_carries(world):
    assert document_kind(world.ejection("ume", 1)) is DocumentKind.EJECTION
    assert document_kind(world.configuration(1, "")) is DocumentKind.CONFIGURATION
