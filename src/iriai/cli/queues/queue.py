"""`iriai queue`: change the queues of a machine that is in no cluster."""

from __future__ import annotations

from iriai.cli.framework.command import CommandGroup, GlobalOptions, argument
from iriai.model.problem import UsageProblem
from iriai.wire.machines import SetQueue


def set(  # noqa: A001 - the name of the command
    options: GlobalOptions,
    number: int = argument(..., metavar="N", help="Number.", autocompletion="complete_queue"),
    settings: list[str] = argument(
        ...,
        metavar="KEY=VALUE...",
        help="Keys of the section queues.N of the configuration, each with its new value; 'none' "
        "for no value.",
    ),
) -> None:
    """Set a queue of this machine, at once and for good. For operators.

    The daemon keeps what is set, over what iriai.toml says. The queues of a cluster are part of its
    configuration: iriai config edit.
    """
    request = SetQueue(number, tuple(map(_setting, settings)))
    options.ask(request, follow=False)
    words = ", ".join(f"{key} is {value}" for key, value in request.settings)
    options.print_result(
        {"number": number, "settings": dict(request.settings)}, f"Queue {number}: {words}."
    )


def unset(
    options: GlobalOptions,
    number: int = argument(..., metavar="N", help="Number.", autocompletion="complete_queue"),
) -> None:
    """Forget what was set of a queue: it is as iriai.toml says again. For operators.

    A queue that is not there then must not have jobs.
    """
    options.ask(SetQueue(number, ()), follow=False)
    document = {"number": number, "settings": {}}
    options.print_result(document, f"Queue {number} is as in iriai.toml.")


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise UsageProblem(
            "bad-queue-setting", f"'{text}' is not KEY=VALUE", "write one as in state=enabled"
        )
    return key.strip(), value.strip()


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
