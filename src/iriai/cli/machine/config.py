"""`iriai config`: the values in force, and the cluster's part of them changed."""

from __future__ import annotations

from iriai.cli.framework.command import MACHINE, add_command, empty_app
from iriai.cli.framework.global_options import GlobalOptions
from iriai.cli.framework.json_output import print_document
from iriai.cli.framework.table import Column, print_table
from iriai.cli.machine.config_edit import edit
from iriai.client.client import Client

_COLUMNS = (
    Column("Key", style="bold"),
    Column("Value", folds=True),
    Column("From", style="dim", folds=True),
)


def show(options: GlobalOptions) -> None:
    """Show the values in force, and where each comes from.

    That is iriai.toml, the cluster's document of some number, measured, or default.
    """
    with Client.connect(options.state, follow=False) as client:
        answer = client.configuration()
    if options.as_json:
        print_document(answer)
        return
    print_table(_COLUMNS, [(each.key, each.value, each.source) for each in answer.settings])


app = empty_app()
app.info.rich_help_panel = MACHINE


@app.callback()
def config() -> None:
    """The configuration: iriai.toml in the state directory, and what the cluster agreed on."""


add_command(
    app,
    show,
    panel=MACHINE,
    examples=(
        ("iriai config show", "every key"),
        ("iriai config show | grep -v default", "what was set or measured"),
    ),
)
add_command(
    app,
    edit,
    panel=MACHINE,
    examples=(
        ("iriai config edit", "in your editor"),
        ("iriai config edit --file rights.toml", "from a file"),
    ),
)
