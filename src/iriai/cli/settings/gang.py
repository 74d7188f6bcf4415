"""`iriai gang`: change the time slices of gangs while daemons run."""

from __future__ import annotations

from iriai.cli.framework.command import CommandGroup, GlobalOptions, argument
from iriai.cli.settings.changing import change


def set(  # noqa: A001 - the name of the command
    options: GlobalOptions,
    settings: list[str] = argument(
        ...,
        metavar="KEY=VALUE...",
        help="Keys of the section gang of the configuration, each with its new value.",
        autocompletion="complete_gang_setting",
    ),
) -> None:
    """Set the time slices of gangs, at once and for good. For operators.

    quantum_s is how long a slice is, rows_max how many gangs share a cpu at most. In a cluster it
    becomes the next document of its configuration, as 'iriai queue set' does.
    """
    change(options, "gang", "", settings)


def unset(options: GlobalOptions) -> None:
    """Forget what was set of gangs: it is as iriai.toml says again. For operators."""
    change(options, "gang", "", ())


app = CommandGroup(
    "Change the time slices of gangs.",
    {
        set: (
            ("iriai gang set quantum_s=0.5", "slices of half a second"),
            ("iriai gang set quantum_s=10s rows_max=2", "two gangs share a cpu, 10 s each"),
        ),
        unset: (("iriai gang unset", "as in the file again"),),
    },
)
