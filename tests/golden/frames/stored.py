"""Families of what a process reads back that it, another run of it, or an operator has written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import msgspec

from iriai.daemon.loop import culprits
from iriai.home import job as home_job
from iriai.host import speed_benchmark
from iriai.identity.certificates import certificate, host_binding, machine_identity, sealed_secrets
from iriai.identity.certificates.certificate import Subject, SubjectKind
from iriai.identity.documents import (
    cluster_document,
    operator_key,
    operator_request,
    operator_roster,
    signed_document,
)
from iriai.identity.documents.revocation import Ejection
from iriai.identity.documents.signed_document import DocumentKind
from iriai.identity.storage import cluster_files
from iriai.identity.storage.join_tokens import IssuedToken as TokenEntry
from iriai.identity.storage.join_tokens import JoinTokens
from iriai.identity.trust.consents import Consent, Consents
from iriai.identity.trust.trusted_home import TrustedHome
from iriai.launcher.contract import machine_config
from iriai.launcher.contract.messages import Template
from iriai.launcher.environment import environment
from iriai.launcher.journal import journal
from iriai.model import ad, token_text
from iriai.model.availability import Steadiness
from iriai.model.bounds import Document, Few, Many, Name, Words
from iriai.model.charge_factors import Factors, decode_factors, encode_factors
from iriai.model.claim import Claim
from iriai.model.job import JobSpec
from iriai.model.records import Bucket, Change
from iriai.model.reservation import Booking, Reservation
from iriai.model.seed import Seed
from iriai.model.token_text import Token, TokenKind, parse_token
from iriai.protocol.directory import validation
from iriai.protocol.ledger import ledger
from iriai.protocol.membership import doubts
from iriai.protocol.messages import entries
from iriai.protocol.messages.gossip import Doubt
from iriai.protocol.messages.members import ClusterUsage, Gateway, Member
from iriai.state import kept_drain, state_directory
from iriai.state.backup import MANIFEST, Manifest
from iriai.store import codec
from tests.golden.frames.families import Family, Sample, by_tag, family, sample_of
from tests.golden.frames.samples import value_of

OPERATOR = operator_key.OperatorKey("ann", bytes(range(32)))


def stored_families() -> Iterator[Family]:
    """All of them."""
    yield from _of_the_launcher()
    yield from _of_the_store()
    yield from _of_the_directory()
    yield from _signed()
    yield from _files()


def _of_the_launcher() -> Iterator[Family]:
    yield family("launcher-journal", by_tag(journal.Record), journal._frame, _journalled)
    yield family("launcher-templates", {"template": Template})
    yield family("environments", {"variables": environment.Variables})


def _journalled(content: bytes) -> journal.Record:
    found = journal._record_at(content, 0)
    assert found is not None, "no sound record"
    return found[0]


def _of_the_store() -> Iterator[Family]:
    yield family("store-changes", by_tag(Change), codec.encode, codec.decode_change)
    yield family("store-specs", {"spec": JobSpec}, codec.encode, codec.decode_spec)
    yield family("store-claims", {"claim": Claim}, codec.encode, codec.decode_claim)
    yield family(
        "store-reservations",
        {"reservation": Reservation},
        codec.encode,
        codec.decode_reservation,
    )
    yield family("store-bookings", {"booking": Booking}, codec.encode, codec.decode_booking)
    yield family(
        "store-snapshots", {"state": home_job.FoldedJob}, home_job._encode, home_job._decode_folded
    )
    yield family(
        "store-factors",
        {"factors": Factors},
        lambda factors: _text(encode_factors(factors)),
        lambda text: decode_factors(text.decode()),
        shapes=("full",),
    )
    yield family(
        "store-buckets",
        {"buckets": tuple[Bucket, ...]},
        codec.encode_text,
        codec.decode_buckets,
        shapes=("full",),
    )


def _text(text: str | None) -> bytes:
    assert text is not None, "the sample is what the column leaves out"
    return text.encode()


def _of_the_directory() -> Iterator[Family]:
    bodies = {
        "member": Member,
        "ledger": ledger.LedgerBatch,
        "gateway": Gateway,
        "usage": ClusterUsage,
    }
    assert set(bodies) <= set(entries.EntryKind), "bodies are called after the kind of their entry"
    yield family("directory-entries", {"entry": entries.Entry})
    yield family("directory-bodies", bodies)
    yield family("ad-attributes", {"attributes": Annotated[dict[Name, ad.Value], Many]})
    member = value_of(Member)
    assert validation.member_body(member) == msgspec.msgpack.encode(member)


def _signed() -> Iterator[Family]:
    """What is signed, and what carries it. Keys and signatures are any bytes here."""
    documents = {
        "document": signed_document._Signed,
        "body-of-configuration": cluster_document._Body,
        "body-of-roster": operator_roster._Body,
        "body-of-ejection": Ejection,
        "body-of-trust": TrustedHome,
        "sealed-to-keys": sealed_secrets.SealedToKeys,
        "issuer": cluster_files.IssuerBundle,
        "operator-request": operator_request._Request,
        "proof-of-certificate": certificate.Proof,
        "list-of-documents": Annotated[list[Document], Many],
    }
    yield family("documents", documents)
    token = token_text._Packed
    yield family("tokens", {"token": token})
    yield Family("token-texts", (token,), tuple(_token(kind) for kind in TokenKind))
    signed: dict[str, bytes] = {
        "entry": entries.signed_content(value_of(entries.Entry)),
        "doubt": doubts.signed_content(value_of(Doubt)),
        "operator-request": operator_request._signed(value_of(operator_request._Request)),
        "machine": machine_identity.SIGNATURE_CONTEXT,
        "operator-request-word": operator_request.request_text(OPERATOR).encode(),
        "operator-opens": sealed_secrets.raw_public(OPERATOR.opening.public_key()),
    }
    for subject in SubjectKind:
        signed[f"subject-{subject.value}"] = Subject(
            "0123456789abcdef", subject, "ume"
        ).uri.encode()
    for kind in DocumentKind:
        signed[f"document-{kind.value}"] = signed_document._signed_bytes(kind, b"body")
    texts = [Sample(f"{key} full", content, content, bytes) for key, content in signed.items()]
    yield Family("signed-texts", (), tuple(texts))


def _token(kind: TokenKind) -> Sample:
    token = Token.make(kind, bytes(range(token_text.RANDOM_BYTES)), "ab" * 32, ["ume:6174"])
    return Sample(
        f"{kind.value} full",
        token.text.encode(),
        token,
        lambda content: parse_token(content.decode(), kind),
    )


def _files() -> Iterator[Family]:
    """Files of JSON in state directories, by name."""
    samples, kinds = [], []
    for name, (kind, write, shapes) in _JSON_FILES.items():
        read = msgspec.json.Decoder(kind).decode
        kinds.append(kind)
        samples += [sample_of(f"{name} {shape}", kind, shape, write, read) for shape in shapes]
    samples.append(_identity())
    yield Family("files", tuple(kinds), tuple(samples))


def _identity() -> Sample:
    value = value_of(state_directory.StateIdentity)._replace(version=state_directory.STATE_VERSION)

    def read(directory: str) -> Any:
        return state_directory.read_identity(state_directory.absolute_paths(directory))

    def write(directory: str) -> None:
        paths = state_directory.absolute_paths(directory)
        state_directory.write_identity(paths, value._asdict())

    return _file_sample(state_directory.absolute_paths("").identity, value, write, read)


def _file_sample(
    path: str, value: Any, write: Callable[[str], None], read: Callable[[str], Any]
) -> Sample:
    """Of a file that the product writes and reads by itself, in a directory that is given."""
    name = Path(path).name

    def read_content(content: bytes) -> Any:
        with TemporaryDirectory() as directory:
            Path(directory, name).write_bytes(content)
            return read(directory)

    with TemporaryDirectory() as directory:
        write(directory)
        content = Path(directory, name).read_bytes()
    return Sample(f"{name} full", content, value, read_content)


_BOTH = ("full", "least")
_JSON_FILES: dict[str, tuple[Any, Callable[[Any], bytes], tuple[str, ...]]] = {
    cluster_files.CONSENTS_FILE: (
        Annotated[list[Consent], Many],
        lambda rows: Consents(rows).encode(),
        _BOTH,
    ),
    cluster_files.TOKENS_FILE: (
        Annotated[list[TokenEntry], Many],
        lambda rows: JoinTokens(rows).encode(),
        _BOTH,
    ),
    cluster_files.SEEDS_FILE: (list[Seed], cluster_files.encode_seeds, _BOTH),
    "drain.json": (kept_drain.DrainRequest, msgspec.json.encode, _BOTH),  # after its first line
    cluster_files.JOINED_AT_FILE: (
        list[cluster_files.JoinAddress],
        msgspec.json.encode,
        _BOTH,
    ),
    cluster_files.CONFLICTS_FILE: (list[Words], msgspec.json.encode, _BOTH),
    cluster_files.ISSUED_FILE: (dict[str, cluster_files.Issued], msgspec.json.encode, _BOTH),
    # One that saw nothing is never written: JSON knows no infinity.
    cluster_files.STEADINESS_FILE: (Steadiness, msgspec.json.encode, ("full",)),
    host_binding.DWELLING_FILE: (host_binding.HostBinding, msgspec.json.encode, _BOTH),
    operator_key.KEY_FILE: (operator_key._KeyFile, msgspec.json.encode, _BOTH),
    culprits.FILE: (
        Annotated[dict[Name, culprits.Culprit], Few],
        msgspec.json.encode,
        _BOTH,
    ),
    machine_config.NAME: (machine_config.MachineSettings, msgspec.json.encode, _BOTH),
    speed_benchmark.FILE_NAME: (speed_benchmark.MeasuredSpeed, msgspec.json.encode, _BOTH),
    MANIFEST: (Manifest, msgspec.json.encode, _BOTH),
}
