"""`iriai drain`: keep a machine from starting tasks."""

from __future__ import annotations

from iriai.cli.framework.command import Command, GlobalOptions, argument, option
from iriai.cli.machine.without_daemon import ask_or_keep
from iriai.model.units import printable
from iriai.wire.machines import Drain

NODE = argument(
    "",
    metavar="[NODE]",
    help="Name of the machine. \\[default: the one that answers]",
    autocompletion="complete_node",
)


def drain(
    options: GlobalOptions,
    reason: str = option(..., metavar="TEXT", help="Why; shown to everyone who asks."),
    node: str = NODE,
) -> None:
    """Keep a machine from starting tasks, until 'iriai resume'. Running tasks go on to their end.

    For operators. The machine stays drained after a restart. While its daemon is away, the owner of
    the state directory may drain it: that holds from the next start, before any task starts.
    """
    name, is_kept = ask_or_keep(options, Drain(node, reason))
    document = {"node": name, "reason": reason}
    if is_kept:
        options.print_result(
            document | {"kept": True},
            f"No daemon runs: {printable(name)} starts nothing more from its next start on.",
        )
    else:
        options.print_result(document, f"{printable(name)} starts nothing more.")


app = Command(
    drain,
    ("iriai drain b1 --reason 'new disk on Monday'", "a back end"),
    ("iriai drain --reason 'talk in this room'", "the machine that answers"),
)
