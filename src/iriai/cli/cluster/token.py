"""`iriai token`: make tokens that let machines join, or users work from elsewhere."""

from __future__ import annotations

from iriai.cli.cluster.trusting import trust_of, users_text
from iriai.cli.framework.command import Command, GlobalOptions, OptionGroup, option
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import Column, date_text, print_table
from iriai.client.client import Client
from iriai.model.home_trust import parse_users
from iriai.model.problem import UsageProblem
from iriai.model.units import parse_duration
from iriai.wire.joining import (
    ClusterReport,
    ListTokens,
    MakeToken,
    RevokeToken,
    ShowCluster,
    TokenMade,
    TokenRow,
)

JOIN_LIFETIME = "1h"
USER_LIFETIME = "30d"
_COLUMNS: tuple[Column[TokenRow], ...] = (
    Column("Id", lambda row: row.id, style="bold"),
    Column("For", lambda row: row.kind),
    Column("State", lambda row: row.state),
    Column("", lambda row: row.words, folds=True),
    Column("Made by", lambda row: row.made_by),
    Column("Until", lambda row: date_text(row.ends_wall_s)),
)


class Newcomer(OptionGroup, frozen=True):
    """Options about a machine that is to join."""

    machine: str = option("", metavar="NAME", help="Only this machine may join with it.")
    issuer: bool = option(
        False,
        "--issuer",
        help="With --machine: the machine will also sign machines for the cluster.",
    )
    trust: str = option(
        "",
        metavar="USERS",
        help="With --machine: users whose tasks submitted there run elsewhere: all, or "
        "ann,bob. \\[default: nobody; see 'iriai trust']",
    )

    def check(self, user: str | None) -> None:
        """Raise `UsageProblem` if the options contradict each other."""
        if self.issuer and not self.machine:
            words = "--issuer needs the name of the machine"
            raise UsageProblem("usage", words, "add --machine NAME")
        if self.trust and (user is not None or not self.machine):
            words = "--trust needs the name of the machine"
            raise UsageProblem("usage", words, "add --machine NAME")


def token(
    options: GlobalOptions,
    newcomer: Newcomer,
    expires: str = option(
        "",
        metavar="TIME",
        help=f"How long it is valid. \\[default: {JOIN_LIFETIME}; for a user {USER_LIFETIME}]",
    ),
    user: str | None = option(
        None,
        metavar="USER",
        help="A token for requests of this user from elsewhere ('-': you), instead of one "
        "for a machine.",
    ),
    address: str = option(
        "",
        metavar="HOST:PORT",
        help="Address where this machine is reached from outside.",
    ),
    listing: bool = option(False, "--list", help="List the tokens that were made."),
    revoke: str = option("", metavar="ID", help="Revoke a token."),
) -> None:
    """Print a token that lets one machine join, or a user work from another machine.

    On a machine that is in no cluster, the first token creates a cluster (see 'iriai cluster
    create'). For operators; every user can make a token for themselves ('--user -').
    """
    if listing or revoke:
        _list_or_revoke(options, revoke)
        return
    newcomer.check(user)
    lifetime_s = parse_duration(expires or (USER_LIFETIME if user else JOIN_LIFETIME))
    if user is None:
        from iriai.cli.cluster.cluster import ensure_cluster

        ensure_cluster(options)
    with options.connect(follow=False) as client:
        bundle = _sign_options(newcomer, client)
        whom = "" if user in (None, "-") else user or ""
        kind = "join" if user is None else "user"
        made = client.ask(MakeToken(kind, lifetime_s, whom, newcomer.machine, address, bundle))
        report = client.ask(ShowCluster()) if kind == "join" else None
    if options.as_json:
        print_document(made)
    else:
        _print(made, kind)
        if report is not None:
            print(f"\n{_consent_words(report, newcomer.machine)}")


def _sign_options(newcomer: Newcomer, client: Client) -> bytes:
    """Sign, as an operator, the options about a newcomer; return its issuer, for the token."""
    from iriai.cli.cluster.operator_session import issuer_bundle, send_trust

    if newcomer.trust:
        send_trust(client, newcomer.machine, parse_users(newcomer.trust))
    return issuer_bundle(client, newcomer.machine) if newcomer.issuer else b""


def _consent_words(report: ClusterReport, machine: str) -> str:
    """Return what the person consents to who gives the token away."""
    home = machine or "NAME"
    users = trust_of(report).users_of(machine)
    runs = (
        f"Tasks that are submitted on {machine or 'it'} run on other machines for "
        f"{users_text(users)}: 'iriai trust {home} --users all|ann,bob|none' changes that."
    )
    return (
        f"{runs}\nRoot of {machine or 'that machine'} can act as these users elsewhere, and can "
        "read what the tasks that run there bring with them."
    )


def _print(made: TokenMade, kind: str) -> None:
    until = date_text(made.ends_wall_s)
    if kind == "join":
        print(f"One machine may join cluster {made.cluster} until {until}. On it, as root:\n")
        print(f"    iriai join {made.address} --token {made.text}\n")
        print(f"It must reach {made.address}; 'iriai token --revoke {made.id}' revokes it.")
    else:
        print(f"Valid until {until}; who has it can act as you here. Elsewhere:\n")
        print(f"    export IRIAI_TOKEN={made.text}\n")
        print(f"It must reach {made.address}; 'iriai token --revoke {made.id}' revokes it.")


def _list_or_revoke(options: GlobalOptions, revoke: str) -> None:
    with options.connect(follow=False) as client:
        if revoke:
            client.ask(RevokeToken(revoke))
        table = client.ask(ListTokens())
    if options.as_json:
        print_document(table)
    elif revoke:
        print(f"Token {revoke} is revoked.")
    elif table.rows:
        print_table(_COLUMNS, table.rows)
    else:
        print("There are no tokens: this machine made none, or they expired long ago.")


app = Command(
    token,
    ("iriai token", "for one machine, within an hour"),
    ("iriai token --expires 1d --machine momo", "for momo alone, within a day"),
    ("iriai token --user - --expires 7d", "to use iriai from your own laptop"),
    ("iriai token --machine momo --trust all", "what is submitted on momo runs elsewhere"),
    ("iriai token --machine momo --issuer", "momo will let machines in too"),
    ("iriai token --list", "all tokens, and what became of each"),
)
