"""How a machine comes into a cluster and stays in it, and what operators say; part of `requests`.

`AskAuthority`, `Join`, `Renew` and `Authenticate` come over TLS from somebody who has shown no
certificate; nothing else is answered there before `Authenticate`. docs/spec/004-identity.md.
"""

from __future__ import annotations

import msgspec


class AskAuthority(msgspec.Struct, frozen=True, tag="ask-authority"):
    """Which authority is yours? The asker compares its fingerprint with the token's."""


class AuthorityShown(msgspec.Struct, frozen=True, tag="authority-shown"):
    """Answer to `AskAuthority`."""

    authority: bytes
    """Its certificate (DER)."""
    machine: str
    wall_s: float
    """The answering machine's clock."""


class Join(msgspec.Struct, frozen=True, tag="join"):
    """Let this machine in, by a token."""

    token_id: str
    secret: bytes
    name: str
    """The machine's."""
    request: bytes
    """For a certificate of its key (PKCS#10, DER), signed with that key."""
    wall_s: float
    """The newcomer's clock."""
    version: str
    """Of iriai, for people."""


class Seed(msgspec.Struct, frozen=True):
    """A member and where it may be found."""

    name: str
    addresses: tuple[str, ...]
    is_outward_only: bool = False


class Joined(msgspec.Struct, frozen=True, tag="joined"):
    """Answer to `Join`: the machine is a member."""

    certificate: bytes
    authority: bytes
    document: bytes
    """The cluster's configuration, signed; empty: there is none yet."""
    ejections: tuple[bytes, ...]
    members: tuple[Seed, ...]
    """Some of them, the answering machine first."""
    bundle: bytes = b""
    """For a machine that is to be an issuer: its issuer's key, sealed to the token's secret."""
    roster: bytes = b""
    """Who the operators are, signed by the authority."""
    trusted: tuple[bytes, ...] = ()
    """For which users homes speak, signed."""


class Renew(msgspec.Struct, frozen=True, tag="renew"):
    """A certificate for the same machine and key that `certificate` is for."""

    certificate: bytes
    request: bytes
    """Signed with that key, which proves that it is there."""
    wall_s: float


class Renewed(msgspec.Struct, frozen=True, tag="renewed"):
    """Answer to `Renew`."""

    certificate: bytes


class Authenticate(msgspec.Struct, frozen=True, tag="authenticate"):
    """I am the user who has this token; what follows on this connection I ask as them."""

    token_id: str
    secret: bytes


class Authenticated(msgspec.Struct, frozen=True, tag="authenticated"):
    """Answer to `Authenticate`."""

    user: str
    operator: bool


class MakeToken(msgspec.Struct, frozen=True, tag="make-token"):
    """Make a token. For operators; one for oneself (`kind` user) for everybody."""

    kind: str
    """`join` or `user`."""
    lifetime_s: float
    user: str = ""
    """Of a user's token; empty: of the one who asks."""
    machine: str = ""
    """The one machine that may join; empty: any."""
    address: str = ""
    """That the token is to name; empty: where this machine listens."""
    bundle: bytes = b""
    """An issuer's key and certificate for the machine that joins; see spec 004, section 4."""


class TokenMade(msgspec.Struct, frozen=True, tag="token-made"):
    """Answer to `MakeToken`; the only time that the secret is seen."""

    text: str
    id: str
    address: str
    cluster: str
    ends_wall_s: float


class ListTokens(msgspec.Struct, frozen=True, tag="list-tokens"):
    """The tokens that this machine gave out: an operator's all, else one's own."""


class TokenRow(msgspec.Struct, frozen=True):
    """One token, without its secret."""

    id: str
    kind: str
    state: str
    """`good`, `used`, `revoked` or `over`."""
    words: str
    """For whom, or by whom it was used."""
    made_by: str
    made_wall_s: float
    ends_wall_s: float


class TokenTable(msgspec.Struct, frozen=True, tag="token-table"):
    """Answer to `ListTokens`, the newest first."""

    rows: tuple[TokenRow, ...]


