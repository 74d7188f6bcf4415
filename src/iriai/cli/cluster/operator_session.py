"""An operator's session: opens their key, which is read here and nowhere else, and signs."""

from __future__ import annotations

import getpass
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from iriai.model.paths import StatePaths
from iriai.model.problem import NotAllowed, Refused
from iriai.wire.joining import ShowCluster

if TYPE_CHECKING:
    from iriai.client.client import Client
    from iriai.identity.certificates.authority import Authority
    from iriai.identity.cluster_state import ClusterState
    from iriai.identity.documents.operator_key import Operator
    from iriai.wire.joining import ClusterReport

OPERATOR_VARIABLE = "IRIAI_OPERATOR"
"""Environment variable with the directory of an operator's key outside the state directory."""


_passphrases: dict[str, str] = {}
"""By directory of a key: what opened it, for later lines of the console."""


def operator_directory(state_directory: str) -> str:
    """Return the directory of the key: `$IRIAI_OPERATOR`, else in the state directory."""
    return os.environ.get(OPERATOR_VARIABLE) or StatePaths(state_directory).operator


def open_operator(client: Client, report: ClusterReport) -> Operator:
    """Open the operator's key in `operator_directory`.

    Asks for the passphrase if the key has one. Raises a `Problem`.
    """
    from iriai.identity.documents.operator_key import Operator
    from iriai.identity.documents.operator_roster import RosterOperator

    directory = operator_directory(client.welcome.state_directory)
    listed = [RosterOperator(o.name, o.certificate, o.opens) for o in report.operators]
    typed: list[str] = []

    def ask() -> str:
        typed.append(_passphrases.get(directory) or ask_passphrase())
        return typed[-1]

    operator = Operator.load(directory, ask, listed)
    _passphrases.update((directory, passphrase) for passphrase in typed)
    return operator


def publish_signed(client: Client, operator: Operator, kind: str, body: bytes) -> None:
    """Sign a document of this kind as an operator, and publish it."""
    from iriai.identity.documents.signed_document import DocumentKind

    client.publish(kind, operator.sign(DocumentKind(kind), body))


class OpenAuthority(NamedTuple):
    """The open authority, and the documents it may change."""

    authority: Authority
    state: ClusterState
    operator: Operator
    next_roster: Callable[..., bytes]
    """Returns the roster after a change, an argument of `operator_roster.changed`."""


def open_authority(client: Client) -> OpenAuthority:
    """Open the authority with its key: for an operator who owns a named member.

    Raises a `Problem`.
    """
    from iriai.identity.cluster_state import ClusterState
    from iriai.identity.documents.operator_roster import changed
    from iriai.identity.documents.operator_roster import open_authority as opened

    report = client.ask(ShowCluster())
    require_cluster(report)
    operator = open_operator(client, report)
    paths = StatePaths(client.welcome.state_directory)
    where = f"run the command as root on one of them: {', '.join(report.named)}"
    if not os.access(paths.cluster, os.R_OK):
        raise NotAllowed("not-the-owner", f"{paths.cluster} is not readable for you", where)
    state = ClusterState(paths.cluster)
    if state.issuer is None or state.roster is None:
        raise Refused(
            "not-a-named-member", f"the authority's key is not stored on {report.machine}", where
        )
    key = operator.key.opening
    authority = opened(state.roster, state.issuer, key, state.identity.authority)
    next_roster = partial(
        changed, state.roster, authority, time.time(), is_ejected=state.was_ejected
    )
    return OpenAuthority(authority, state, operator, next_roster)


def require_cluster(report: ClusterReport) -> None:
    """Raise `Refused` if this machine is in no cluster."""
    if not report.cluster:
        raise Refused("no-cluster", "this machine is in no cluster", "'iriai token' creates one")


def ask_new_passphrase() -> str:
    """Ask for a passphrase twice. Raises a `Problem`."""
    first = _ask("Passphrase of your operator's key: ")
    if first != _ask("Repeat the passphrase: "):
        raise NotAllowed("wrong-passphrase", "the passphrases do not match", "try again")
    return first


def issuer_bundle(client: Client, machine: str) -> bytes:
    """Create an issuer for `machine`, which is a named member from now on.

    Raises a `Problem`.
    """
    from iriai.identity.documents.operator_roster import named_member
    from iriai.identity.storage.cluster_files import bundle_of

    opened = open_authority(client)
    issuer = opened.authority.issuer(machine, time.time())
    roster = opened.next_roster(name=named_member(machine, issuer, time.time()))
    client.publish("roster", roster)
    return bundle_of(issuer)


def send_trust(client: Client, home: str, users: tuple[str, ...]) -> bool:
    """Sign, as an operator, that `home` is trusted for `users`; False if that is in force already.

    Raises a `Problem`.
    """
    from iriai.identity.trust.trusted_home import trust_body

    report = client.ask(ShowCluster())
    held = {row.home: row for row in report.trusted}.get(home)
    if held is not None and held.users == users:
        return False
    body = trust_body(home, users, time.time(), held.moment_ms if held else 0)
    publish_signed(client, open_operator(client, report), "trust", body)
    return True


def ask_passphrase() -> str:
    """Ask for the passphrase of the operator's key. Raises a `Problem`."""
    return _ask("Passphrase of your operator's key: ")


def _ask(prompt: str) -> str:
    if not sys.stdin.isatty():
        raise NotAllowed(
            "no-terminal",
            "the operator's key has a passphrase, and there is no terminal to type it on",
            "run the command on a terminal",
        )
    return getpass.getpass(prompt)
