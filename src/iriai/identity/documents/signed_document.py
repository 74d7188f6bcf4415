"""A signed document for the whole cluster: body, operator's certificate, signature.

It travels through machines that need not be trusted and is checked where it arrives.
docs/spec/004-identity.md, section 6.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeVar

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from iriai.identity.certificates.certificate import (
    Certificate,
    SubjectKind,
    check_signed_for,
    read_certificate,
)
from iriai.model.bounds import Document, KeyBytes, Word, decoded
from iriai.model.problem import Refused

DOCUMENT_BYTES_MAX = 1 << 20
"""The longest document: that of a configuration, which must fit into a message of the gossip."""
_CONTEXT = b"iriai-document-1\0"
T = TypeVar("T")


class DocumentKind(StrEnum):
    """The kind of a document; part of what is signed."""

    CONFIGURATION = "configuration"
    EJECTION = "ejection"
    TRUST = "trust"
    """The users for whom a home speaks on other machines; see `identity.trust.trusted_home`."""
    ROSTER = "roster"
    """Who the operators are; see `operator_roster`. The authority itself signs it."""


class _Signed(msgspec.Struct, frozen=True, array_like=True):
    kind: Word
    body: Document
    certificate: Document
    signature: KeyBytes


class ReadDocument(NamedTuple):
    """A document with a valid signature."""

    operator: str
    body: bytes
    key: bytes
    """The public key of the signer."""


def sign_document(
    kind: DocumentKind, body: bytes, key: Ed25519PrivateKey, certificate: Certificate
) -> bytes:
    """Sign `body` as a document of the operator who holds `key` and `certificate`."""
    signature = key.sign(_signed_bytes(kind, body))
    return msgspec.msgpack.encode(_Signed(kind, body, certificate.der, signature))


def read_document(document: bytes, kind: DocumentKind, authority_der: bytes) -> ReadDocument:
    """The body of `document`, which must be of this kind and by an operator of this cluster.

    Raises:
        Refused: it is malformed, or nobody who may say so signed it.
    """
    if len(document) > DOCUMENT_BYTES_MAX:
        raise _refused(kind, f"it has {len(document)} bytes; the limit is {DOCUMENT_BYTES_MAX}")
    try:
        signed = decoded(msgspec.msgpack.Decoder(_Signed), document)
    except msgspec.DecodeError as error:
        raise _refused(kind, str(error)) from None
    certificate = read_certificate(signed.certificate)
    check_signed_for(certificate, read_certificate(authority_der))
    subject = certificate.subject
    is_roster = kind is DocumentKind.ROSTER
    if subject.kind != (SubjectKind.AUTHORITY if is_roster else SubjectKind.OPERATOR):
        who = "not the authority" if is_roster else "who is not an operator"
        raise _refused(kind, f"{subject.kind} {subject.name} signed it, {who}")
    if signed.kind != kind:
        raise _refused(kind, f"it is another kind of document ({signed.kind!r})")
    try:
        certificate.public_key.verify(signed.signature, _signed_bytes(kind, signed.body))
    except InvalidSignature:
        raise _refused(kind, f"the signature of {subject.name} does not match") from None
    return ReadDocument(subject.name, signed.body, certificate.key_bytes)


def read_body(kind: type[T], content: bytes, code: str, what: str) -> T:
    """Decode a part of a document; raise `Refused` with `code` if `what` is malformed."""
    try:
        return decoded(msgspec.msgpack.Decoder(kind), content)
    except msgspec.DecodeError as error:
        raise Refused(code, f"{what} is malformed: {error}") from None


def _signed_bytes(kind: DocumentKind, body: bytes) -> bytes:
    return _CONTEXT + kind.encode() + b"\0" + body


def _refused(kind: DocumentKind, why: str) -> Refused:
    return Refused(
        "bad-document",
        f"this is not a {kind} of the cluster: {why}",
        "it must be signed by an operator of this cluster; nothing was changed",
    )
