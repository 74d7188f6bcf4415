"""An operator's key: one secret in a file, for signing and for opening sealed secrets.

The file lies in a directory of the operator's (`StatePaths.operator` for root), together with the
operator's certificate.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from iriai.identity.certificates.authority import Authority
from iriai.identity.certificates.certificate import Certificate, read_certificate
from iriai.identity.certificates.sealed_secrets import (
    KEY_BYTES,
    SealedToPassphrase,
    derived,
    open_with_passphrase,
    raw_public,
    seal_to_passphrase,
)
from iriai.identity.documents.operator_roster import RosterOperator
from iriai.identity.documents.signed_document import DocumentKind, sign_document
from iriai.model.bounds import Count, KeyBytes, Name, decoded
from iriai.model.problem import NotAllowed, Refused
from iriai.system.atomic_files import read_file, replace_file, whole_directory

KEY_FILE = "operator.key"
CERTIFICATE_FILE = "operator.crt"

AskPassphrase = Callable[[], str]
"""Asks for the passphrase of a sealed key; may raise a `Problem`."""


class _KeyFile(msgspec.Struct, frozen=True, omit_defaults=True):
    version: Count
    name: Name
    secret: KeyBytes = b""
    sealed: SealedToPassphrase | None = None


class OperatorKey:
    """The opened secret of an operator."""

    def __init__(self, name: str, secret: bytes) -> None:
        self.name = name
        self._secret = secret

    @classmethod
    def generate(cls, name: str) -> OperatorKey:
        """Create a key."""
        return cls(name, os.urandom(KEY_BYTES))

    @property
    def signing(self) -> Ed25519PrivateKey:
        """The key that signs documents."""
        return Ed25519PrivateKey.from_private_bytes(derived(self._secret, b"iriai operator signs"))

    @property
    def opening(self) -> X25519PrivateKey:
        """The key that opens sealed secrets."""
        return X25519PrivateKey.from_private_bytes(derived(self._secret, b"iriai operator opens"))

    def encode(self, passphrase: str) -> bytes:
        """Encode the key file; without a passphrase it holds the secret itself."""
        if not passphrase:
            return msgspec.json.encode(_KeyFile(1, self.name, self._secret))
        return msgspec.json.encode(
            _KeyFile(1, self.name, sealed=seal_to_passphrase(self._secret, passphrase))
        )


class Operator:
    """An operator with opened key."""

    def __init__(self, key: OperatorKey, certificate: Certificate) -> None:
        self.key = key
        self.certificate = certificate

    @property
    def name(self) -> str:
        """The name that documents carry."""
        return self.certificate.subject.name

    @property
    def as_listed(self) -> RosterOperator:
        """The operator's row in the roster."""
        opens = raw_public(self.key.opening.public_key())
        return RosterOperator(self.name, self.certificate.der, opens)

    @classmethod
    def load(
        cls, directory: str, ask: AskPassphrase, listed: Iterable[RosterOperator] = ()
    ) -> Operator:
        """The operator whose files are in `directory`.

        Who became one a moment ago has no certificate there: it is taken from those `listed`.

        Raises:
            NotAllowed: there is none, it is not the caller's to read, the passphrase is wrong, or
                nobody has made an operator of them.
            Refused: the files are damaged.
        """
        key = load_key(directory, ask)
        place = Path(directory)
        if not (place / CERTIFICATE_FILE).exists():
            replace_file(place / CERTIFICATE_FILE, _certificate_of(key, listed))
        certificate = read_certificate(read_file(place / CERTIFICATE_FILE))
        if certificate.public_key != key.signing.public_key():
            raise _damaged(place, "key and certificate do not belong together")
        return cls(key, certificate)

    @classmethod
    def create(
        cls,
        directory: str,
        name: str,
        authority: Authority,
        now_wall_s: float,
        *,
        passphrase: str = "",
    ) -> Operator:
        """Create the files of a new operator of `authority`. Raises `Refused`."""
        key = OperatorKey.generate(name)
        certificate = authority.operator(name, key.signing.public_key(), now_wall_s)
        with whole_directory(Path(directory)) as write:
            write(KEY_FILE, key.encode(passphrase))
            write(CERTIFICATE_FILE, certificate.der)
        return cls(key, certificate)

    def sign(self, kind: DocumentKind, body: bytes) -> bytes:
        """Sign `body` as a document of this operator."""
        return sign_document(kind, body, self.key.signing, self.certificate)


def load_key(directory: str, ask: AskPassphrase) -> OperatorKey:
    """The key in `directory`, whether or not its holder is an operator.

    Raises:
        NotAllowed: there is none, it is not the caller's to read, or the passphrase is wrong.
        Refused: the file is damaged.
    """
    place = Path(directory)
    if not os.access(place / KEY_FILE, os.R_OK):
        raise NotAllowed(
            "no-operator",
            f"no operator's key can be read in {place}",
            "run the command as an operator, on a machine with their key: where 'iriai cluster "
            "create' or the first 'iriai token' was run; 'iriai operator request' creates "
            "another",
        )
    try:
        file = decoded(msgspec.json.Decoder(_KeyFile), read_file(place / KEY_FILE))
    except msgspec.DecodeError as error:
        raise _damaged(place / KEY_FILE, str(error)) from None
    secret = open_with_passphrase(file.sealed, ask()) if file.sealed else file.secret
    return OperatorKey(file.name, secret)


def new_key(directory: str, name: str, passphrase: str) -> OperatorKey:
    """Create a key in `directory` for a future operator. Raises `Refused`."""
    key = OperatorKey.generate(name)
    with whole_directory(Path(directory)) as write:
        write(KEY_FILE, key.encode(passphrase))
    return key


def _certificate_of(key: OperatorKey, listed: Iterable[RosterOperator]) -> bytes:
    for each in listed:
        if read_certificate(each.certificate).public_key == key.signing.public_key():
            return each.certificate
    raise NotAllowed(
        "no-operator-yet",
        f"the key of {key.name} is there, but its holder is not an operator yet",
        "give the word of 'iriai operator request' to an operator, who runs 'iriai operator add'",
    )


def _damaged(place: Path, why: str) -> Refused:
    return Refused("bad-operator", f"{place} is damaged: {why}", "restore it from a copy")
