"""Requests of joining machines and of operators; part of `envelopes`.

`AskAuthority`, `Join`, `RenewCertificate` and `Authenticate` come over TLS from someone who has
shown no certificate; nothing else is answered there before `Authenticate`. See
docs/spec/004-identity.md.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import Count, Document, KeyBytes, Many, Name, Real, Seconds, Word, Words
from iriai.model.seed import Seed
from iriai.wire.exchange import ClientAnswer, ClientRequest, Done, Query, Right


class AuthorityShown(ClientAnswer, frozen=True, tag="authority-shown"):
    """Answer to `AskAuthority`."""

    authority: Document
    """Its certificate (DER)."""
    machine: Name
    wall_s: Seconds
    """The answering machine's clock."""


class AskAuthority(Query[AuthorityShown], frozen=True, tag="ask-authority"):
    """Ask for the authority's certificate; the asker compares its fingerprint with the token's."""

    asked_by = Right.ANYBODY


class Joined(ClientAnswer, frozen=True, tag="joined"):
    """Answer to `Join`: the machine is a member."""

    certificate: Document
    authority: Document
    document: Document
    """The cluster's configuration, signed; empty: there is none yet."""
    ejections: Annotated[tuple[Document, ...], Many]
    members: Annotated[tuple[Seed, ...], Many]
    """Some members, the answering machine first."""
    bundle: Document = b""
    """For a future issuer its key, sealed to the token's secret; else empty."""
    roster: Document = b""
    """The roster, signed by the authority."""
    trusted: Annotated[tuple[Document, ...], Many] = ()
    """Signed statements on the users for whom homes speak."""


class Join(ClientRequest[Joined], frozen=True, tag="join"):
    """Admit this machine by a token."""

    fails_alone = True
    asked_by = Right.ANYBODY

    token_id: Word
    secret: KeyBytes
    name: Name
    """The machine's."""
    request: Document
    """For a certificate of its key (PKCS#10, DER), signed with that key."""
    wall_s: Seconds
    """The newcomer's clock."""
    version: Name
    """Of iriai, for people."""
    address: Name = ""
    """`HOST:PORT` at which the newcomer has reached this machine."""


class CertificateRenewed(ClientAnswer, frozen=True, tag="renewed"):
    """Answer to `RenewCertificate`."""

    certificate: Document


class RenewCertificate(ClientRequest[CertificateRenewed], frozen=True, tag="renew"):
    """A certificate for the same machine and key that `certificate` is for."""

    fails_alone = True
    asked_by = Right.ANYBODY

    certificate: Document
    request: Document
    """Signed with that key, which proves its possession."""
    wall_s: Seconds


class Authenticated(ClientAnswer, frozen=True, tag="authenticated"):
    """Answer to `Authenticate`."""

    user: Name
    operator: bool


class Authenticate(ClientRequest[Authenticated], frozen=True, tag="authenticate"):
    """Authenticate as the user of a token; later requests of the connection are theirs."""

    fails_alone = True
    asked_by = Right.ANYBODY

    token_id: Word
    secret: KeyBytes


class TokenMade(ClientAnswer, frozen=True, tag="token-made"):
    """Answer to `MakeToken`; the only time that the secret is seen."""

    text: Words
    id: Word
    address: Name
    cluster: Name
    ends_wall_s: Seconds


class MakeToken(ClientRequest[TokenMade], frozen=True, tag="make-token"):
    """Make a token. For operators; one for oneself (`kind` user) for everybody."""

    fails_alone = True

    kind: Word
    """`join` or `user`."""
    lifetime_s: Real
    user: Name = ""
    """The user of a user's token; empty for the asking user."""
    machine: Name = ""
    """The only machine that may join; empty if any may."""
    address: Name = ""
    """The address in the token; empty for an address of this machine."""
    bundle: Document = b""
    """An issuer's key and certificate for the machine that joins; see spec 004, section 4."""


class TokenRow(msgspec.Struct, frozen=True):
    """One token, without its secret."""

    id: Word
    kind: Word
    state: Word
    """`good`, `used`, `revoked` or `over`."""
    words: Words
    """The user or machine that it is for, or that has used it."""
    made_by: Name
    made_wall_s: Seconds
    ends_wall_s: Seconds


class TokenTable(ClientAnswer, frozen=True, tag="token-table"):
    """Answer to `ListTokens`, the newest first."""

    rows: Annotated[tuple[TokenRow, ...], Many]


class ListTokens(Query[TokenTable], frozen=True, tag="list-tokens"):
    """List the tokens issued by this machine: all for operators, else one's own."""


