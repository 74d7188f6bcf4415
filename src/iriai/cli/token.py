"""`iriai token`: let a machine in, or a person ask from elsewhere."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from iriai.cli.command import MACHINE, command_app
from iriai.cli.document import print_document
from iriai.cli.global_options import GlobalOptions
from iriai.cli.table import Column, print_table
from iriai.client.answers import TokenMade, TokenTable
from iriai.client.client import Client
from iriai.model.plain_text import printable
from iriai.model.problem import UsageProblem
from iriai.model.units import parse_duration

JOIN_LIFETIME = "1h"
USER_LIFETIME = "30d"
_COLUMNS = (
    Column("Id", style="bold"),
    Column("For"),
    Column("State"),
    Column("", folds=True),
    Column("Made by"),
    Column("Until"),
)


def token(
    options: GlobalOptions,
    expires: Annotated[
        str,
        typer.Option(
            "--expires",
            metavar="TIME",
            help=f"How long it is good. \\[default: {JOIN_LIFETIME}; a user's {USER_LIFETIME}]",
            show_default=False,
        ),
    ] = "",
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            metavar="USER",
            help="For requests of this user from elsewhere; '-' is you. Else for a machine.",
            show_default=False,
        ),
    ] = None,
    machine: Annotated[
        str, typer.Option("--machine", metavar="NAME", help="Only this machine may join with it.")
    ] = "",
    issuer: Annotated[
        bool,
        typer.Option("--issuer", help="With --machine: it will sign machines for the cluster too."),
    ] = False,
    address: Annotated[
        str,
        typer.Option(
            "--address", metavar="HOST:PORT", help="Where this machine is found from outside."
        ),
    ] = "",
    listing: Annotated[bool, typer.Option("--list", help="Show what was given out.")] = False,
    revoke: Annotated[
        str, typer.Option("--revoke", metavar="ID", help="Let a token be good for nothing.")
    ] = "",
) -> None:
    """Print a token that lets one machine join, or a user ask from another machine.

    The first one on a machine that is in no cluster makes a cluster (see 'iriai cluster create').
    For operators; a token of your own ('--user -') you can make yourself.
    """
    if listing or revoke:
        _look(options, revoke)
        return
    if issuer and not machine:
        raise UsageProblem("usage", "--issuer needs to know which machine", "add --machine NAME")
    lifetime_s = parse_duration(expires or (USER_LIFETIME if user else JOIN_LIFETIME))
    if user is None:
        from iriai.cli.cluster import ensure_cluster

        ensure_cluster(options)
    with Client.connect(options.state, follow=False) as client:
        bundle = b""
        if issuer:
            from iriai.cli.operating import issuer_bundle

            bundle = issuer_bundle(client, machine)
        whom = "" if user in (None, "-") else user or ""
        kind = "join" if user is None else "user"
        made = client.make_token(kind, lifetime_s, whom, machine, address, bundle)
    if options.as_json:
        print_document(made)
    else:
        _tell(made, kind)


def _tell(made: TokenMade, kind: str) -> None:
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(made.ends_wall_s))
    if kind == "join":
        print(f"One machine may join cluster {made.cluster} until {until}. On it, as root:\n")
        print(f"    iriai join {made.address} --token {made.text}\n")
        print(f"It must reach {made.address}; 'iriai token --revoke {made.id}' takes it back.")
    else:
        print(f"Good until {until}; whoever has it asks as you do here. Elsewhere:\n")
        print(f"    export IRIAI_TOKEN={made.text}\n")
        print(f"It must reach {made.address}; 'iriai token --revoke {made.id}' takes it back.")


def _look(options: GlobalOptions, revoke: str) -> None:
    with Client.connect(options.state, follow=False) as client:
        if revoke:
            client.revoke_token(revoke)
        table = client.tokens()
    if options.as_json:
        print_document(table)
    elif revoke:
        print(f"Token {revoke} is good for nothing now.")
    else:
        _print(table)


def _print(table: TokenTable) -> None:
    if not table.rows:
        print("There is no token: this machine made none, or they ended long ago.")
        return
    rows = [
        (
            each.id,
            each.kind,
            each.state,
            printable(each.words),
            printable(each.made_by),
            time.strftime("%Y-%m-%d %H:%M", time.localtime(each.ends_wall_s)),
        )
        for each in table.rows
    ]
    print_table(_COLUMNS, rows)


app = command_app(
    token,
    panel=MACHINE,
    examples=(
        ("iriai token", "for one machine, within an hour"),
        ("iriai token --expires 1d --machine momo", "for momo alone, within a day"),
        ("iriai token --user - --expires 7d", "to ask from your own laptop"),
        ("iriai token --machine momo --issuer", "momo will let machines in too"),
        ("iriai token --list", "what was given out, and what became of it"),
    ),
)
