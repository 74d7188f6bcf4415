"""Verifies signatures of directory entries by the certificates that the directory carries."""

from __future__ import annotations

from hashlib import sha256

from iriai.identity.documents.cluster_document import read_cluster_document
from iriai.identity.documents.operator_roster import read_roster
from iriai.identity.documents.revocation import read_ejection
from iriai.identity.documents.signed_document import DocumentKind, read_document
from iriai.identity.trust.trust import Trust
from iriai.identity.trust.trusted_home import read_trusted_home
from iriai.model.admission_rules import OTHERS
from iriai.model.problem import Problem
from iriai.protocol.messages.entries import CLUSTER, Entry, EntryKind


class TrustVerifier:
    """A `protocol.messages.entries.Verifier` over what this machine trusts."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust

    def introduce(self, machine: str, certificate: bytes) -> str:
        """Learn a machine's key from its certificate; return the reason if it is refused."""
        try:
            name = self._trust.learn(certificate)
        except Problem as problem:
            return str(problem)
        return "" if name == machine else f"it is the certificate of {name}"

    def knows(self, machine: str) -> bool:
        """Return whether the machine's key was learned."""
        return self._trust.knows(machine)

    def verify(self, machine: str, content: bytes, signature: bytes) -> bool:
        """Return whether the machine signed `content`."""
        return self._trust.verify(machine, content, signature)

    def is_ejected(self, machine: str) -> bool:
        """Return whether operators have ejected the machine, by what is known here."""
        return bool(self._trust.ejection_words(machine))

    def check_document(self, document: Entry) -> str:
        """Return why this is no document of an operator; empty if it is one."""
        kind = _KINDS[document.kind]
        try:
            honest = document_entry(
                document.cluster, kind, document.body, self._trust.authority.der
            )
            self._check_operator(kind, document)
        except Problem as problem:
            return str(problem)
        if document == honest:
            return ""
        return "its subject, its number or its digest are not those of the document"

    def _check_operator(self, kind: DocumentKind, document: Entry) -> None:
        if kind is not DocumentKind.ROSTER:
            signed = read_document(document.body, kind, self._trust.authority.der)
            self._trust.check_operator(signed.operator, signed.key)


def document_entry(cluster: str, kind: DocumentKind, raw: bytes, authority: bytes) -> Entry:
    """Return the entry that carries a document of an operator.

    Raises:
        Problem: the document is invalid.
    """
    owner = CLUSTER
    if kind is DocumentKind.CONFIGURATION:
        document = read_cluster_document(raw, authority)
        number, digest = document.number, bytes.fromhex(document.digest)
    elif kind is DocumentKind.ROSTER:
        roster = read_roster(raw, authority)
        number, digest = roster.number, bytes.fromhex(roster.digest)
    elif kind is DocumentKind.TRUST:
        signed = read_trusted_home(raw, authority)
        number, digest = signed.trusted.moment_ms, bytes.fromhex(signed.digest)
        owner = CLUSTER if signed.trusted.home == OTHERS else signed.trusted.home
    else:
        ejection = read_ejection(raw, authority).ejection
        number, digest = round(ejection.at_wall_s * 1000), sha256(raw).digest()
        owner = ejection.machine
    return Entry(owner, _ENTRY_KINDS[kind], cluster, 0, number, 0.0, raw, digest)


def document_kind(entry: Entry) -> DocumentKind:
    """Return the kind of document in the body of an operators' entry."""
    return _KINDS[entry.kind]


_KINDS = {
    EntryKind.CONFIGURATION: DocumentKind.CONFIGURATION,
    EntryKind.EJECT: DocumentKind.EJECTION,
    EntryKind.ROSTER: DocumentKind.ROSTER,
    EntryKind.TRUST: DocumentKind.TRUST,
}
_ENTRY_KINDS = {document: entry for entry, document in _KINDS.items()}
