"""Signatures in simulated worlds: keyed BLAKE2b, a hundred times cheaper than the real ones.

Who has the seed of a world could sign for everybody; in a simulation nobody does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from hmac import compare_digest

from iriai.protocol.messages.entries import Entry, EntryKind

SIGNATURE_BYTES = 64
"""As many as one of Ed25519 has."""
CERTIFICATE_BYTES = 974
"""As many as a machine's certificate has."""


@dataclass(frozen=True, slots=True)
class KeyedSigner:
    """The key of one machine; see `protocol.messages.entries.Signer`."""

    seed: int
    machine: str

    def sign(self, content: bytes) -> bytes:
        """Return the signature of `content`."""
        key = f"{self.seed}/{self.machine}".encode()
        return blake2b(content, key=key, digest_size=SIGNATURE_BYTES).digest()

    @property
    def certificate(self) -> bytes:
        """The certificate from which others learn the key."""
        signature = KeyedSigner(self.seed, "authority").sign(self.machine.encode())
        return signature.ljust(CERTIFICATE_BYTES, b"\0")


def signed_document(
    seed: int, machine: str, kind: EntryKind, number: int, text: bytes, cluster: str = "lab"
) -> Entry:
    """Return a document of an operator as an entry: the signature, then the text."""
    what = f"{kind}/{machine}/{number}/".encode() + text
    signature = KeyedSigner(seed, "operator").sign(what)
    return Entry(machine, kind, cluster, 0, number, 0.0, signature + text, sha256(text).digest())


@dataclass(slots=True)
class KeyedVerifier:
    """The keys that one machine knows; see `protocol.messages.entries.Verifier`."""

    seed: int
    needs_certificates: bool = False
    """Whether keys are known only after `introduce`."""
    known: dict[str, None] = field(default_factory=dict)

    def introduce(self, machine: str, certificate: bytes) -> str:
        """Learn a machine's key; return why the certificate is refused, or nothing."""
        if not compare_digest(certificate, KeyedSigner(self.seed, machine).certificate):
            return "not of our authority"
        self.known[machine] = None
        return ""

    def knows(self, machine: str) -> bool:
        """Return True if the machine's key is known."""
        return machine in self.known or not self.needs_certificates

    def is_ejected(self, machine: str) -> bool:
        """Return False: these worlds have no ejections."""
        return False

    def check_document(self, document: Entry) -> str:
        """Return why a document is refused, or nothing; see `signed_document`."""
        honest = signed_document(
            self.seed,
            document.machine,
            document.kind,
            document.version,
            document.body[SIGNATURE_BYTES:],
        )
        return "" if document == honest else "not by an operator"

    def verify(self, machine: str, content: bytes, signature: bytes) -> bool:
        """Return True if the machine signed `content`."""
        return compare_digest(KeyedSigner(self.seed, machine).sign(content), signature)
