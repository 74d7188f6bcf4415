"""Whom a machine believes: certificates, signatures, and connections between machines."""

from __future__ import annotations

import ssl
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from iriai.identity.certificates.machine_identity import Enrolment, MachineIdentity
from iriai.identity.documents.revocation import Ejection
from iriai.identity.documents.signed_document import DocumentKind, sign_document
from iriai.identity.trust.tls import client_context, server_context
from iriai.identity.trust.trust import Trust
from iriai.model.problem import Problem, Refused
from tests.support.trusted import Trusted, TrustedCluster

YEAR_S = 365 * 86_400.0


def test_a_machine_is_believed_by_another_of_its_cluster(tmp_path: Path):
    cluster = TrustedCluster(tmp_path)
    ume, momo = cluster.machine("ume"), cluster.machine("momo")
    assert momo.trust.check_peer(ume.identity.certificate.der) == "ume"
    assert ume.identity.cluster == "lab"
    assert ume.identity.certificate.subject.uri == f"iriai://{ume.identity.cluster_id}/machine/ume"


def test_what_a_machine_signed_is_verified_once_its_certificate_came(tmp_path: Path):
    cluster = TrustedCluster(tmp_path)
    ume, momo = cluster.machine("ume"), cluster.machine("momo")
    signature = ume.identity.sign(b"free: 4 cpus")
    assert not momo.trust.verify("ume", b"free: 4 cpus", signature)
    momo.trust.learn(ume.identity.certificate.der)
    assert momo.trust.verify("ume", b"free: 4 cpus", signature)
    assert not momo.trust.verify("ume", b"free: 8 cpus", signature)
    momo.trust.learn(momo.identity.certificate.der)
    assert not momo.trust.verify("momo", b"free: 4 cpus", signature)


def test_an_identity_is_the_same_when_it_is_read_again(tmp_path: Path):
    ume = TrustedCluster(tmp_path).machine("ume")
    again = MachineIdentity.load(ume.identity.directory)
    ume.trust.learn(again.certificate.der)
    assert (again.name, again.cluster_id) == ("ume", ume.identity.cluster_id)
    assert ume.trust.verify("ume", b"x", again.sign(b"x"))


def refusal(call, *arguments) -> Problem:
    with pytest.raises(Problem) as caught:
        call(*arguments)
    return caught.value


def test_a_certificate_of_another_authority_is_refused(tmp_path: Path):
    ume = TrustedCluster(tmp_path).machine("ume")
    stranger = TrustedCluster(tmp_path, "other").machine("stranger")
    problem = refusal(ume.trust.check_peer, stranger.identity.certificate.der)
    assert problem.code == "foreign-authority"
    assert "stranger" in problem.message


def test_a_machine_cannot_sign_machines(tmp_path: Path):
    """Even where its certificate is used as an issuer's."""
    cluster = TrustedCluster(tmp_path)
    ume = cluster.machine("ume")
    forger = cluster.machine("forger")
    cluster.issuer.certificate = forger.identity.certificate
    forged = cluster.issuer.machine(Enrolment.begin("root").request(), "root", time.time())
    assert refusal(ume.trust.check_peer, forged.der).code == "bad-certificate"


def test_issuers_and_operators_are_no_machines(tmp_path: Path):
    cluster = TrustedCluster(tmp_path)
    ume = cluster.machine("ume")
    key = Ed25519PrivateKey.generate().public_key()
    ann = cluster.authority.operator("ann", key, time.time())
    for certificate in (cluster.issuer.certificate, ann, cluster.authority.certificate):
        assert refusal(ume.trust.check_peer, certificate.der).code == "not-a-machine"


@pytest.mark.parametrize(
    ("off_s", "code"), [(-YEAR_S, "certificate-not-yet"), (2 * YEAR_S, "certificate-expired")]
)
def test_a_clock_that_is_off_is_named(tmp_path: Path, off_s: float, code: str):
    ume = TrustedCluster(tmp_path).machine("ume")
    elsewhere = Trust(ume.identity.authority, lambda: time.time() + off_s)
    problem = refusal(elsewhere.check_peer, ume.identity.certificate.der)
    assert problem.code == code
    assert "clock" in problem.message
    assert "set this machine's clock" in problem.hint


@pytest.mark.parametrize("garbage", [b"", b"\x30\x03\x02\x01\x01", bytes(5000)])
def test_what_is_no_certificate_is_refused_and_named(tmp_path: Path, garbage: bytes):
    ume = TrustedCluster(tmp_path).machine("ume")
    assert refusal(ume.trust.check_peer, garbage).code == "bad-certificate"


def eject(cluster: TrustedCluster, machine: str, at_wall_s: float) -> bytes:
    """A document that throws `machine` out, of a new operator."""
    key = Ed25519PrivateKey.generate()
    certificate = cluster.authority.operator("ann", key.public_key(), time.time())
    body = msgspec.msgpack.encode(Ejection(machine, at_wall_s, "sold"))
    return sign_document(DocumentKind.EJECTION, body, key, certificate)


def test_an_ejected_machine_is_refused_and_believed_no_more(tmp_path: Path):
    cluster = TrustedCluster(tmp_path)
    ume, momo = cluster.machine("ume"), cluster.machine("momo")
    ume.trust.learn(momo.identity.certificate.der)
    assert ume.trust.receive_ejection(eject(cluster, "momo", time.time())) == "momo"
    problem = refusal(ume.trust.check_peer, momo.identity.certificate.der)
    assert problem.code == "ejected"
    assert "by operator ann (sold)" in problem.message
    assert not ume.trust.verify("momo", b"x", momo.identity.sign(b"x"))


