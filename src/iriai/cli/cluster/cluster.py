"""`iriai cluster`: create a cluster, and show the one that this machine is in."""

from __future__ import annotations

import os
import time
from pathlib import Path

from iriai.cli.cluster.trusting import trust_of, users_text
from iriai.cli.framework.command import CommandGroup, GlobalOptions, argument, option
from iriai.cli.framework.table import date_text, print_pairs
from iriai.client.client import Client
from iriai.model.admission_rules import OTHERS
from iriai.model.paths import StatePaths
from iriai.model.problem import NotAllowed
from iriai.wire.joining import ClusterReport, ShowCluster

FINGERPRINT_SHOWN = 16
"""Digits of a fingerprint in a table; with --json all."""


def create(
    options: GlobalOptions,
    name: str = argument(..., metavar="NAME", help="The cluster's name."),
    passphrase: bool = option(
        False, "--passphrase", help="Ask for a passphrase that protects the operator's key."
    ),
) -> None:
    """Create a cluster with this machine as its first member.

    The command creates the cluster's authority, and makes you its first operator. The authority's
    key is stored on this machine, sealed with yours, which is stored in the directory 'operator' of
    the state directory. Keep a copy of your key, or add a second operator ('iriai operator').
    """
    with options.connect(follow=False) as client:
        found_here(client, name, passphrase=passphrase)
    options.print_result(
        {"cluster": name}, f"Cluster {name} is created. 'iriai token' lets machines in."
    )


def ensure_cluster(options: GlobalOptions) -> None:
    """Create a cluster named after this machine if it is in none; open one of this host alone.

    Its owner has to ask.
    """
    from iriai.identity.storage.cluster_files import ClusterFiles

    with options.connect(follow=False) as client:
        report = client.ask(ShowCluster())
        if not report.cluster:
            found_here(client, client.welcome.home, passphrase=False)
        elif report.is_host_only:
            ClusterFiles(_own_paths(client).cluster).open_to_network()
            client.reload_identity()


def found_here(client: Client, name: str, *, passphrase: bool) -> None:
    """Create the cluster's files, and have the daemon load them. Raises a `Problem`."""
    from iriai.cli.cluster.operator_session import ask_new_passphrase
    from iriai.state.joining import found

    secret = ask_new_passphrase() if passphrase else ""
    found(_own_paths(client), name, client.welcome.home, passphrase=secret)
    client.reload_identity()


def _own_paths(client: Client) -> StatePaths:
    """Return the paths of the daemon's state directory; raise `NotAllowed` if it is not ours."""
    paths = StatePaths(client.welcome.state_directory)
    if Path(paths.directory).stat().st_uid != os.geteuid():
        raise NotAllowed(
            "not-the-owner",
            f"{paths.directory} belongs to another user",
            "create the cluster as the owner of that directory: as root, for the machine's own "
            "daemon",
        )
    return paths


def show(options: GlobalOptions) -> None:
    """Show the cluster that this machine is in, as this machine knows it."""
    report = options.ask(ShowCluster(), follow=False)
    options.print_result(report, lambda: _print(report))


def _print(report: ClusterReport) -> None:
    if not report.cluster:
        print("This machine is in no cluster. 'iriai token' creates one, 'iriai join' joins one.")
        return
    ends = time.strftime("%Y-%m-%d", time.localtime(report.certificate_ends_wall_s))
    signs = ", and signs machines for it" if report.is_issuer else ""
    ejected = {each.machine for each in report.ejected}
    rows = [
        ("Cluster", f"{report.cluster} ({report.cluster_id})"),
        ("Authority", f"{report.fingerprint[:FINGERPRINT_SHOWN]}..."),
        ("This machine", f"{report.machine}{signs}"),
        ("Certificate", f"by {report.issuer}, until {ends}"),
        ("Operators", ", ".join(each.name for each in report.operators)),
        ("Named members", f"{', '.join(report.named)} (they sign machines)"),
        ("Configuration", _document_words(report)),
        ("Trusted", _trust_words(report)),
        ("Known members", ", ".join(name for name in report.machines if name not in ejected)),
    ]
    gone = [f"{each.machine}, by {each.operator}: {each.reason}" for each in report.ejected]
    trouble = [*report.conflicts, *report.noticed]
    more = (("Ejected", gone), ("Trouble", trouble), ("To be decided", report.proposals))
    print_pairs([*rows, *((head, "\n".join(lines)) for head, lines in more)])


def _trust_words(report: ClusterReport) -> str:
    """Return lines that say which homes are trusted on other machines, and for which users."""
    trust = trust_of(report)
    lines = [f"{home}: {users_text(trust.homes[home])}" for home in trust.homes if home != OTHERS]
    others = f"{'others' if lines else 'all homes'}: {users_text(trust.users_of(OTHERS))}"
    return "\n".join([*lines, others])


def _document_words(report: ClusterReport) -> str:
    if not report.document_number:
        return "none: each machine uses its own ('iriai config edit' makes one)"
    made = date_text(report.document_made_wall_s)
    return f"document {report.document_number}, of {report.document_operator}, {made}"


app = CommandGroup(
    "Create a cluster of machines, or show it.",
    {
        create: (
            ("iriai cluster create lab", "with this machine as its first member"),
            ("iriai cluster create lab --passphrase", "with a passphrase for your key"),
        ),
        show: (("iriai cluster show", "what this machine knows of it"),),
    },
)