class RevokeToken(ClientRequest[Done], frozen=True, tag="revoke-token"):
    """Revoke a token: one's own, or any for operators."""

    fails_alone = True

    id: Word


NOTHING_TO_TAKE_UP = "nothing-to-take-up"
"""Code of the refusal of `TakeUpIdentity` by a daemon that goes by it already."""


class TakeUpIdentity(ClientRequest[Done], frozen=True, tag="take-up-identity"):
    """The state directory has a cluster's identity now, or no longer: go by it.

    For the owner of the state directory, after `join`, `token` or `leave` wrote it.
    """

    is_local = True
    asked_by = Right.STATE_OWNER


class EjectedRow(msgspec.Struct, frozen=True):
    """An ejected machine."""

    machine: Name
    operator: Name
    at_wall_s: Seconds
    reason: Words


class OperatorRow(msgspec.Struct, frozen=True):
    """One operator of the cluster."""

    name: Name
    certificate: Document
    opens: KeyBytes
    """The public key that the authority's key is sealed to."""


class TrustedRow(msgspec.Struct, frozen=True):
    """The users for whom a home speaks on other machines."""

    home: Name
    """`*`: every home that is not named."""
    users: Annotated[tuple[Words, ...], Many]
    """`all`: everybody; none: nobody."""
    operator: Name
    moment_ms: Count
    """When it was signed (wall clock)."""


class ClusterReport(ClientAnswer, frozen=True, tag="cluster-report"):
    """Answer to `ShowCluster`. Without a cluster all is empty."""

    cluster: Name = ""
    cluster_id: Word = ""
    fingerprint: Word = ""
    """Of the authority's certificate."""
    machine: Name = ""
    certificate_ends_wall_s: Seconds = 0.0
    issuer: Name = ""
    """The member that signed this machine's certificate."""
    is_issuer: bool = False
    ejected: Annotated[tuple[EjectedRow, ...], Many] = ()
    document_number: Count = 0
    """Of the configuration in force; 0: there is none."""
    document: Words = ""
    """Its text."""
    document_operator: Name = ""
    document_made_wall_s: Seconds = 0.0
    conflicts: Annotated[tuple[Words, ...], Many] = ()
    """Documents that were refused or lost, in words."""
    machines: Annotated[tuple[Name, ...], Many] = ()
    """Names of members that this machine has heard of."""
    operators: Annotated[tuple[OperatorRow, ...], Many] = ()
    named: Annotated[tuple[Name, ...], Many] = ()
    """Members that sign machines, and with which the authority's key lies."""
    trusted: Annotated[tuple[TrustedRow, ...], Many] = ()
    """By home. None for `*`: homes that are not named speak for everybody."""
    noticed: Annotated[tuple[Words, ...], Many] = ()
    """Incidents of machines, by name."""
    proposals: Annotated[tuple[Words, ...], Many] = ()
    """Ejections proposed to operators, with the command."""
    is_host_only: bool = False
    """Whether its members are machines of this host alone: none elsewhere may connect."""


class ShowCluster(Query[ClusterReport], frozen=True, tag="show-cluster"):
    """Ask for the cluster as this machine knows it."""


class Published(ClientAnswer, frozen=True, tag="published"):
    """Answer to `Publish`: the document is stored."""

    restarts: bool
    """Whether the daemon ends, to be started again with it; else it is in force."""


class Publish(ClientRequest[Published], frozen=True, tag="publish"):
    """Publish a document that an operator signed."""

    fails_alone = True

    kind: Word
    """`configuration`, `ejection`, `trust` or `roster`."""
    document: Document


class Leave(ClientRequest[Done], frozen=True, tag="leave"):
    """Announce that this machine leaves. For the owner of the state directory."""

    is_local = True
    asked_by = Right.STATE_OWNER


class GrantConsent(ClientRequest[Done], frozen=True, tag="consent"):
    """Permit tasks that the asking user submits on a home to run here as that user."""

    is_local = True

    home: Name
    lifetime_s: Seconds
    """How long it is valid; 0 withdraws it."""


class ConsentRow(msgspec.Struct, frozen=True):
    """A valid consent."""

    user: Name
    home: Name
    made_wall_s: Seconds
    ends_wall_s: Seconds


class ConsentTable(ClientAnswer, frozen=True, tag="consent-table"):
    """Answer to `ListConsents`, by home and user."""

    rows: Annotated[tuple[ConsentRow, ...], Many]


class ListConsents(Query[ConsentTable], frozen=True, tag="list-consents"):
    """List one's consents on this machine; operators see those of all users."""
