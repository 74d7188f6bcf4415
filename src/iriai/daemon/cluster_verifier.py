"""What the directory asks of identities: whose signature is good, by certificates it carries."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from iriai.identity.cluster_document import read_cluster_document
from iriai.identity.ejection import read_ejection
from iriai.identity.signed_document import DocumentKind
from iriai.identity.trust import Trust
from iriai.model.problem import Problem
from iriai.protocol.entries import CLUSTER, Entry, EntryKind

LIFETIME_S = 365 * 86_400.0
"""Of what operators signed: it counts until something else does, and members have it on disk."""

_documents = msgspec.msgpack.Decoder(list[bytes])
_signed = msgspec.msgpack.Decoder(tuple[str, EntryKind, str, int, int, float, bytes])


class TrustVerifier:
    """A `protocol.entries.Verifier` over what this machine trusts."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust

    def introduce(self, machine: str, certificate: bytes) -> str:
        """Learn a machine's key from its certificate; says why not, or nothing."""
        try:
            name = self._trust.learn(certificate)
        except Problem as problem:
            return str(problem)
        return "" if name == machine else f"it is the certificate of {name}"

    def knows(self, machine: str) -> bool:
        """Whether the machine's key was learned."""
        return self._trust.knows(machine)

    def verify(self, machine: str, content: bytes, signature: bytes) -> bool:
        """Whether the machine signed `content`; of an operator's document, whether an operator did.

        Such documents carry their signatures, and their number is the entry's version: otherwise a
        forged high number would keep all later ones out.
        """
        if machine != CLUSTER:
            return self._trust.verify(machine, content, signature)
        _, kind, _, _, version, _, body = _signed.decode(content.partition(b"\0")[2])
        try:
            return version == document_version(kind, body, self._trust.authority.der)
        except (Problem, msgspec.MsgspecError):
            return False


def document_version(kind: EntryKind, body: bytes, authority: bytes) -> int:
    """The version that an entry of operators' documents must have.

    Raises a `Problem` or `msgspec.MsgspecError` where the documents are not good.
    """
    if kind is EntryKind.CONFIGURATION:
        return read_cluster_document(body, authority).number
    machines = [read_ejection(raw, authority).ejection.machine for raw in _documents.decode(body)]
    return len(dict.fromkeys(machines))


def document_entries(
    spread: Iterable[tuple[DocumentKind, str, bytes]],
) -> list[tuple[EntryKind, bytes]]:
    """(kind, body) of the entries that carry these documents; all ejections are in one."""
    ejections = [raw for kind, _, raw in spread if kind is DocumentKind.EJECTION]
    found = [
        (EntryKind.CONFIGURATION, raw)
        for kind, _, raw in spread
        if kind is DocumentKind.CONFIGURATION
    ]
    if ejections:
        found.append((EntryKind.EJECT, msgspec.msgpack.encode(ejections)))
    return found


def document_entry(cluster: str, kind: EntryKind, body: bytes, authority: bytes) -> Entry:
    """An entry that no machine owns."""
    version = document_version(kind, body, authority)
    return Entry(CLUSTER, kind, cluster, 0, version, LIFETIME_S, body, b"")


def documents_of(entry: Entry) -> list[tuple[DocumentKind, bytes]]:
    """The operators' documents in an entry that was verified."""
    if entry.kind is EntryKind.CONFIGURATION:
        return [(DocumentKind.CONFIGURATION, entry.body)]
    return [(DocumentKind.EJECTION, raw) for raw in _documents.decode(entry.body)]
