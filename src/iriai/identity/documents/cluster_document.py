"""The cluster's configuration: one TOML text, numbered, signed by an operator, the same for all.

The highest number wins; of two texts with one number the one with the smaller digest wins, and both
are told. So every machine that has seen the same documents, in any order, is of one mind.
docs/spec/004-identity.md, section 7.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec

from iriai.config.cluster_part import parse_cluster_configuration
from iriai.config.reader import TEXT_LENGTH_MAX
from iriai.identity.documents.signed_document import DocumentKind, read_body, read_document
from iriai.model.bounds import Count, Seconds, Words
from iriai.model.problem import Refused

NUMBER_MAX = 1 << 53
"""A number that JSON and TOML carry exactly; one a second would last for ever."""
CONFLICTS_KEPT_MAX = 20
"""The number of kept conflict messages."""


class _Body(msgspec.Struct, frozen=True):
    number: Count
    made_wall_s: Seconds
    text: Words


class ClusterDocument(NamedTuple):
    """A configuration document with a valid signature."""

    number: int
    operator: str
    made_wall_s: float
    text: str
    digest: str
    """SHA-256 of the text; it decides between two documents of one number."""
    raw: bytes
    """The signed document."""
    key: bytes
    """The operator's public key."""

    def words(self) -> str:
        """Return its description in messages and as the source of a value."""
        return f"cluster document {self.number}"


def document_body(number: int, made_wall_s: float, text: str) -> bytes:
    """What an operator signs.

    Raises:
        BadConfiguration: the text is no configuration of a cluster.
        Refused: the number is none.
    """
    if not 0 < number <= NUMBER_MAX:
        raise Refused(
            "bad-number", f"{number} cannot number a document", "use the next number, from 1 on"
        )
    parse_cluster_configuration(text, f"cluster document {number}")
    return msgspec.msgpack.encode(_Body(number, made_wall_s, text))


def read_cluster_document(raw: bytes, authority_der: bytes) -> ClusterDocument:
    """The document that `raw` is.

    Raises:
        Refused: malformed, or signed by nobody who may.
        BadConfiguration: signed, but of no use here: from a newer iriai, perhaps.
    """
    signed = read_document(raw, DocumentKind.CONFIGURATION, authority_der)
    what = f"the document that {signed.operator} signed"
    body = read_body(_Body, signed.body, "bad-document", what)
    if not 0 < body.number <= NUMBER_MAX or len(body.text) > TEXT_LENGTH_MAX:
        raise Refused("bad-document", f"document number {body.number} is out of range")
    parse_cluster_configuration(body.text, f"cluster document {body.number}")
    digest = hashlib.sha256(body.text.encode()).hexdigest()
    return ClusterDocument(
        body.number, signed.operator, body.made_wall_s, body.text, digest, raw, signed.key
    )


def wins(one: ClusterDocument, other: ClusterDocument) -> bool:
    """Return whether `one` takes precedence over `other`: a strict order over texts."""
    return (-one.number, one.digest) < (-other.number, other.digest)


class ClusterDocuments:
    """The document in force on this machine, and conflicts of documents."""

    def __init__(self, held: ClusterDocument | None = None) -> None:
        self.held = held
        self.conflicts: list[str] = []
        """Conflicts of documents, described for people, the newest last."""

    def receive(self, document: ClusterDocument) -> bool:
        """Apply a received document; return whether it is in force from now on."""
        held = self.held
        if held is None or document.number > held.number:
            self.held = document
            self.conflicts = []  # whoever made this one has settled them
            return True
        if document.number < held.number or document.digest == held.digest:
            return False
        self.held = winner = document if wins(document, held) else held
        self._report(document, held, winner)
        return winner is document

    def _report(
        self, document: ClusterDocument, held: ClusterDocument, winner: ClusterDocument
    ) -> None:
        self.report(
            f"two documents have the number {held.number}: one of {held.operator} "
            f"({held.digest[:12]}), one of {document.operator} ({document.digest[:12]}); that of "
            f"{winner.operator} is in force, by the smaller digest"
        )

    def report(self, words: str) -> None:
        """Remember a conflict of documents."""
        if words not in self.conflicts:
            self.conflicts = [*self.conflicts, words][-CONFLICTS_KEPT_MAX:]