def test_an_ejection_is_news_once(tmp_path: Path):
    cluster = TrustedCluster(tmp_path)
    ume = cluster.machine("ume")
    document = eject(cluster, "momo", 1000.0)
    assert ume.trust.receive_ejection(document) == "momo"
    assert ume.trust.receive_ejection(document) is None
    assert ume.trust.receive_ejection(eject(cluster, "momo", 900.0)) is None


def test_a_machine_that_joined_again_after_it_was_ejected_is_welcome(tmp_path: Path):
    cluster = TrustedCluster(tmp_path)
    ume, momo = cluster.machine("ume"), cluster.machine("momo")
    ume.trust.learn(momo.identity.certificate.der)
    at_s = time.time()
    ume.trust.receive_ejection(eject(cluster, "momo", at_s))
    again = cluster.issuer.machine(Enrolment.begin("momo").request(), "momo", at_s + 1)
    assert ume.trust.check_peer(again.der) == "momo"


def test_all_that_an_ejected_issuer_signed_is_refused(tmp_path: Path):
    cluster = TrustedCluster(tmp_path)
    ume = cluster.machine("ume")
    ume.trust.receive_ejection(eject(cluster, "first", time.time()))
    later = cluster.issuer.machine(Enrolment.begin("momo").request(), "momo", time.time() + 60)
    problem = refusal(ume.trust.check_peer, later.der)
    assert problem.code == "ejected"
    assert "its issuer on first" in problem.message


@pytest.mark.parametrize("forger", ["machine", "other-cluster", "altered"])
def test_an_ejection_that_no_operator_signed_is_refused(tmp_path: Path, forger: str):
    cluster = TrustedCluster(tmp_path)
    ume = cluster.machine("ume")
    document = eject(cluster, "momo", time.time())
    if forger == "machine":
        key = Ed25519PrivateKey.generate()
        document = sign_document(DocumentKind.EJECTION, b"", key, ume.identity.certificate)
    elif forger == "other-cluster":
        document = eject(TrustedCluster(tmp_path, "other"), "momo", time.time())
    else:
        document = document.replace(b"momo", b"nobo")
    assert isinstance(refusal(ume.trust.receive_ejection, document), Refused)
    assert not ume.trust.ejections


def test_two_machines_of_one_name_are_told_apart(tmp_path: Path):
    cluster = TrustedCluster(tmp_path)
    ume, momo = cluster.machine("ume"), cluster.machine("momo")
    ume.trust.learn(momo.identity.certificate.der)
    other = cluster.issuer.machine(Enrolment.begin("momo").request(), "momo", time.time() + 60)
    assert refusal(ume.trust.check_peer, other.der).code == "two-keys"
    assert ume.trust.check_peer(momo.identity.certificate.der) == "momo"


def test_a_renewed_certificate_takes_the_place_of_the_old(tmp_path: Path):
    cluster = TrustedCluster(tmp_path)
    ume, momo = cluster.machine("ume"), cluster.machine("momo")
    renewed = momo.identity.renewed(
        cluster.issuer.machine(momo.identity.request(), "momo", time.time() + YEAR_S / 2)
    )
    assert ume.trust.learn(renewed.certificate.der) == "momo"
    assert MachineIdentity.load(renewed.directory).certificate.ends_wall_s > time.time() + YEAR_S


def test_a_certificate_of_another_machine_renews_nothing(tmp_path: Path):
    cluster = TrustedCluster(tmp_path)
    ume, momo = cluster.machine("ume"), cluster.machine("momo")
    assert isinstance(refusal(ume.identity.renewed, momo.identity.certificate), Refused)
    assert MachineIdentity.load(ume.identity.directory).certificate.der == (
        ume.identity.certificate.der
    )


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ...]:
    """Both ends of one connection, with the bytes carried by hand."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server),
    )
    waiting = list(ends)
    for _ in range(8):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
    for end in ends:  # what the other end refused arrives with the first read
        with suppress(ssl.SSLWantReadError):
            end.read(1)
    assert not waiting
    return ends


def test_both_ends_of_a_connection_know_who_the_other_is(tmp_path: Path):
    cluster = TrustedCluster(tmp_path)
    ume, momo = cluster.machine("ume"), cluster.machine("momo")
    server, client = handshake(server_context(*ume), client_context(*momo))
    assert ume.trust.check_peer(server.getpeercert(True) or b"") == "momo"
    assert momo.trust.check_peer(client.getpeercert(True) or b"") == "ume"
    assert server.version() == "TLSv1.3"


def test_a_newcomer_without_a_certificate_is_let_in_as_nobody(tmp_path: Path):
    ume = TrustedCluster(tmp_path).machine("ume")
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.verify_mode = ssl.CERT_NONE
    server, client = handshake(server_context(*ume), bare)
    assert server.getpeercert(True) is None
    assert client.getpeercert(True) == ume.identity.certificate.der


@pytest.mark.parametrize("stranger_dials", [True, False])
def test_a_connection_with_another_cluster_fails(tmp_path: Path, stranger_dials: bool):
    ume = TrustedCluster(tmp_path).machine("ume")
    stranger = TrustedCluster(tmp_path, "other").machine("stranger")
    server, client = (ume, stranger) if stranger_dials else (stranger, ume)
    with pytest.raises(ssl.SSLError):
        handshake(server_context(*server), client_context(*client))


def test_the_time_of_a_certificate_is_left_to_the_check_that_names_it(tmp_path: Path):
    cluster = TrustedCluster(tmp_path)
    ume = cluster.machine("ume")
    old: Trusted = cluster.machine("old", at_wall_s=time.time() - 2 * YEAR_S)
    server, _ = handshake(server_context(*ume), client_context(*old))
    problem = refusal(ume.trust.check_peer, server.getpeercert(True))
    assert problem.code == "certificate-expired"
