"""`iriai trust`: for which users a home is trusted on other machines."""

from __future__ import annotations

from iriai.cli.cluster.trusting import users_text
from iriai.cli.framework.command import Command, GlobalOptions, argument, option
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import Column, date_text, print_table
from iriai.model.admission_rules import ALL, OTHERS
from iriai.model.home_trust import check_home, parse_users
from iriai.model.problem import UsageProblem
from iriai.model.units import printable
from iriai.wire.joining import ClusterReport, ShowCluster, TrustedRow

_COLUMNS: tuple[Column[TrustedRow], ...] = (
    Column(
        "Submitted on",
        lambda row: "all others" if row.home == OTHERS else row.home,
        style="bold",
    ),
    Column("Runs elsewhere for", lambda row: users_text(row.users), folds=True),
    Column("Set by", lambda row: row.operator),
    Column("Since", lambda row: date_text(row.moment_ms / 1000).split()[0] if row.operator else ""),
)


def trust(
    options: GlobalOptions,
    home: str = argument(
        "",
        metavar="[HOME]",
        help="The machine where jobs are submitted; '*': all that are not named.",
        autocompletion="complete_home",
    ),
    users: str = option("", metavar="USERS", help="Users: all, none, or names (ann,bob)."),
) -> None:
    """Set for which users a home is trusted: their tasks submitted there run elsewhere.

    For operators, who sign it; without HOME the command shows what is in force. Root of a trusted
    machine can act as these users on all other machines. No task runs as root elsewhere. Tasks of
    other users run elsewhere if these consent to it themselves ('iriai consent').
    """
    from iriai.cli.cluster.operator_session import require_cluster, send_trust

    if bool(home) != bool(users):
        raise UsageProblem("usage", "a home needs --users", "add --users all|ann,bob")
    with options.connect(follow=False) as client:
        if home:
            check_home(home)
            require_cluster(client.ask(ShowCluster()))
            send_trust(client, home, parse_users(users))
        report = client.ask(ShowCluster())
    if options.as_json:
        print_document({"trusted": report.trusted})
    elif home:
        whom = users_text(parse_users(users))
        where = "homes that are not named" if home == OTHERS else printable(home)
        print(f"Tasks that are submitted on {where} run elsewhere for {whom}.")
    else:
        require_cluster(report)
        _print(report)


def _print(report: ClusterReport) -> None:
    others = [row for row in report.trusted if row.home == OTHERS]
    named = [row for row in report.trusted if row.home != OTHERS]
    print_table(_COLUMNS, [*named, *(others or [TrustedRow(OTHERS, (ALL,), "", 0)])])


app = Command(
    trust,
    ("iriai trust", "which homes are trusted, for which users"),
    ("iriai trust momo --users ann,bob", "what they submit on momo runs elsewhere"),
    ("iriai trust momo --users all", "for every user with an ordinary id"),
    ("iriai trust momo --users none", "for nobody; running tasks go on"),
    ("iriai trust '*' --users none", "an older cluster: only homes that are named"),
)
