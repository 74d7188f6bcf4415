"""The certificates that this machine trusts: the cluster's, without ejected ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from iriai.identity.certificates.certificate import (
    BadCertificate,
    Certificate,
    SubjectKind,
    check_signed_for,
    check_time,
    read_certificate,
)
from iriai.identity.certificates.machine_identity import SIGNATURE_CONTEXT
from iriai.identity.documents.revocation import Ejections, SignedEjection, read_ejection
from iriai.identity.documents.signed_document import DocumentKind, read_document
from iriai.identity.trust.document_entries import document_entry, document_kind
from iriai.model.problem import Problem, Refused
from iriai.protocol.messages.entries import Entry

KNOWN_MAX = 16_384
"""Machines whose keys are kept, some 8 MB."""


class _Known(NamedTuple):
    """The kept part of a verified certificate."""

    key: Ed25519PublicKey
    fingerprint: str
    issued_wall_s: float
    issuer: str

    @staticmethod
    def of(certificate: Certificate) -> _Known:
        """Return what is kept of `certificate`."""
        issuer = certificate.issuer.subject.name if certificate.issuer else ""
        key, fingerprint = certificate.public_key, certificate.fingerprint
        return _Known(key, fingerprint, certificate.issued_wall_s, issuer)


class Trust:
    """The trusted certificates of one cluster: a `Verifier` of what machines publish.

    `clock` is wall time in seconds.
    """

    def __init__(self, authority: bytes, clock: Callable[[], float] = time.time) -> None:
        self.authority = read_certificate(authority)
        self._clock = clock
        self._ejections = Ejections()
        self._known: dict[str, _Known] = {}
        self.operators: frozenset[bytes] = frozenset()
        """Public keys of the operators by the roster in force; empty if none is known."""

    @property
    def ejections(self) -> list[SignedEjection]:
        """All ejections, by name."""
        return self._ejections.rows()

    def check_peer(self, certificate_der: bytes) -> str:
        """The name of the machine that `certificate_der` proves; the caller knows it has the key.

        Raises:
            BadCertificate: of a foreign authority, not valid now, ejected, or not of a machine.
        """
        certificate = read_certificate(certificate_der)
        name = self._believe(certificate)
        check_time(certificate, self._clock())
        return name

    def learn(self, certificate_der: bytes) -> str:
        """Keep the key of a machine whose certificate came with others' news; returns its name.

        Its time is not looked at: what it signed expires by itself.

        Raises:
            BadCertificate: of a foreign authority, ejected, not of a machine, or another key for a
                name that is taken.
        """
        return self._believe(read_certificate(certificate_der))

    def learn_own(self, certificate: Certificate) -> None:
        """Keep this machine's own key, even if it is ejected."""
        self._known[certificate.subject.name] = _Known.of(certificate)

    def knows(self, machine: str) -> bool:
        """Return whether signatures of `machine` can be checked."""
        return machine in self._known

    def names(self) -> list[str]:
        """Return the machines whose signatures can be checked."""
        return sorted(self._known)

    def key_of(self, machine: str) -> Ed25519PublicKey | None:
        """Return the key of `machine`; None if it is unknown."""
        known = self._known.get(machine)
        return known.key if known else None

    def verify(self, machine: str, content: bytes, signature: bytes) -> bool:
        """Return whether `machine` signed `content`; False also if it is unknown or ejected."""
        known = self._known.get(machine)
        if known is None or self.ejection_words(machine):
            return False
        try:
            known.key.verify(signature, SIGNATURE_CONTEXT + content)
        except InvalidSignature:
            return False
        return True

    def introduce(self, machine: str, certificate: bytes) -> str:
        """Learn a machine's key from its certificate; return the reason if it is refused."""
        try:
            name = self.learn(certificate)
        except Problem as problem:
            return str(problem)
        return "" if name == machine else f"it is the certificate of {name}"

    def is_ejected(self, machine: str) -> bool:
        """Return whether operators have ejected the machine, by what is known here."""
        return bool(self.ejection_words(machine))

    def check_document(self, document: Entry) -> str:
        """Return why this is no document of an operator; empty if it is one."""
        kind, authority = document_kind(document), self.authority.der
        try:
            honest = document_entry(document.cluster, kind, document.body, authority)
            if kind is not DocumentKind.ROSTER:
                signed = read_document(document.body, kind, authority)
                self.check_operator(signed.operator, signed.key)
        except Problem as problem:
            return str(problem)
        if document == honest:
            return ""
        return "its subject, its number or its digest are not those of the document"

    def check_operator(self, name: str, key: bytes) -> None:
        """Raise `Refused` if the signer of a document is no operator any more."""
        if self.operators and key not in self.operators:
            raise Refused(
                "not-an-operator-now",
                f"{name}, who signed it, is no longer an operator",
                "'iriai operator show' lists the operators; one of them may sign it again",
            )

    def receive_ejection(self, document: bytes, *, is_kept: bool = False) -> str | None:
        """Take in a signed ejection; returns the machine's name, or None where it is no news.

        One that is kept here already stays good when its operator is none any more.

        Raises:
            Refused: nobody who may say so signed it.
        """
        signed = read_ejection(document, self.authority.der)
        if not is_kept:
            self.check_operator(signed.operator, signed.key)
        return signed.ejection.machine if self._ejections.add(signed) else None

    def ejection_words(self, machine: str) -> str:
        """Return who ejected `machine` and why; empty if it is not ejected."""
        known = self._known.get(machine)
        if known is None:
            return self._ejections.words(machine)
        return self._refusal(machine, known.issued_wall_s, known.issuer)

    def ejected_until(self, machine: str) -> float | None:
        """Return until when certificates of `machine` are refused; None if it was never ejected."""
        return self._ejections.until(machine)

    def _refusal(self, machine: str, issued_wall_s: float, issuer: str) -> str:
        """Why a certificate of this moment by the issuer on `issuer` is refused; empty: it is not.

        An issuer that was thrown out is refused with all that it signed: it could put any date on
        a certificate.
        """
        until_s = self._ejections.until(machine)
        if until_s is not None and issued_wall_s <= until_s:
            return self._ejections.words(machine)
        if self._ejections.until(issuer) is not None:
            return f"with its issuer on {issuer}, {self._ejections.words(issuer)}"
        return ""

    def _believe(self, certificate: Certificate) -> str:
        name = certificate.subject.name
        known, fresh = self._known.get(name), _Known.of(certificate)
        is_new = known is None or known.fingerprint != fresh.fingerprint
        if is_new:
            check_signed_for(certificate, self.authority)
            _check_machine(certificate)
        words = self._refusal(name, fresh.issued_wall_s, fresh.issuer)
        if words:
            raise BadCertificate(
                f"machine {name} was ejected from the cluster {words}",
                f"an operator may let it in again: 'iriai token', then 'iriai join' on {name}",
                "ejected",
            )
        if is_new:
            self._keep(name, fresh)
        return name

    def _keep(self, name: str, fresh: _Known) -> None:
        known = self._known.get(name)
        if known is not None and known.key != fresh.key and not self.ejection_words(name):
            raise BadCertificate(
                f"there are two machines named {name}: this certificate has another key than "
                "the known one",
                "eject that name and join the right machine again, or give one of them another "
                "name",
                "two-keys",
            )
        if known is not None and known.key == fresh.key:
            if known.issued_wall_s >= fresh.issued_wall_s:
                return
        elif known is None and len(self._known) >= KNOWN_MAX:
            del self._known[next(iter(self._known))]
        self._known[name] = fresh


def _check_machine(certificate: Certificate) -> None:
    subject = certificate.subject
    if subject.kind != SubjectKind.MACHINE:
        raise BadCertificate(
            f"the certificate is of {subject.kind} {subject.name}, not of a machine",
            "only machines that joined are members",
            "not-a-machine",
        )
