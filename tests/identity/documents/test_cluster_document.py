"""One configuration for all, whatever order its documents come in."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.identity.certificates.authority import Authority
from iriai.identity.documents.cluster_document import (
    ClusterDocument,
    ClusterDocuments,
    document_body,
    read_cluster_document,
    wins,
)
from iriai.identity.documents.operator_key import OperatorKey
from iriai.identity.documents.signed_document import DocumentKind, sign_document
from iriai.model.problem import Problem, Refused, UsageProblem


def document(number: int, text: str, operator: str = "ann") -> ClusterDocument:
    """As it is once its signature has been found good."""
    import hashlib

    digest = hashlib.sha256(text.encode()).hexdigest()
    return ClusterDocument(number, operator, 0.0, text, digest, b"", b"")


DOCUMENTS = st.lists(
    st.builds(document, st.integers(1, 4), st.sampled_from(["a", "b", "c", "d"])), max_size=12
)


@given(DOCUMENTS, st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(documents, random):
    """Convergence: any two machines that saw the same are of one mind."""
    shuffled = documents * 2
    random.shuffle(shuffled)
    one, other = ClusterDocuments(), ClusterDocuments()
    for each in documents:
        one.receive(each)
    for each in shuffled:
        other.receive(each)
    assert one.held == other.held
    if documents:
        highest = max(each.number for each in documents)
        assert one.held.number == highest
        assert one.held.digest == min(e.digest for e in documents if e.number == highest)


@given(DOCUMENTS)
def test_the_document_in_force_never_goes_back(documents):
    held = ClusterDocuments()
    for each in documents:
        before = held.held
        outcome = held.receive(each)
        if before is None:
            assert outcome
        else:
            assert held.held == before or wins(held.held, before)
            assert outcome == (held.held != before)


def test_two_documents_of_one_number_are_reported_once():
    held = ClusterDocuments(document(3, "a", "ann"))
    for _ in range(2):
        held.receive(document(3, "b", "bob"))
    (words,) = held.conflicts
    assert "number 3" in words
    assert "ann" in words
    assert "bob" in words


def signed(authority: Authority, number: int, text: str, body: bytes | None = None) -> bytes:
    key = OperatorKey.generate("ann")
    certificate = authority.operator("ann", key.signing.public_key(), time.time())
    if body is None:
        body = document_body(number, time.time(), text)
    return sign_document(DocumentKind.CONFIGURATION, body, key.signing, certificate)


def test_a_document_is_read_as_it_was_signed():
    authority = Authority.create("lab", time.time())
    raw = signed(authority, 7, "[order]\nburst = 3")
    found = read_cluster_document(raw, authority.certificate.der)
    assert (found.number, found.operator, found.text) == (7, "ann", "[order]\nburst = 3")
    assert found.raw == raw


def test_nobody_signs_what_is_no_configuration():
    with pytest.raises(UsageProblem):
        document_body(1, 0.0, "[order]\nburts = 3")


@given(st.integers(0, 400), st.integers(1, 255))
def test_a_document_that_was_altered_is_refused(place: int, flip: int):
    raw = bytearray(signed(AUTHORITY, 1, "[order]\nburst = 3"))
    raw[place % len(raw)] ^= flip
    with pytest.raises(Problem):
        read_cluster_document(bytes(raw), AUTHORITY.certificate.der)


AUTHORITY = Authority.create("lab", time.time())


@pytest.mark.parametrize("body", [b"", b"\xc0", b"\x83"])
def test_a_signed_document_without_sense_is_refused(body: bytes):
    with pytest.raises(Refused):
        read_cluster_document(signed(AUTHORITY, 1, "", body), AUTHORITY.certificate.der)
