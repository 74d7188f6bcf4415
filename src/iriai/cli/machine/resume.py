"""`iriai resume`: let a drained machine start tasks again."""

from __future__ import annotations

from iriai.cli.framework.command import GlobalOptions, command_app
from iriai.cli.machine.drain import NODE
from iriai.model.units import printable
from iriai.wire.machines import Resume


def resume(options: GlobalOptions, node: NODE = "") -> None:
    """Let a drained machine start tasks again. For operators."""
    with options.connect(follow=False) as client:
        client.ask(Resume(node))
        name = node or client.welcome.home
    options.print_result({"node": name}, f"{printable(name)} starts tasks again.")


app = command_app(
    resume,
    ("iriai resume b1", "a back end"),
    ("iriai resume", "the machine that answers"),
)
