"""An operator's key: one secret in a file, for signing and for opening what is sealed to operators.

The file lies in a directory of the operator's (`StatePaths.operator` for root), together with the
operator's certificate and the sealed key of the authority.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from iriai.identity.authority import Authority
from iriai.identity.certificate import Certificate, read_certificate
from iriai.identity.files import Owner, WholeDirectory, read_file
from iriai.identity.sealing import (
    KEY_BYTES,
    SealedToKeys,
    SealedToPassphrase,
    derived,
    open_with_key,
    open_with_passphrase,
    seal_to_keys,
    seal_to_passphrase,
)
from iriai.identity.signed_document import DocumentKind, sign_document
from iriai.model.decoding import decoded
from iriai.model.problem import NotAllowed, Refused

KEY_FILE = "operator.key"
CERTIFICATE_FILE = "operator.crt"
SEALED_FILE = "authority.sealed"

AskPassphrase = Callable[[], str]
"""Called once where the key wants a passphrase; may raise a `Problem`."""


class _KeyFile(msgspec.Struct, frozen=True, omit_defaults=True):
    version: int
    name: str
    secret: bytes = b""
    sealed: SealedToPassphrase | None = None


class _SealedAuthority(msgspec.Struct, frozen=True):
    version: int
    certificate: bytes
    key: SealedToKeys


class OperatorKey:
    """One operator's secret, opened."""

    def __init__(self, name: str, secret: bytes) -> None:
        self.name = name
        self._secret = secret

    @classmethod
    def generate(cls, name: str) -> OperatorKey:
        """A new one."""
        return cls(name, os.urandom(KEY_BYTES))

    @property
    def signing(self) -> Ed25519PrivateKey:
        """For documents."""
        return Ed25519PrivateKey.from_private_bytes(derived(self._secret, b"iriai operator signs"))

    @property
    def opening(self) -> X25519PrivateKey:
        """For what is sealed."""
        return X25519PrivateKey.from_private_bytes(derived(self._secret, b"iriai operator opens"))

    def encode(self, passphrase: str) -> bytes:
        """For the disk; without a passphrase the file itself is the secret."""
        if not passphrase:
            return msgspec.json.encode(_KeyFile(1, self.name, self._secret))
        return msgspec.json.encode(
            _KeyFile(1, self.name, sealed=seal_to_passphrase(self._secret, passphrase))
        )


class Operator:
    """An operator at work: the key is open."""

    def __init__(self, directory: Path, key: OperatorKey, certificate: Certificate) -> None:
        self.key = key
        self.certificate = certificate
        self._directory = directory

    @property
    def name(self) -> str:
        """As documents say who signed."""
        return self.certificate.subject.name

    @classmethod
    def load(cls, directory: str, ask: AskPassphrase) -> Operator:
        """The operator whose files are in `directory`.

        Raises:
            NotAllowed: there is none, it is not the caller's to read, or the passphrase is wrong.
            Refused: the files are damaged.
        """
        place = Path(directory)
        if not os.access(place / KEY_FILE, os.R_OK):
            raise NotAllowed(
                "no-operator",
                f"there is no operator's key to be read in {place}",
                "do it as an operator, on a machine where their key is: where 'iriai cluster "
                "create' or the first 'iriai token' was said",
            )
        try:
            file = decoded(msgspec.json.Decoder(_KeyFile), read_file(place / KEY_FILE))
        except msgspec.DecodeError as error:
            raise _damaged(place / KEY_FILE, str(error)) from None
        secret = open_with_passphrase(file.sealed, ask()) if file.sealed else file.secret
        certificate = read_certificate(read_file(place / CERTIFICATE_FILE))
        key = OperatorKey(file.name, secret)
        if certificate.public_key != key.signing.public_key():
            raise _damaged(place, "key and certificate do not belong together")
        return cls(place, key, certificate)

    @classmethod
    def create(
        cls,
        directory: str,
        name: str,
        authority: Authority,
        now_wall_s: float,
        *,
        passphrase: str = "",
        owner: Owner | None = None,
    ) -> Operator:
        """Write a new operator of `authority`, and its key sealed to them; raises `Refused`."""
        key = OperatorKey.generate(name)
        certificate = authority.operator(name, key.signing.public_key(), now_wall_s)
        with WholeDirectory(Path(directory), owner) as fresh:
            fresh.write(KEY_FILE, key.encode(passphrase))
            fresh.write(CERTIFICATE_FILE, certificate.der)
            fresh.write(SEALED_FILE, _seal(authority, key))
        return cls(Path(directory), key, certificate)

    def authority(self) -> Authority:
        """The authority with its key, for as long as it is needed. Raises a `Problem`."""
        file = self._directory / SEALED_FILE
        try:
            sealed = decoded(msgspec.json.Decoder(_SealedAuthority), read_file(file))
        except msgspec.DecodeError as error:
            raise _damaged(file, str(error)) from None
        raw = open_with_key(sealed.key, self.key.opening)
        certificate = read_certificate(sealed.certificate)
        return Authority(Ed25519PrivateKey.from_private_bytes(raw), certificate)

    def sign(self, kind: DocumentKind, body: bytes) -> bytes:
        """`body` as a document of this operator."""
        return sign_document(kind, body, self.key.signing, self.certificate)


def _seal(authority: Authority, key: OperatorKey) -> bytes:
    sealed = seal_to_keys(authority.key.private_bytes_raw(), {key.name: key.opening.public_key()})
    return msgspec.json.encode(_SealedAuthority(1, authority.certificate.der, sealed))


def _damaged(place: Path, why: str) -> Refused:
    return Refused("bad-operator", f"{place} is damaged: {why}", "restore it from a copy")
