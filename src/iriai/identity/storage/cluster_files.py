"""The cluster's files of a machine, beside its own identity: `StatePaths.cluster`.

Each file is written whole. All but the machine's own key could be had again from other members.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from iriai.identity.certificates.authority import Issuer
from iriai.identity.certificates.certificate import read_certificate
from iriai.identity.documents.cluster_document import ClusterDocument, read_cluster_document
from iriai.identity.documents.operator_roster import Roster, read_roster
from iriai.identity.storage.join_tokens import IssuedToken, JoinTokens
from iriai.identity.trust.consents import Consent, Consents
from iriai.identity.trust.trust import Trust
from iriai.identity.trust.trusted_home import TrustedHomes, read_trusted_home
from iriai.model.availability import Steadiness
from iriai.model.bounds import Document, KeyBytes, Many, Name, Seconds, Word, Words, decoded
from iriai.model.problem import Refused
from iriai.model.seed import SEEDS_MAX, Seed
from iriai.system.atomic_files import read_file, replace_file

DOCUMENT_FILE = "configuration.signed"
EJECTIONS_FILE = "ejections.signed"
CONFLICTS_FILE = "conflicts.json"
"""Conflicts of documents, described for people."""
ROSTER_FILE = "roster.signed"
TRUST_FILE = "trust.signed"
CONSENTS_FILE = "consents.json"
SEEDS_FILE = "members.json"
JOINED_AT_FILE = "joined-at.json"
STEADINESS_FILE = "steadiness.json"
TOKENS_FILE = "tokens.json"
ISSUED_FILE = "issued.json"
HOST_ONLY_FILE = "host-only"
"""Empty. Where it is, all members are on this host, and no machine elsewhere may connect."""
FRONT_END_FILE = "front-end"
"""Of a back end: the machine whose back end it is."""
ISSUER_FILE = "issuer.key"
"""The key and certificate of an issuer; only there."""

T = TypeVar("T")


class JoinAddress(msgspec.Struct, frozen=True):
    """An address at which a machine that joined has reached this one."""

    address: Name
    is_own: bool
    """Whether it was one of this machine; else a router forwards it."""


class Issued(msgspec.Struct, frozen=True):
    """A signed machine."""

    key: Word
    """Its public key in hexadecimal digits."""
    wall_s: Seconds
    """When it was last signed."""


class IssuerBundle(msgspec.Struct, frozen=True):
    """An issuer as stored in a file, or sent to a new issuer, sealed."""

    key: KeyBytes
    certificate: Document

    def issuer(self) -> Issuer:
        """Return the issuer; raise `Refused` if it is damaged."""
        try:
            key = Ed25519PrivateKey.from_private_bytes(self.key)
        except ValueError:
            raise Refused("bad-issuer", "an issuer's key has 32 bytes") from None
        certificate = read_certificate(self.certificate)
        if certificate.public_key != key.public_key():
            raise Refused("bad-issuer", "the issuer's key and certificate do not belong together")
        return Issuer(key, certificate)


def bundle_of(issuer: Issuer) -> bytes:
    """Encode `issuer` for a file, or to be sealed."""
    return msgspec.msgpack.encode(
        IssuerBundle(issuer.key.private_bytes_raw(), issuer.certificate.der)
    )


def read_bundle(content: bytes) -> Issuer:
    """Decode an issuer. Raises `Refused`."""
    try:
        return decoded(msgspec.msgpack.Decoder(IssuerBundle), content).issuer()
    except msgspec.DecodeError as error:
        raise Refused("bad-issuer", f"this is not an issuer's secret: {error}") from None


class ClusterFiles:
    """The files in one directory. Reading raises `Refused` where one is damaged."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    def exist(self) -> bool:
        """Return whether this machine is in a cluster."""
        return self.directory.is_dir()

    @property
    def is_host_only(self) -> bool:
        """Whether the cluster is one of machines of this host alone."""
        return (self.directory / HOST_ONLY_FILE).exists()

    def front_end(self) -> str:
        """Load the name of the machine whose back end this one is; empty: it is none."""
        return (self._read(FRONT_END_FILE) or b"").decode(errors="replace")

    def open_to_network(self) -> None:
        """Let machines elsewhere connect from the daemon's next start on. Raises OSError."""
        (self.directory / HOST_ONLY_FILE).unlink(missing_ok=True)

    def document(self, authority_der: bytes) -> ClusterDocument | None:
        """Load the configuration that was last in force."""
        content = self._read(DOCUMENT_FILE)
        return read_cluster_document(content, authority_der) if content else None

    def keep_document(self, document: ClusterDocument) -> None:
        """Store the configuration in force."""
        self._write(DOCUMENT_FILE, document.raw)

    def conflicts(self) -> list[str]:
        """Load the conflicts of documents."""
        return self._stored(CONFLICTS_FILE, msgspec.json.Decoder(list[Words]), [])

    def keep_conflicts(self, conflicts: list[str]) -> None:
        """Store the conflicts of documents."""
        self._write(CONFLICTS_FILE, msgspec.json.encode(conflicts))

    def read_ejections(self, trust: Trust) -> None:
        """Load the ejections into `trust`."""
        for document in self._stored(EJECTIONS_FILE, msgspec.msgpack.Decoder(list[Document]), []):
            trust.receive_ejection(document, is_kept=True)

    def keep_ejections(self, trust: Trust) -> None:
        """Store the ejections of `trust`."""
        self._write(EJECTIONS_FILE, encode_documents(each.document for each in trust.ejections))

    def trusted_homes(self, authority_der: bytes) -> TrustedHomes:
        """Load the trusted homes."""
        homes = TrustedHomes()
        for document in self._stored(TRUST_FILE, msgspec.msgpack.Decoder(list[bytes]), []):
            homes.add(read_trusted_home(document, authority_der))
        return homes

    def keep_trusted_homes(self, homes: TrustedHomes) -> None:
        """Store the trusted homes."""
        self._write(TRUST_FILE, encode_documents(each.document for each in homes.rows()))

    def consents(self) -> Consents:
        """Load the consents of users of this machine."""
        decoder = msgspec.json.Decoder(Annotated[list[Consent], Many])
        consents: list[Consent] = self._stored(CONSENTS_FILE, decoder, [])
        return Consents(consents)

    def keep_consents(self, consents: Consents) -> None:
        """Store the consents."""
        self._write(CONSENTS_FILE, consents.encode())

    def roster(self, authority_der: bytes) -> Roster | None:
        """Load the roster; None if there is none."""
        content = self._read(ROSTER_FILE)
        return read_roster(content, authority_der) if content else None

    def keep_roster(self, roster: Roster) -> None:
        """Store the roster."""
        self._write(ROSTER_FILE, roster.raw)

    def seeds(self) -> list[Seed]:
        """Load the members to begin with."""
        return self._stored(SEEDS_FILE, msgspec.json.Decoder(list[Seed]), [])

    def keep_seeds(self, seeds: Iterable[Seed]) -> None:
        """Store members for the next start."""
        self._write(SEEDS_FILE, encode_seeds(seeds))

    def joined_at(self) -> list[JoinAddress]:
        """Load the addresses at which machines joined through this one."""
        return self._stored(JOINED_AT_FILE, msgspec.json.Decoder(list[JoinAddress]), [])

    def keep_joined_at(self, addresses: list[JoinAddress]) -> None:
        """Store the addresses at which machines joined through this one."""
        self._write(JOINED_AT_FILE, msgspec.json.encode(addresses))

    def availability(self) -> Steadiness:
        """Load the steadiness of this machine; start afresh if the file is damaged."""
        content = self._read(STEADINESS_FILE)
        try:
            return decoded(msgspec.json.Decoder(Steadiness), content) if content else Steadiness()
        except msgspec.MsgspecError:
            return Steadiness()

    def keep_availability(self, steadiness: Steadiness) -> None:
        """Store the steadiness."""
        self._write(STEADINESS_FILE, msgspec.json.encode(steadiness))

    def tokens(self) -> JoinTokens:
        """Load the tokens issued here."""
        decoder = msgspec.json.Decoder(Annotated[list[IssuedToken], Many])
        tokens: list[IssuedToken] = self._stored(TOKENS_FILE, decoder, [])
        return JoinTokens(tokens)

    def keep_tokens(self, book: JoinTokens) -> None:
        """Store the tokens."""
        self._write(TOKENS_FILE, book.encode())

    def issuer(self) -> Issuer | None:
        """Load the issuer; None if this machine is none."""
        content = self._read(ISSUER_FILE)
        return read_bundle(content) if content else None

    def issued(self) -> dict[str, Issued]:
        """Load the machines that this issuer signed, by name."""
        return self._stored(ISSUED_FILE, msgspec.json.Decoder(dict[str, Issued]), {})

    def keep_issued(self, issued: dict[str, Issued]) -> None:
        """Store the machines that this issuer signed."""
        self._write(ISSUED_FILE, msgspec.json.encode(issued))

    def _read(self, name: str) -> bytes:
        path = self.directory / name
        return read_file(path) if path.exists() else b""

    def _stored(
        self, name: str, decoder: msgspec.json.Decoder[T] | msgspec.msgpack.Decoder[T], default: T
    ) -> T:
        """Return the decoded content of a file, `default` if it is missing or empty."""
        content = self._read(name)
        try:
            return decoded(decoder, content) if content else default
        except msgspec.MsgspecError as error:
            raise Refused(
                "bad-cluster-file", f"{name} is damaged: {error}", "restore it from a copy"
            ) from None

    def _write(self, name: str, content: bytes) -> None:
        replace_file(self.directory / name, content)


def encode_seeds(seeds: Iterable[Seed]) -> bytes:
    """Encode the file of members to begin with."""
    return msgspec.json.encode(list(seeds)[:SEEDS_MAX])


def encode_documents(documents: Iterable[bytes]) -> bytes:
    """Encode the files of ejections and of trusted homes."""
    return msgspec.msgpack.encode(list(documents))
