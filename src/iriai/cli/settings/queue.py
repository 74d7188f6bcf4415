"""`iriai queue`: change the queues while daemons run."""

from __future__ import annotations

from iriai.cli.framework.command import CommandGroup, GlobalOptions, argument
from iriai.cli.settings.changing import change


def set(  # noqa: A001 - the name of the command
    options: GlobalOptions,
    number: int = argument(..., metavar="N", help="Number.", autocompletion="complete_any_queue"),
    settings: list[str] = argument(
        ...,
        metavar="KEY=VALUE...",
        help="Keys of the section queues.N of the configuration, each with its new value; 'none' "
        "for no value.",
        autocompletion="complete_queue_setting",
    ),
) -> None:
    """Set a queue, at once and for good. For operators.

    In a cluster it becomes the next document of its configuration, signed with your operator's key;
    whatever else that says stays. If another operator was faster it is set in their document.
    Without a cluster the daemon keeps it, over what iriai.toml says.
    """
    change(options, "queues", str(number), settings)


def unset(
    options: GlobalOptions,
    number: int = argument(..., metavar="N", help="Number.", autocompletion="complete_any_queue"),
) -> None:
    """Forget what was set of a queue: it is as iriai.toml says again. For operators.

    In a cluster its section leaves the shared configuration. A queue that is not there then must
    not have jobs.
    """
    change(options, "queues", str(number), ())


app = CommandGroup(
    "Change a queue; 'iriai queues' lists them.",
    {
        set: (
            ("iriai queue set 2 state=enabled", "it takes jobs and starts none"),
            ("iriai queue set 0 group=staff time_limit_max_s=4h", "whose it is, and its bound"),
            ("iriai queue set 0 group=none", "everybody's again"),
        ),
        unset: (("iriai queue unset 2", "as in the file again"),),
    },
)
