"""What an operator does: with their key, which is read here and nowhere else."""

from __future__ import annotations

import getpass
import os
import sys
import time
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

from iriai.model.paths import StatePaths
from iriai.model.problem import NotAllowed, Refused

if TYPE_CHECKING:
    from iriai.client.client import Client
    from iriai.identity.certificates.authority import Authority
    from iriai.identity.cluster_state import ClusterState
    from iriai.identity.documents.operator_key import Operator
    from iriai.identity.documents.operator_roster import NamedMember, Roster, RosterOperator
    from iriai.wire.joining import ClusterReport

OPERATOR_VARIABLE = "IRIAI_OPERATOR"
"""Names the directory of an operator's key that is not in the state directory."""


def operator_directory(state_directory: str) -> str:
    """Where the operator's key lies: with this state directory, or where `$IRIAI_OPERATOR` says."""
    return os.environ.get(OPERATOR_VARIABLE) or StatePaths(state_directory).operator


def open_operator(client: Client, report: ClusterReport) -> Operator:
    """The operator whose key lies in `operator_directory`.

    Asks for the passphrase where there is one. Raises a `Problem`.
    """
    from iriai.identity.documents.operator_key import Operator
    from iriai.identity.documents.operator_roster import RosterOperator

    directory = operator_directory(client.welcome.state_directory)
    listed = [RosterOperator(o.name, o.certificate, o.opens) for o in report.operators]
    return Operator.load(directory, ask_passphrase, listed)


class OpenAuthority(NamedTuple):
    """The authority, open, and what there is to be changed with it."""

    authority: Authority
    state: ClusterState
    operator: Operator

    @property
    def roster(self) -> Roster:
        """Who the operators are."""
        assert self.state.roster is not None, "it was opened by the roster"
        return self.state.roster

    def next_roster(self, **change: Unpack[RosterChange]) -> bytes:
        """The roster that follows; see `roster.changed`. Raises a `Problem`."""
        from iriai.identity.documents.operator_roster import changed

        ejected = self.state.was_ejected
        return changed(self.roster, self.authority, time.time(), is_ejected=ejected, **change)


class RosterChange(TypedDict, total=False):
    """One change of the roster."""

    add: RosterOperator
    remove: str
    name: NamedMember


def open_authority(client: Client) -> OpenAuthority:
    """The authority with its key: by an operator, as the owner of a named member.

    Raises a `Problem`.
    """
    from iriai.identity.cluster_state import ClusterState
    from iriai.identity.documents.operator_roster import open_authority as opened

    report = client.cluster()
    if not report.cluster:
        raise Refused("no-cluster", "this machine is in no cluster", "'iriai token' makes one")
    operator = open_operator(client, report)
    paths = StatePaths(client.welcome.state_directory)
    where = f"do it as root on one of them: {', '.join(report.named)}"
    if not os.access(paths.cluster, os.R_OK):
        raise NotAllowed("not-the-owner", f"{paths.cluster} is not yours to read", where)
    state = ClusterState(paths.cluster)
    if state.issuer is None or state.roster is None:
        raise Refused(
            "not-a-named-member", f"the authority's key does not lie with {report.machine}", where
        )
    key = operator.key.opening
    authority = opened(state.roster, state.issuer, key, state.identity.authority)
    return OpenAuthority(authority, state, operator)


def ask_new_passphrase() -> str:
    """A passphrase, typed twice. Raises a `Problem`."""
    first = _ask("Passphrase of your operator's key: ")
    if first != _ask("The same again: "):
        raise NotAllowed("wrong-passphrase", "these are two passphrases", "try again")
    return first


def issuer_bundle(client: Client, machine: str) -> bytes:
    """A new issuer, to be kept by `machine`, which is a named member from now on.

    Raises a `Problem`.
    """
    from iriai.identity.documents.operator_roster import named_member
    from iriai.identity.documents.signed_document import DocumentKind
    from iriai.identity.storage.cluster_files import bundle_of

    opened = open_authority(client)
    issuer = opened.authority.issuer(machine, time.time())
    roster = opened.next_roster(name=named_member(machine, issuer, time.time()))
    client.publish(DocumentKind.ROSTER, roster)
    return bundle_of(issuer)


def say_trust(client: Client, home: str, users: tuple[str, ...]) -> bool:
    """Sign, as an operator, that `home` speaks for `users`; False: that is in force already.

    Raises a `Problem`.
    """
    from iriai.identity.documents.signed_document import DocumentKind
    from iriai.identity.trust.trusted_home import trust_body

    report = client.cluster()
    held = {row.home: row for row in report.trusted}.get(home)
    if held is not None and held.users == users:
        return False
    body = trust_body(home, users, time.time(), held.moment_ms if held else 0)
    operator = open_operator(client, report)
    client.publish(DocumentKind.TRUST, operator.sign(DocumentKind.TRUST, body))
    return True


def ask_passphrase() -> str:
    """That of the operator's key. Raises a `Problem`."""
    return _ask("Passphrase of your operator's key: ")


def _ask(prompt: str) -> str:
    if not sys.stdin.isatty():
        raise NotAllowed(
            "no-terminal",
            "the operator's key has a passphrase, and there is no terminal to type it at",
            "do it at a terminal",
        )
    return getpass.getpass(prompt)
