"""`iriai eject`: throw a machine out of the cluster."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from iriai.cli.framework.command import MACHINE, GlobalOptions, command_app
from iriai.cli.framework.completion import complete_node
from iriai.cli.framework.standard_streams import print_document
from iriai.client.client import Client
from iriai.model.problem import NotFound, Refused, UsageProblem
from iriai.model.units import printable

REASON_LENGTH_MAX = 200
"""As `identity.documents.revocation` has it: a line for people."""


def eject(
    options: GlobalOptions,
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="The machine.", autocompletion=complete_node)
    ],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Shown to whoever asks why.")
    ] = "",
    anyway: Annotated[
        bool,
        typer.Option("--anyway", help="Also if nobody here has heard of it, or it is this one."),
    ] = False,
) -> None:
    """Throw a machine out of the cluster: all others refuse it from now on.

    For operators. What it runs is lost and run again elsewhere. To let it in again, make a new
    token and have it join. An issuer is refused together with all machines that it signed.
    """
    import msgspec

    from iriai.cli.cluster.operator_session import open_operator
    from iriai.identity.documents.revocation import Ejection
    from iriai.identity.documents.signed_document import DocumentKind

    if len(reason) > REASON_LENGTH_MAX:
        raise UsageProblem("bad-reason", "the reason is too long", "write one line")
    with Client.connect(options.state, follow=False) as client:
        report = client.cluster()
        if not report.cluster:
            raise Refused("no-cluster", "this machine is in no cluster", "nobody can be ejected")
        if not anyway:
            _check(node, report.machine, report.machines)
        operator = open_operator(client, report)
        body = msgspec.msgpack.encode(Ejection(node, time.time(), reason))
        client.publish(DocumentKind.EJECTION, operator.sign(DocumentKind.EJECTION, body))
    if options.as_json:
        print_document({"machine": node, "reason": reason})
    else:
        print(f"{printable(node)} is ejected: members refuse it as soon as they hear of it.")


def _check(node: str, own: str, machines: tuple[str, ...]) -> None:
    if node == own:
        raise Refused(
            "own-machine",
            f"{node} is this machine",
            "'iriai leave' takes it out; to eject it, do it on another member, or say --anyway",
        )
    if node not in machines:
        raise NotFound(
            "no-such-machine",
            f"nobody here has heard of a machine {node}",
            f"there are: {', '.join(machines)}; --anyway ejects a name that is not known",
        )


app = command_app(
    eject,
    panel=MACHINE,
    examples=(("iriai eject momo --reason 'stolen from the office'", "nobody talks to it again"),),
)
