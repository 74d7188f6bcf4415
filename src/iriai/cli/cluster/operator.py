"""`iriai operator`: show, add and remove those who may sign for the cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from iriai.cli.framework.command import CommandGroup, GlobalOptions, argument, option
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import Column, print_table
from iriai.client.client import Client
from iriai.model.problem import Refused, UsageProblem
from iriai.model.units import printable
from iriai.wire.joining import ShowCluster

if TYPE_CHECKING:
    from iriai.cli.cluster.operator_session import OpenAuthority


def request(
    options: GlobalOptions,
    name: str = option(
        "", metavar="NAME", help="Your name in signed documents. \\[default: your user]"
    ),
    passphrase: bool = option(
        False, "--passphrase", help="Ask for a passphrase that protects your key."
    ),
) -> None:
    """Create a key of your own, and print the word with which an operator adds you.

    The key is stored where $IRIAI_OPERATOR points, else in the directory 'operator' of the state
    directory. If you have a key already, the same word is printed again. The word is no secret.
    """
    from iriai.cli.cluster.operator_session import (
        ask_new_passphrase,
        ask_passphrase,
        operator_directory,
    )
    from iriai.identity.certificates.certificate import name_rule
    from iriai.identity.documents.operator_key import load_key, new_key
    from iriai.identity.documents.operator_request import request_text
    from iriai.state.joining import operator_name

    wanted = name or operator_name()
    if wrong := name_rule(wanted):
        raise UsageProblem("bad-name", f"'{wanted}' cannot name an operator", wrong)
    with options.connect(follow=False) as client:
        directory = operator_directory(client.welcome.state_directory)
    if Path(directory).exists():
        key = load_key(directory, ask_passphrase)
    else:
        key = new_key(directory, wanted, ask_new_passphrase() if passphrase else "")
    word = request_text(key)
    options.print_result(
        {"name": key.name, "directory": directory, "word": word},
        f"The key of {key.name} is in {directory}. An operator adds you with:\n\n"
        f"    iriai operator add {word}",
    )


def add(
    options: GlobalOptions,
    word: str = argument(
        ..., metavar="WORD", help="The word that 'iriai operator request' printed."
    ),
) -> None:
    """Make the person who gave you WORD an operator; for operators, on a named member.

    From then on they sign for the cluster as you do, and can open the authority's key there.
    """
    from iriai.cli.cluster.operator_session import open_authority
    from iriai.identity.documents.operator_request import operator_of

    with options.connect(follow=False) as client:
        opened = open_authority(client)
        fresh = operator_of(word, opened.authority, time.time())
        client.publish("roster", opened.next_roster(add=fresh))
    options.print_result({"operator": fresh.name}, f"{fresh.name} is an operator now.")


def remove(
    options: GlobalOptions,
    name: str = argument(..., metavar="NAME", help="Name of the operator."),
) -> None:
    """Take an operator's right to sign; for other operators, on a named member.

    You sign again what they signed before, so that it stays in force everywhere.
    """
    from iriai.cli.cluster.operator_session import open_authority

    with options.connect(follow=False) as client:
        opened = open_authority(client)
        if name == opened.operator.name:
            raise Refused(
                "own-key",
                "that is you",
                "ask another operator to do it: they sign again what you signed",
            )
        client.publish("roster", opened.next_roster(remove=name))
        count = _sign_anew(client, opened, name)
    options.print_result(
        {"operator": name, "signed_anew": count},
        f"{printable(name)} is no longer an operator; you signed {count} again.",
    )


def show(options: GlobalOptions) -> None:
    """Show the operators, and the members that store the authority's key."""
    report = options.ask(ShowCluster(), follow=False)
    if options.as_json:
        names = [each.name for each in report.operators]
        print_document({"operators": names, "named": list(report.named)})
        return
    rows = [("Operator", each.name) for each in report.operators]
    rows += [("Named member", name) for name in report.named]
    print_table(
        (Column("", lambda row: row[0], style="bold"), Column("", lambda row: row[1])), rows
    )


def _sign_anew(client: Client, opened: OpenAuthority, name: str) -> int:
    """Sign again what the operator `name` signed and is in force; return how many documents.

    A machine that receives a document only now would refuse one signed by a former operator.
    """
    import msgspec

    from iriai.cli.cluster.operator_session import publish_signed
    from iriai.identity.documents.cluster_document import document_body
    from iriai.identity.documents.revocation import RENEWED_S
    from iriai.identity.trust.trusted_home import trust_body

    state, by = opened.state, opened.operator
    count = 0
    for each in state.trust.ejections:
        if each.operator == name:
            later_s = each.ejection.at_wall_s + RENEWED_S
            ejection = msgspec.structs.replace(each.ejection, at_wall_s=later_s)
            body = msgspec.msgpack.encode(ejection)
            publish_signed(client, by, "ejection", body)
            count += 1
    for signed in state.trusted_homes:
        if signed.operator == name:
            kept = signed.trusted
            body = trust_body(kept.home, kept.users, kept.wall_s, kept.moment_ms)
            publish_signed(client, by, "trust", body)
            count += 1
    document = state.document
    if document is not None and document.operator == name:
        body = document_body(document.number + 1, time.time(), document.text)
        publish_signed(client, by, "configuration", body)
        count += 1
    return count


app = CommandGroup(
    "Show, add and remove those who may sign for the cluster.",
    {
        request: (
            ("iriai operator request --passphrase", "create a key of your own, and print its word"),
        ),
        add: (
            ("iriai operator add iriai-operator-...", "as the other person's command printed it"),
        ),
        remove: (("iriai operator remove bob", "nothing that bob signs counts from now on"),),
        show: (("iriai operator show", "who may sign"),),
    },
)