class RevokeToken(msgspec.Struct, frozen=True, tag="revoke-token"):
    """Let a token be good for nothing. One's own; an operator's any."""

    id: str


class TakeUpIdentity(msgspec.Struct, frozen=True, tag="take-up-identity"):
    """The state directory has a cluster's identity now, or no longer: go by it.

    For the owner of the state directory, after `join`, `token` or `leave` wrote it.
    """


class ShowCluster(msgspec.Struct, frozen=True, tag="show-cluster"):
    """The cluster as this machine knows it."""


class EjectedRow(msgspec.Struct, frozen=True):
    """A machine that was thrown out."""

    machine: str
    operator: str
    at_wall_s: float
    reason: str


class OperatorRow(msgspec.Struct, frozen=True):
    """One operator of the cluster."""

    name: str
    certificate: bytes
    opens: bytes
    """The public key that the authority's key is sealed to."""


class TrustedRow(msgspec.Struct, frozen=True):
    """For which users a home speaks on other machines."""

    home: str
    """`*`: every home that is not named."""
    users: tuple[str, ...]
    """`all`: everybody; none: nobody."""
    operator: str
    moment_ms: int
    """When it was signed (wall clock)."""


class ClusterReport(msgspec.Struct, frozen=True, tag="cluster-report"):
    """Answer to `ShowCluster`. Without a cluster all is empty."""

    cluster: str = ""
    cluster_id: str = ""
    fingerprint: str = ""
    """Of the authority's certificate."""
    machine: str = ""
    certificate_ends_wall_s: float = 0.0
    issuer: str = ""
    """The member that signed this machine's certificate."""
    is_issuer: bool = False
    ejected: tuple[EjectedRow, ...] = ()
    document_number: int = 0
    """Of the configuration in force; 0: there is none."""
    document: str = ""
    """Its text."""
    document_operator: str = ""
    document_made_wall_s: float = 0.0
    conflicts: tuple[str, ...] = ()
    """Documents that were refused or lost, in words."""
    machines: tuple[str, ...] = ()
    """Names of members that this machine has heard of."""
    operators: tuple[OperatorRow, ...] = ()
    named: tuple[str, ...] = ()
    """Members that sign machines, and with which the authority's key lies."""
    trusted: tuple[TrustedRow, ...] = ()
    """By home. None for `*`: homes that are not named speak for everybody."""
    noticed: tuple[str, ...] = ()
    """What machines said that they should not, by name."""
    proposals: tuple[str, ...] = ()
    """Whom operators are told to throw out, and how."""


class Publish(msgspec.Struct, frozen=True, tag="publish"):
    """A document that an operator signed, for this machine and then for all."""

    kind: str
    """`configuration`, `ejection`, `trust` or `roster`."""
    document: bytes


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """Tell the others that this machine leaves. For the owner of the state directory."""


class Consent(msgspec.Struct, frozen=True, tag="consent"):
    """Tasks of mine that are handed in at a home may run here as me. By who is on the machine."""

    home: str
    lifetime_s: float
    """0: it is withdrawn."""


class ListConsents(msgspec.Struct, frozen=True, tag="list-consents"):
    """What one consented to here; an operator sees everybody's."""


class ConsentRow(msgspec.Struct, frozen=True):
    """One consent that holds."""

    user: str
    home: str
    made_wall_s: float
    ends_wall_s: float


class ConsentTable(msgspec.Struct, frozen=True, tag="consent-table"):
    """Answer to `ListConsents`, by home and user."""

    rows: tuple[ConsentRow, ...]


ClusterRequest = (
    AskAuthority
    | Join
    | Renew
    | Authenticate
    | MakeToken
    | ListTokens
    | RevokeToken
    | TakeUpIdentity
    | ShowCluster
    | Publish
    | Leave
    | Consent
    | ListConsents
)
ClusterAnswer = (
    AuthorityShown
    | Joined
    | Renewed
    | Authenticated
    | TokenMade
    | TokenTable
    | ClusterReport
    | ConsentTable
)
