"""Certificates of a cluster: subject, issue, parse, and verify up to the cluster's authority.

A machine's certificate carries, in an extension of ours, the certificate of the issuer that signed
it and the moment it was issued. So it proves itself to whoever knows the authority, whichever way
it came: in a TLS handshake, with a membership entry, from a file. docs/spec/004-identity.md,
section 2.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID, ObjectIdentifier

from iriai.model.bounds import Count, Document, Seconds, decoded
from iriai.model.ids import HOME_NAME
from iriai.model.problem import Refused

_URI = re.compile(r"iriai://(?P<cluster>[0-9a-f]{16})/(?P<kind>[a-z]+)/(?P<name>[a-z0-9-]{1,31})")
_RULE = "a name has at most 31 small letters, digits and hyphens and begins with a letter"


class SubjectKind(StrEnum):
    """The kind of a certificate's holder."""

    AUTHORITY = "authority"
    """Signs issuers and operators; its key is sealed."""
    ISSUER = "issuer"
    """Signs machines, for the authority, on a member that was named for it."""
    MACHINE = "machine"
    OPERATOR = "operator"
    """Signs the cluster's configuration and whom it ejects."""


class Subject(NamedTuple):
    """The holder of a certificate."""

    cluster_id: str
    """16 hexadecimal digits, the first of the digest of the authority's key: it proves itself."""
    kind: SubjectKind
    name: str

    @property
    def uri(self) -> str:
        """The form in the certificate."""
        return f"iriai://{self.cluster_id}/{self.kind}/{self.name}"


def parse_subject(uri: str) -> Subject | None:
    """Return the subject that `uri` names; None if it is not a subject of iriai."""
    match = _URI.fullmatch(uri)
    if match is None or not HOME_NAME.fullmatch(match["name"]):
        return None
    if match["kind"] not in frozenset(SubjectKind):
        return None
    return Subject(match["cluster"], SubjectKind(match["kind"]), match["name"])


def name_rule(name: str) -> str:
    """Return what is wrong with a name of a machine, cluster or operator; empty if it is valid."""
    return "" if HOME_NAME.fullmatch(name) else _RULE


CERTIFICATE_BYTES_MAX = 4096
"""The longest certificate; genuine ones have about 1 kB, the issuer's certificate included."""
SKEW_S = 3600.0
"""A certificate begins this much before it was issued: the clocks of two machines differ, and one
that is further off than an hour is told so instead."""
PROOF_OID = ObjectIdentifier("2.25.307938206720326216472920182071535445277")
"""The identifier of our extension, from a random UUID (ITU-T X.667)."""
_PROOF_VERSION = 1
CLUSTER_ID_DIGITS = 16
"""64 bits: enough to tell clusters apart; trust rests on the whole certificate."""


