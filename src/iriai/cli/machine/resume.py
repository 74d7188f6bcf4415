"""`iriai resume`: let a drained machine start tasks again."""

from __future__ import annotations

from iriai.cli.framework.command import GlobalOptions, command_app
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.machine.drain import NODE
from iriai.client.client import Client
from iriai.model.units import printable


def resume(options: GlobalOptions, node: NODE = "") -> None:
    """Let a drained machine start tasks again. For operators."""
    with Client.connect(options.state, follow=False) as client:
        client.resume(node)
        name = node or client.welcome.home
    if options.as_json:
        print_document({"node": name})
    else:
        print(f"{printable(name)} starts tasks again.")


app = command_app(
    resume,
    ("iriai resume b1", "a back end"),
    ("iriai resume", "the machine that answers"),
)
