"""The cluster's authority, and the issuers that sign machines for it.

The authority signs issuers and operators, and its key is needed for nothing else: it lies sealed.
An issuer's key lies open on a member that was named for it, so that machines join and certificates
are renewed while no operator is near. docs/adr/0060-authority.md.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from iriai.identity.certificates.certificate import (
    Certificate,
    Subject,
    SubjectKind,
    build_certificate,
    cluster_id_of,
    name_rule,
)
from iriai.model.problem import Refused, UsageProblem

_YEAR_S = 365 * 86_400.0
AUTHORITY_LIFETIME_S = 30 * _YEAR_S
"""Longer than the machines that it signs for; another authority is another cluster."""
ISSUER_LIFETIME_S = 10 * _YEAR_S
"""An issuer that is no longer trusted is ejected; nobody should have to remember a date."""
OPERATOR_LIFETIME_S = 10 * _YEAR_S
"""The same as for issuers."""
MACHINE_LIFETIME_S = _YEAR_S
"""A machine that was off for half a year comes back without ceremony (see `RENEW_SHARE`); a
stolen key that nobody noticed ends with it."""
RENEW_SHARE = 0.5
"""A machine renews its certificate when this part of its life is over."""
REQUEST_BYTES_MAX = 2048
"""The longest certificate request; genuine ones have about 200 bytes."""


class _Signer:
    """A certificate with its private key."""

    def __init__(self, key: Ed25519PrivateKey, certificate: Certificate) -> None:
        self.key = key
        self.certificate = certificate

    def _sign(
        self,
        subject: tuple[SubjectKind, str],
        key: Ed25519PublicKey,
        now_wall_s: float,
        lifetime_s: float,
        issuer_der: bytes = b"",
    ) -> Certificate:
        """Sign a certificate of `key` for `subject`, a (kind, name) of this cluster."""
        signer = self.certificate.subject
        return build_certificate(
            Subject(signer.cluster_id, *subject),
            key,
            signer=signer,
            signing_key=self.key,
            now_wall_s=now_wall_s,
            lifetime_s=lifetime_s,
            issuer_der=issuer_der,
        )


class Authority(_Signer):
    """The root of one cluster's trust, with its private key."""

    @classmethod
    def create(cls, cluster: str, now_wall_s: float) -> Authority:
        """A new authority, for a cluster of this name.

        Raises:
            UsageProblem: the name cannot be a cluster's.
        """
        if wrong := name_rule(cluster):
            raise UsageProblem("bad-cluster-name", f"'{cluster}' cannot name a cluster", wrong)
        key = Ed25519PrivateKey.generate()
        subject = Subject(cluster_id_of(key.public_key()), SubjectKind.AUTHORITY, cluster)
        certificate = build_certificate(
            subject,
            key.public_key(),
            signer=subject,
            signing_key=key,
            now_wall_s=now_wall_s,
            lifetime_s=AUTHORITY_LIFETIME_S,
        )
        return cls(key, certificate)

    def issuer(self, machine: str, now_wall_s: float) -> Issuer:
        """Create an issuer for the member `machine`."""
        key = Ed25519PrivateKey.generate()
        subject = (SubjectKind.ISSUER, machine)
        return Issuer(key, self._sign(subject, key.public_key(), now_wall_s, ISSUER_LIFETIME_S))

    def operator(self, name: str, key: Ed25519PublicKey, now_wall_s: float) -> Certificate:
        """Return a certificate that makes the holder of `key` an operator."""
        return self._sign((SubjectKind.OPERATOR, name), key, now_wall_s, OPERATOR_LIFETIME_S)


class Issuer(_Signer):
    """Signs machines for the authority."""

    def machine(self, request: bytes, name: str, now_wall_s: float) -> Certificate:
        """The certificate of the machine `name`, whose key signed `request` (PKCS#10, DER).

        Raises:
            Refused: the request is malformed, or whoever made it does not have its key.
        """
        subject, key = (SubjectKind.MACHINE, name), requested_key(request)
        return self._sign(subject, key, now_wall_s, MACHINE_LIFETIME_S, self.certificate.der)


def requested_key(request: bytes) -> Ed25519PublicKey:
    """The key that `request` (PKCS#10, DER) asks a certificate for.

    Raises:
        Refused: it is malformed, or whoever made it does not have that key.
    """
    problem = Refused(
        "bad-request",
        "the request for a certificate is malformed",
        "join with the version of iriai that the cluster has",
    )
    if len(request) > REQUEST_BYTES_MAX:
        raise problem
    try:
        parsed = x509.load_der_x509_csr(request)
        key = parsed.public_key()
        if not isinstance(key, Ed25519PublicKey):
            raise problem
        key.verify(parsed.signature, parsed.tbs_certrequest_bytes)
    except (ValueError, InvalidSignature, UnsupportedAlgorithm):
        raise problem from None
    return key
