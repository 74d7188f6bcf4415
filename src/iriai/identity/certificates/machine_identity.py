"""The identity of this machine in its cluster: its name, key and certificate.

On disk one directory (`StatePaths.cluster`), written whole or not at all.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from iriai.identity.certificates.certificate import Certificate, check_signed_for, read_certificate
from iriai.model.problem import Refused
from iriai.system.atomic_files import read_file, replace_file, whole_directory

KEY_FILE = "machine.key"
CERTIFICATE_FILE = "machine.crt"
"""PEM: the machine's certificate, then its issuer's, as TLS sends them."""
AUTHORITY_FILE = "authority.crt"
SIGNATURE_CONTEXT = b"iriai-signed-1\0"
"""Before all that a machine signs: a signature made for one purpose (TLS, a request) is none for
another."""


class Enrolment(NamedTuple):
    """The new key of a joining machine, and its certificate request."""

    name: str
    key: Ed25519PrivateKey

    @classmethod
    def begin(cls, name: str) -> Enrolment:
        """Create a key for the machine `name`."""
        return cls(name, Ed25519PrivateKey.generate())

    @classmethod
    def resume(cls, name: str, key_file: str) -> Enrolment:
        """As `begin`, with a key that stays in `key_file`: asking again is then the same machine.

        Raises `Refused`.
        """
        path = Path(key_file)
        with suppress(ValueError, TypeError):
            key = load_pem_private_key(read_file(path), None)
            if isinstance(key, Ed25519PrivateKey):
                return cls(name, key)
        fresh = cls.begin(name)
        replace_file(path, _private_pem(fresh.key))
        return fresh

    def request(self) -> bytes:
        """Return a certificate request (PKCS#10, DER), signed with the key."""
        return request_for(self.name, self.key)


class MachineIdentity:
    """The name, key and certificate of a cluster member."""

    def __init__(
        self, directory: Path, key: Ed25519PrivateKey, certificate: Certificate, authority: bytes
    ) -> None:
        self.directory = directory
        self.certificate = certificate
        self.authority = authority
        """The authority's certificate (DER)."""
        self._key = key

    @property
    def name(self) -> str:
        """The machine's name."""
        return self.certificate.subject.name

    @property
    def cluster_id(self) -> str:
        """The id of the machine's cluster."""
        return self.certificate.subject.cluster_id

    @property
    def cluster(self) -> str:
        """The name of the cluster, for people."""
        return read_certificate(self.authority).subject.name

    @property
    def key_path(self) -> Path:
        """The key file, for TLS."""
        return self.directory / KEY_FILE

    @property
    def certificate_path(self) -> Path:
        """The file with the certificate and its issuer's, for TLS."""
        return self.directory / CERTIFICATE_FILE

    @classmethod
    def load(cls, directory: str | Path) -> MachineIdentity:
        """What `directory` holds.

        Raises:
            Refused: a file is missing or damaged, or they do not belong together.
        """
        place = Path(directory)
        try:
            key = load_pem_private_key(read_file(place / KEY_FILE), None)
            leaf = x509.load_pem_x509_certificates(read_file(place / CERTIFICATE_FILE))[0]
            root = x509.load_pem_x509_certificate(read_file(place / AUTHORITY_FILE))
        except (ValueError, IndexError) as error:
            raise _damaged(place, str(error)) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise _damaged(place, "the key is not Ed25519")
        certificate = read_certificate(leaf.public_bytes(Encoding.DER))
        authority = root.public_bytes(Encoding.DER)
        if certificate.public_key != key.public_key():
            raise _damaged(place, "key and certificate do not belong together")
        check_signed_for(certificate, read_certificate(authority))
        return cls(place, key, certificate, authority)

    @classmethod
    def create(
        cls,
        directory: str | Path,
        enrolment: Enrolment,
        certificate: Certificate,
        authority: Certificate,
        *,
        more: dict[str, bytes] | None = None,
        owner: tuple[int, int] | None = None,
    ) -> MachineIdentity:
        """Write what `enrolment` became, as one new directory; `more` are other files in it.

        `owner` are user and group id of the files; None: as whoever calls.

        Raises:
            Refused: the directory is there already, or cannot be written; nothing was.
        """
        check_signed_for(certificate, authority)
        with whole_directory(Path(directory), owner) as write:
            write(KEY_FILE, _private_pem(enrolment.key))
            write(CERTIFICATE_FILE, _chain_pem(certificate))
            write(AUTHORITY_FILE, _pem(authority.der))
            for name, content in (more or {}).items():
                write(name, content)
        return cls.load(directory)

    def sign(self, content: bytes) -> bytes:
        """Return the machine's signature of `content`, 64 bytes, which `Trust.verify` checks."""
        return self._key.sign(SIGNATURE_CONTEXT + content)

    def request(self) -> bytes:
        """Return a request to renew the certificate of the same key."""
        return request_for(self.name, self._key)

    def renewed(self, certificate: Certificate) -> MachineIdentity:
        """This machine with a newer `certificate` of its key, which is written down.

        Raises:
            Refused: it is for another name or key, or of another authority; nothing was changed.
        """
        check_signed_for(certificate, read_certificate(self.authority))
        same_name = certificate.subject == self.certificate.subject
        if not same_name or certificate.public_key != self._key.public_key():
            raise _damaged(self.directory, "the renewed certificate is for another machine")
        replace_file(self.certificate_path, _chain_pem(certificate))
        return MachineIdentity(self.directory, self._key, certificate, self.authority)


def request_for(name: str, key: Ed25519PrivateKey) -> bytes:
    """Return a certificate request (PKCS#10, DER). Its name is informative: issuers decide."""
    names = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"machine {name}")])
    request = x509.CertificateSigningRequestBuilder().subject_name(names).sign(key, None)
    return request.public_bytes(Encoding.DER)


def _chain_pem(certificate: Certificate) -> bytes:
    issuer = certificate.issuer
    return _pem(certificate.der) + (_pem(issuer.der) if issuer else b"")


def _pem(der: bytes) -> bytes:
    return x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM)


def _private_pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _damaged(place: Path, why: str) -> Refused:
    return Refused(
        "bad-identity",
        f"{place} does not show the identity of this machine: {why}",
        "restore it from a copy, or remove it and join the cluster again with a new token",
    )
