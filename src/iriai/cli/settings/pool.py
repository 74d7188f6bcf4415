"""`iriai pool`: change the limits of pools while daemons run."""

from __future__ import annotations

from iriai.cli.framework.command import CommandGroup, GlobalOptions, argument
from iriai.cli.settings.changing import change


def set(  # noqa: A001 - the name of the command
    options: GlobalOptions,
    name: str = argument(
        ..., metavar="NAME", help="Name of the pool.", autocompletion="complete_pool"
    ),
    settings: list[str] = argument(
        ...,
        metavar="KEY=VALUE...",
        help="Keys of the section pools.NAME of the configuration, each with its new value.",
        autocompletion="complete_pool_setting",
    ),
) -> None:
    """Set what the jobs in a pool of machines may take, at once and for good. For operators.

    In a cluster it becomes the next document of its configuration, as 'iriai queue set' does. What
    jobs hold of memory and disk already stays theirs until they end.
    """
    change(options, "pools", name, settings)


def unset(
    options: GlobalOptions,
    name: str = argument(
        ..., metavar="NAME", help="Name of the pool.", autocompletion="complete_pool"
    ),
) -> None:
    """Forget what was set of a pool: it is as iriai.toml says again. For operators."""
    change(options, "pools", name, ())


app = CommandGroup(
    "Change the limits of a pool; 'iriai pools' lists them.",
    {
        set: (
            ("iriai pool set blades memory=64G jobs_max=8", "of each machine, and jobs at once"),
            ("iriai pool set blades jobs_max=none", "as many jobs as fit"),
        ),
        unset: (("iriai pool unset blades", "as in the file again"),),
    },
)
