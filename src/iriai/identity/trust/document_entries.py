"""Documents of operators as entries of the directory, whose signer is named in the document."""

from __future__ import annotations

from hashlib import sha256

from iriai.identity.documents.cluster_document import read_cluster_document
from iriai.identity.documents.operator_roster import read_roster
from iriai.identity.documents.revocation import read_ejection
from iriai.identity.documents.signed_document import DocumentKind
from iriai.identity.trust.trusted_home import read_trusted_home
from iriai.model.admission_rules import OTHERS
from iriai.protocol.messages.entries import CLUSTER, Entry, EntryKind


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