_X509_ERRORS = (
    x509.InvalidVersion,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


class Proof(msgspec.Struct, frozen=True, array_like=True):
    """The content of our certificate extension."""

    version: Count
    issued_wall_s: Seconds
    issuer: Document
    """The issuer's certificate (DER); empty where the authority itself signed."""


class BadCertificate(Refused):
    """A certificate that is not valid here, and why."""

    def __init__(self, message: str, hint: str, code: str = "bad-certificate") -> None:
        super().__init__(code, message, hint)


class Certificate:
    """A parsed certificate, not yet verified."""

    def __init__(self, der: bytes, x509_certificate: x509.Certificate, subject: Subject) -> None:
        self.der = der
        self.subject = subject
        self.public_key = _ed25519(x509_certificate)
        self._x509 = x509_certificate
        self._proof = _proof(x509_certificate)

    @property
    def issued_wall_s(self) -> float:
        """The time of signing, by the signer's clock."""
        return self._proof.issued_wall_s

    @property
    def begins_wall_s(self) -> float:
        """The start of its validity."""
        return self._x509.not_valid_before_utc.timestamp()

    @property
    def ends_wall_s(self) -> float:
        """The end of its validity."""
        return self._x509.not_valid_after_utc.timestamp()

    @cached_property
    def key_bytes(self) -> bytes:
        """The holder's public key, 32 bytes."""
        return self.public_key.public_bytes(Encoding.Raw, PublicFormat.Raw)

    @cached_property
    def issuer(self) -> Certificate | None:
        """The issuer's certificate; None where the authority itself signed."""
        return read_certificate(self._proof.issuer) if self._proof.issuer else None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, in hexadecimal digits."""
        return fingerprint(self.der)

    def was_signed_by(self, signer: Certificate) -> bool:
        """Return whether the key of `signer` signed this certificate."""
        try:
            signer.public_key.verify(self._x509.signature, self._x509.tbs_certificate_bytes)
        except InvalidSignature:
            return False
        return True


def fingerprint(der: bytes) -> str:
    """Return the SHA-256 of a certificate, in hexadecimal digits."""
    return hashlib.sha256(der).hexdigest()


def cluster_id_of(public_key: Ed25519PublicKey) -> str:
    """Return the id of the cluster whose authority has this key."""
    raw = public_key.public_bytes(Encoding.Raw, PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:CLUSTER_ID_DIGITS]


def read_certificate(der: bytes) -> Certificate:
    """What `der` holds. Nothing is verified yet; see `check_signed_for`.

    Raises:
        BadCertificate: it is no certificate of a cluster of ours.
    """
    if len(der) > CERTIFICATE_BYTES_MAX:
        raise _not_ours(f"it has {len(der)} bytes; the limit is {CERTIFICATE_BYTES_MAX}")
    try:
        certificate = x509.load_der_x509_certificate(der)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        subject = parse_subject(uris[0]) if len(uris) == 1 else None
        if subject is None:
            raise _not_ours(f"it is for {', '.join(uris) or 'no one'}")
        return Certificate(der, certificate, subject)
    except (ValueError, UnsupportedAlgorithm, *_X509_ERRORS) as error:
        raise _not_ours(str(error) or type(error).__name__) from None


def check_signed_for(certificate: Certificate, authority: Certificate) -> None:
    """Follow `certificate` back to `authority`: signatures, kinds and the cluster; not the time.

    Raises:
        BadCertificate: another authority, or one who may not sign such a certificate.
    """
    subject, issuer = certificate.subject, certificate.issuer
    foreign = BadCertificate(
        f"the certificate of {subject.kind} {subject.name} is of another authority (cluster "
        f"{subject.cluster_id}; this is {authority.subject.cluster_id})",
        "machines join a cluster with its token: 'iriai join'",
        "foreign-authority",
    )
    if authority.subject.cluster_id != subject.cluster_id:
        raise foreign
    if issuer is not None:
        if issuer.subject.kind != SubjectKind.ISSUER or issuer.issuer is not None:
            raise _not_ours(f"{issuer.subject.kind} {issuer.subject.name} signed it")
        check_signed_for(issuer, authority)
    if not certificate.was_signed_by(issuer or authority):
        raise foreign
    if (subject.kind == SubjectKind.MACHINE) != (issuer is not None):
        raise _not_ours(f"a {subject.kind} cannot be signed by this kind of signer")


def check_time(certificate: Certificate, now_wall_s: float) -> None:
    """Whether `certificate` holds at `now_wall_s`, this machine's clock.

    Raises:
        BadCertificate: not yet, or no longer; says that a clock may be wrong.
    """
    who = f"{certificate.subject.kind} {certificate.subject.name}"
    today = _day(now_wall_s)
    clock = "if that is wrong, set this machine's clock"
    if now_wall_s < certificate.begins_wall_s:
        raise BadCertificate(
            f"the certificate of {who} is valid from {_day(certificate.begins_wall_s)} on, and "
            f"this machine's clock shows {today}",
            f"{clock}; else the clock of the machine that issued it was wrong",
            "certificate-not-yet",
        )
    if now_wall_s > certificate.ends_wall_s:
        raise BadCertificate(
            f"the certificate of {who} expired {_day(certificate.ends_wall_s)}, and this "
            f"machine's clock shows {today}",
            f"{clock}; else join that machine again with a new token",
            "certificate-expired",
        )


def build_certificate(
    subject: Subject,
    public_key: Ed25519PublicKey,
    *,
    signer: Subject,
    signing_key: Ed25519PrivateKey,
    now_wall_s: float,
    lifetime_s: float,
    issuer_der: bytes = b"",
) -> Certificate:
    """Create a certificate of `public_key` for `subject`, signed by `signing_key`."""
    begins = datetime.fromtimestamp(now_wall_s - SKEW_S, UTC)
    signs = {SubjectKind.AUTHORITY: 1, SubjectKind.ISSUER: 0}
    proof = Proof(_PROOF_VERSION, now_wall_s, issuer_der)
    constraints = x509.BasicConstraints(subject.kind in signs, signs.get(subject.kind))
    builder = (
        x509.CertificateBuilder()
        .subject_name(_distinguished_name(subject))
        .issuer_name(_distinguished_name(signer))
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(seconds=lifetime_s + SKEW_S))
        .add_extension(constraints, critical=True)
        .add_extension(_names(subject), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()),
            critical=False,
        )
        .add_extension(
            x509.UnrecognizedExtension(PROOF_OID, msgspec.msgpack.encode(proof)), critical=False
        )
    )
    return read_certificate(builder.sign(signing_key, None).public_bytes(Encoding.DER))


def _names(subject: Subject) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([x509.UniformResourceIdentifier(subject.uri)])


def _distinguished_name(subject: Subject) -> x509.Name:
    """Return the name shown by other tools; iriai uses the alternative name."""
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, f"iriai {subject.cluster_id}"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"{subject.kind} {subject.name}"),
        ]
    )


def _ed25519(certificate: x509.Certificate) -> Ed25519PublicKey:
    key = certificate.public_key()
    if not isinstance(key, Ed25519PublicKey):
        raise _not_ours("its key is not Ed25519")
    return key


def _proof(certificate: x509.Certificate) -> Proof:
    try:
        raw = certificate.extensions.get_extension_for_oid(PROOF_OID).value
        proof = decoded(msgspec.msgpack.Decoder(Proof), raw.public_bytes())
    except (x509.ExtensionNotFound, msgspec.DecodeError):
        raise _not_ours("it does not name its issuer") from None
    if proof.version != _PROOF_VERSION:
        raise _not_ours(f"its proof has version {proof.version}, this iriai knows {_PROOF_VERSION}")
    return proof


def _not_ours(why: str) -> BadCertificate:
    return BadCertificate(
        f"this is not a certificate of an iriai cluster: {why}",
        "machines get theirs with 'iriai join'",
    )


def _day(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
