"""`iriai resume`: let a drained machine start tasks again."""

from __future__ import annotations

from iriai.cli.framework.command import Command, GlobalOptions
from iriai.cli.machine.drain import NODE
from iriai.cli.machine.without_daemon import ask_or_keep
from iriai.model.units import printable
from iriai.wire.machines import Resume


def resume(options: GlobalOptions, node: str = NODE) -> None:
    """Let a drained machine start tasks again. For operators.

    While its daemon is away, the owner of the state directory may: it holds from the next start.
    """
    name, is_kept = ask_or_keep(options, Resume(node))
    if is_kept:
        options.print_result(
            {"node": name, "kept": True},
            f"No daemon runs: {printable(name)} starts tasks again from its next start on.",
        )
    else:
        options.print_result({"node": name}, f"{printable(name)} starts tasks again.")


app = Command(
    resume,
    ("iriai resume b1", "a back end"),
    ("iriai resume", "the machine that answers"),
)
