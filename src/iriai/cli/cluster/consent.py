"""`iriai consent`: let a home speak for you on this machine."""

from __future__ import annotations

from iriai.cli.framework.command import Command, GlobalOptions, argument, option
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import Column, date_text, print_table
from iriai.model.problem import UsageProblem
from iriai.model.units import parse_duration, printable
from iriai.wire.joining import ConsentRow, GrantConsent, ListConsents

LIFETIME = "90d"
_COLUMNS: tuple[Column[ConsentRow], ...] = (
    Column("Home", lambda row: row.home, style="bold"),
    Column("User", lambda row: row.user),
    Column("Until", lambda row: date_text(row.ends_wall_s)),
)


def consent(
    options: GlobalOptions,
    home: str = argument(
        "",
        metavar="[HOME]",
        help="The machine where you submit jobs.",
        autocompletion="complete_home",
    ),
    lifetime: str = option(
        LIFETIME, "--for", metavar="TIME", help="How long the consent is valid."
    ),
    listing: bool = option(False, "--list", help="List your consents."),
    withdraw: str = option(
        "", metavar="HOME", help="Withdraw the consent.", autocompletion="complete_home"
    ),
) -> None:
    """Let tasks that you submit on another machine run on this one as you.

    You need this if the cluster's operators do not trust that machine with you ('iriai trust');
    'iriai why' shows it. Run the command on the machine where the tasks are to run: root of HOME
    can then act as you here.
    """
    if bool(home) + bool(withdraw) + listing != 1:
        raise UsageProblem("usage", "use one of HOME, --list, or --withdraw HOME")
    with options.connect() as client:
        if home:
            client.ask(GrantConsent(home, parse_duration(lifetime)))
        elif withdraw:
            client.ask(GrantConsent(withdraw, 0.0))
        machine, user = client.welcome.home, client.welcome.user
        table = client.ask(ListConsents())
    if options.as_json:
        print_document(table)
    elif listing and not table.rows:
        print("There are no consents here.")
    elif listing:
        print_table(_COLUMNS, table.rows)
    else:
        what = "run" if home else "do not run"
        unless = "" if home else ", unless an operator trusts it"
        print(
            f"Tasks that are submitted on {printable(home or withdraw)} {what} on {machine} as "
            f"{printable(user)} by your consent{unless}."
        )


app = Command(
    consent,
    ("iriai consent momo", "what you submit on momo runs here, for ninety days"),
    ("iriai consent momo --for 7d", "for a week"),
    ("iriai consent --list", "your consents here"),
    ("iriai consent --withdraw momo", "what runs goes on"),
)
